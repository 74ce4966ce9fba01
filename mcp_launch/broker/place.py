"""The directories in which a client says that it works, if it is asked (`roots/list`).

A host whose sessions move without notice is asked, and so is one that starts servers in its own
directory. What contradicts the directory of a server is routed (`routing.PLACES`).
"""

from __future__ import annotations

from mcp_launch import protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.request import Request
    from mcp_launch.protocol.json_text import Object

# How long to wait for the server to ask for the host's roots, or for a call, before we ask …
ASK_AFTER = 0.1
# … and how long a call waits for the answer, if its routing depends on it.
ANSWER_LIMIT = 2.0

ORIGIN = "the host's roots/list"

_SCHEME = "file://"


class Roots:
    """What one client says of its directories, and the calls that wait for that."""

    __slots__ = ("listed", "state", "waiting")

    def __init__(self) -> None:
        self.listed: list[str] = []
        self.state = "known"  # or "due": the client is asked soon; or "asked"
        self.waiting: list[Request] = []

    def read(self, answer: Object) -> None:
        """Note the directories in an answer to `roots/list`."""
        self.state = "known"
        listed = protocol.get_member(answer, "result", "roots")
        roots = listed if isinstance(listed, list) else []
        uris = [protocol.get_member(root, "uri") for root in roots]
        paths = [
            uri[len(_SCHEME) :].removeprefix("localhost")
            for uri in uris
            if isinstance(uri, str) and uri.startswith(_SCHEME)
        ]
        # Any other begins with the name of a machine.
        self.listed = [_decode_path(path) for path in paths if path.startswith("/")]


def _decode_path(path: str) -> str:
    # Not `urllib.parse`: its import takes milliseconds.
    first, *rest = path.encode().split(b"%")
    try:
        parts = [bytes.fromhex(part[:2].decode()) + part[2:] for part in rest]
    except ValueError:
        return path  # it has a bare percent sign
    return b"".join([first, *parts]).decode("utf-8", "surrogateescape")
