"""The texts that explain what the doctor finds: one Markdown file for each code.

They are files, not strings, so that they can be read in the repository as well.
"""

from __future__ import annotations

import os

from mcp_launch.doctor.finding import CHECKS

# The parts of every text, in this order.
HEADINGS = (
    "What it means",
    "Why it matters",
    "How it comes about",
    "How to fix it",
    "Example",
)

# What the codes of a group are about, by how they begin.
GROUPS = {
    "ML0": "mcp-launch itself",
    "ML1": "What the hosts' files say",
    "ML2": "What a server gets when its host starts it",
    "ML3": "What a server does when it is started (doctor --live)",
    "ML4": "What runs now",
}

# The group whose problems show only when servers are started.
_LIVE = "ML3"

DIRECTORY = os.path.join(os.path.dirname(__file__), "explanations")


def read_explanation(code: str) -> str:
    """Return the Markdown text about a code."""
    with open(os.path.join(DIRECTORY, f"{code}.md"), encoding="utf-8") as file:
        return file.read()


def explain_level(code: str) -> str:
    """Return how bad a finding with this code is and which command reports it, as Markdown."""
    level = CHECKS[code].level
    article = "An" if level == "error" else "A"
    option = " --live" if code.startswith(_LIVE) else ""
    return f"{article} {level}, reported by `mcp-launch doctor{option}`."


def find_codes(prefix: str) -> list[str]:
    """Return the codes that begin like this, in any case and with or without the letters."""
    wanted = prefix.upper()
    wanted = wanted if wanted.startswith("M") else f"ML{wanted}"
    return [code for code in CHECKS if code.startswith(wanted)]
