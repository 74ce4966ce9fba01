"""Which of two releases is newer.

On the launch path it is used only to explain why a program was not found.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from packaging.version import Version


def parse(text: str) -> Version | None:
    """Return a release that can be compared with others; None if no number is in the text.

    npm's names of releases to come (1.2.0-nightly.5) are more than Python knows. Whatever
    they are called, they come before the release itself.
    """
    import re

    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        found = re.search(r"(\d+(?:\.\d+)*)(-?)", text)
        return Version(found[1] + (".dev0" if found[2] else "")) if found else None
