"""The hosts of which a launch knows nothing but the name; their files are in `plain`.

One server of theirs may serve any number of sessions, so no call of it is believed to be of the
session before.
"""

from __future__ import annotations

TITLES = {
    "amp": "Amp",
    "antigravity": "Antigravity",
    "cline": "Cline",
    "continue": "Continue",
    "crush": "Crush",
    "droid": "Factory Droid",
    "grok": "Grok Build",
    "junie": "JetBrains Junie",
    "kimi": "Kimi Code",
    "kiro": "Kiro",
    "lmstudio": "LM Studio",
    "openhands": "OpenHands",
    "vibe": "Mistral Vibe",
    "warp": "Warp",
}

# Their programs, as in the kernel's process table.
PROGRAMS = {
    "agy": "antigravity",
    "amp": "amp",
    "antigravity": "antigravity",
    "Antigravity Helper (Plugin)": "antigravity",
    "cline": "cline",
    "cn": "continue",
    "crush": "crush",
    "droid": "droid",
    "grok": "grok",
    "junie": "junie",
    "kimi": "kimi",
    "kimi-code": "kimi",
    "kiro": "kiro",
    "kiro-cli": "kiro",
    "kiro-cli-chat": "kiro",
    "Kiro Helper (Plugin)": "kiro",
    "lm-studio": "lmstudio",
    "LM Studio": "lmstudio",
    "openhands": "openhands",
    "vibe": "vibe",
    "vibe-acp": "vibe",
    "vibe-app-server": "vibe",
    "warp": "warp",
    "warp-terminal": "warp",
}
