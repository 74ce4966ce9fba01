"""Find the servers that a shell script adds; the script is neither run nor changed.

Crush's `crushrc` is a script whose lines say `mcp add NAME --command ...`. What such a line means
only a shell can say, so nothing but its name is read.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_launch.documents.positions import Spot

if TYPE_CHECKING:
    from mcp_launch.protocol.json_text import Json

_ADDED = re.compile(r"""^[ \t]*mcp[ \t]+add[ \t]+(["']?)([\w@./-]+)\1(?=\s|$).*$""", re.MULTILINE)


def read(text: str) -> tuple[Json, list[Spot]]:
    """Return the servers that a script adds, each without a command, and their lines."""
    servers: dict[str, Json] = {}
    spots = []
    for line in _ADDED.finditer(text):
        servers[line[2]] = {}
        spots.append(Spot(("mcp", line[2]), line.span(2), line.span(2)))
    return {"mcp": servers}, spots
