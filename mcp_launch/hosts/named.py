"""The hosts of which a launch knows nothing but the name; their files are in `plain`.

One server of theirs may serve any number of sessions, so no call of it is believed to be of the
session before.
"""

from __future__ import annotations

TITLES = {
    "amp": "Amp",
    "antigravity": "Antigravity",
    "crush": "Crush",
    "grok": "Grok Build",
    "junie": "JetBrains Junie",
    "kiro": "Kiro",
    "lmstudio": "LM Studio",
    "warp": "Warp",
}

# Their programs, as in the kernel's process table.
PROGRAMS = {
    "agy": "antigravity",
    "amp": "amp",
    "antigravity": "antigravity",
    "Antigravity Helper (Plugin)": "antigravity",
    "crush": "crush",
    "grok": "grok",
    "junie": "junie",
    "kiro": "kiro",
    "kiro-cli": "kiro",
    "kiro-cli-chat": "kiro",
    "Kiro Helper (Plugin)": "kiro",
    "lm-studio": "lmstudio",
    "LM Studio": "lmstudio",
    "warp": "warp",
    "warp-terminal": "warp",
}
