"""Compare version numbers.

A launch needs it only to explain why a program was not found.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from packaging.version import Version


def parse(text: str) -> Version | None:
    """Return a version that can be compared with others; None if the text has no number.

    npm has names for pre-releases that Python's versions lack (1.2.0-nightly.5). Whatever the
    name, a pre-release comes before the release itself.
    """
    import re

    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        found = re.search(r"(\d+(?:\.\d+)*)(-?)", text)
        return Version(found[1] + (".dev0" if found[2] else "")) if found else None
