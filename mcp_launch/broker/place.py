"""The directories in which a client says that it works, if it is asked (`roots/list`).

A host whose sessions move without notice is asked, and so is one that starts servers in its own
directory. What contradicts the directory of a server is routed (`routing.PLACES`).
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol.message import read
from mcp_launch.values import Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.request import Request
    from mcp_launch.protocol.json_text import Object
    from mcp_launch.protocol.message import Message

# How long to wait for the server to ask for the host's roots, or for a call, before we ask …
_ASK_AFTER = 0.1
# … and how long a call waits for the answer, if its routing depends on it.
_ANSWER_LIMIT = 2.0

_ORIGIN = "the host's roots/list"

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


def expect_roots(core: Core, client: Client) -> None:
    """Have the roots asked for soon: the client is ready, or its roots have changed."""
    settings, greeted = core.settings, client.kind.greeting
    may_be_elsewhere = settings.moves_unannounced or settings.is_host_directory
    if greeted is None or not may_be_elsewhere or settings.cwd not in {"session", "project_root"}:
        return
    if protocol.get_member(greeted.params, "capabilities", "roots") is not None:
        client.roots.state = "due"
        core.timers.set("roots", client.name, core.now + _ASK_AFTER)


def hold_call(core: Core, client: Client, request: Request) -> bool:
    """Return whether a call has to wait for the roots; if so, keep it."""
    roots = client.roots
    if roots.state == "due":
        _ask(core, client)
    if core.router.rule.place == "deliver":
        return False
    if not roots.waiting:
        core.timers.set("roots", client.name, core.now + _ANSWER_LIMIT)
    roots.waiting.append(request)
    return True


def _ask(core: Core, client: Client) -> None:
    client.roots.state = "asked"
    message = read(protocol.make_request("roots/list"))
    core.ask(client, message, lambda answer: note_roots(core, client, answer))


def note_roots(core: Core, client: Client, answer: Message) -> None:
    """Compare the directories of a client with that of its server."""
    client.roots.read(answer.parse())
    settings, roots = core.settings, client.roots.listed
    if client.kind.servers:
        server = client.kind.servers[0]
        where = server.served.context.place
        if settings.is_host_directory:
            roots = list(filter(settings.is_directory, roots))
        is_elsewhere = bool(roots) and not core.router.is_at(where.value, roots)
        core.router.contradict(Found(roots[0], _ORIGIN) if is_elsewhere else None)
        if server.served.context.is_host_directory and roots and not is_elsewhere:
            server.served = server.served.at(Found(where.value, _ORIGIN))
        if is_elsewhere:
            core.note(f"the host works in {roots[0]}, the server in {where.value}")
        core.write_lease()
    stop_waiting(core, client)


def stop_waiting(core: Core, client: Client) -> None:
    """Go on with what is known of a client's directories."""
    client.roots.state = "known"
    core.timers.cancel("roots", client.name)
    waiting, client.roots.waiting = client.roots.waiting, []
    for request in waiting:
        request.caller = core.router.read_caller(request.method, request.message.meta)
        core.place(request)


def handle_timer(core: Core, name: str) -> None:
    """Ask for the roots or, if a call waits for them already, go on without them."""
    client = core.clients.get(name)
    if client is not None and client.roots.waiting:
        stop_waiting(core, client)
    elif client is not None and client.roots.state == "due":
        _ask(core, client)
