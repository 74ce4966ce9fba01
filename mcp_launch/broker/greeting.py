"""How a server is greeted, gets what its clients have set, and has its lists compared.

Every server is greeted by us, with what its client has said: the first one, one that follows a
crash and one that wakes from rest start alike. What it then has to be told is replayed, and what
has waited is placed again.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import hearers, recall, succession
from mcp_launch.protocol.memory import (
    ANNOUNCED_BY,
    LISTS,
    KnownList,
    find_question,
    hash_page,
    name_client,
)
from mcp_launch.protocol.message import read
from mcp_launch.values import RESTART

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client, Kind
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.server import Server
    from mcp_launch.protocol.json_text import Object
    from mcp_launch.protocol.message import Message

_INITIALIZED = b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n'

# How long a server may take to answer the greeting, if its client knows nothing of it: Codex's own
# limit for a start. And if a request waits: a package that is installed first takes its time.
GREETING_LIMIT = 30.0
WAKING_LIMIT = 120.0


def greet(core: Core, server: Server) -> None:
    """Greet a server as its clients have greeted us; those of the 2026 era have not."""
    greeting = server.kind.greeting
    if greeting is None:
        core.happen(server, "greeted")
        return
    if server.kind.is_opened:
        limit = WAKING_LIMIT if server.waiting else GREETING_LIMIT
        core.timers.set("greeting", server.name, core.now + limit)
    core.ask(server, greeting, lambda answer: _take_greeting(core, server, answer))


def _take_greeting(core: Core, server: Server, answer: Message) -> None:
    core.timers.cancel("greeting", server.name)
    said, kind = answer.parse(), server.kind
    if "error" not in said:
        kind.answer = answer
        if kind.greeting is not None:
            _learn(core, server, kind.greeting, said, answer.line, is_own=True)
        core.out.append(("send", server.name, _INITIALIZED))
        core.happen(server, "greeted")
        return
    waiting = [one for one in server.waiting.values() if one.method == "initialize"]
    if not waiting:
        server.process.why_ended = "had refused the handshake"
        core.happen(server, "failed")
        return
    if succession.refuse_greeting(core, server, said):
        return
    kind.greeting = None  # the client may say another
    for request in waiting:
        del server.waiting[request.number]
        core.reply(request, answer.with_id(request.id))
    core.happen(server, "refused")


def restore(core: Core, server: Server) -> None:  # noqa: C901  # everything that a new server has to know
    """Tell a new server what its clients have set, compare its lists, and give it what waits."""
    kind, process = server.kind, server.process
    process.ready_since = core.now
    server.stand_in, server.why_absent = None, ""
    if core.router.moving is server:
        core.router.moving = None
    lowest = hearers.find_lowest_level(kind.clients)
    if lowest is not None and lowest.level is not None:
        core.ask(server, lowest.level, _ignore)
    for request in {uri: one for (_, uri), one in server.subscriptions.items()}.values():
        core.ask(server, request.message, _ignore)
    if hearers.is_first(server):
        for client in kind.clients:
            for stream in client.streams.values():
                if stream.number not in server.owes:
                    core.send_request(server, stream, [])
        for known in process.comparison.begin(kind.lists):
            _ask_for_list(core, server, known, known.request)
    if server.restart_from is None or server.history.starts > server.restart_from:
        if server.restart_from is not None:
            core.note("restarted on request", RESTART)
            succession.end_restart(core, server)
        flush(core, server)
    else:
        core.happen(server, "unfit")


def _ignore(_answer: Message) -> None:
    """Ignore an answer that says nothing."""


def flush(core: Core, server: Server) -> None:
    """Give a server what has waited for it, each placed again."""
    core.router.known = None if len(server.kind.servers) > 1 else core.router.known
    waiting, server.waiting = server.waiting, {}
    for request in waiting.values():
        if request.id:
            core.place(request)
        elif server.state == "ready":
            core.out.append(("send", server.name, request.message.line))
    core.resume(server)
    succession.close_if_over(core, server)
    succession.expect_rest(core, server)


def _ask_for_list(core: Core, server: Server, known: KnownList, question: bytes) -> None:
    message = read(question)
    core.ask(server, message, lambda answer: _compare(core, server, known, message, answer))


def _compare(core: Core, server: Server, known: KnownList, asked: Message, answer: Message) -> None:
    """Compare a page of a list with what the clients have; memory gets what is new."""
    said, process = answer.parse(), server.process
    comparison = process.comparison
    following = comparison.take(known, said, answer.line)
    _learn(core, server, asked, said, answer.line, is_own=True)
    if following and server.state in {"ready", "draining"}:
        _ask_for_list(core, server, known, following)
    changed, comparison.changed = comparison.changed, []
    for method in changed:
        announce(core, server.kind, method)
    if not comparison.is_going_on:
        succession.expect_rest(core, server)


def announce(core: Core, kind: Kind, method: str) -> None:
    """Notify clients that one of their lists is outdated."""
    what = ANNOUNCED_BY[method]
    changed = protocol.make_notification(f"notifications/{what}/list_changed")
    announced = ("result", "capabilities", what, "listChanged")
    for client in kind.clients:
        if client.opened == "initialize" and protocol.get_member(client.answer, *announced):
            core.inform(client, changed)
        for stream in client.streams.values():
            wanted = protocol.get_member(stream.message.params, "notifications")
            if protocol.get_member(wanted, f"{what}ListChanged"):
                meta: Object = {protocol.SUBSCRIPTION_ID: 0}
                line = protocol.make_notification(
                    f"notifications/{what}/list_changed", {"_meta": meta}
                )
                path = ("params", "_meta", protocol.SUBSCRIPTION_ID)
                core.inform(client, read(line).put(stream.id, *path))


# What is learnt


def note_answer(core: Core, server: Server, request: Request, answer: Message) -> None:
    """Note a server's answer to a client's greeting, or to its request for a list."""
    said = answer.parse()
    if request.method == "server/discover":
        core.recall.discoveries.setdefault(name_client(request.message.parse()), answer)
    _note_page(request, said, answer.line)
    _learn(core, server, request.message, said, answer.line, is_own=False)


def _note_page(request: Request, said: Object, line: bytes) -> None:
    """Note what a client has of a list."""
    method = request.method
    if method not in LISTS:
        return
    lists = request.asker.kind.lists  # type: ignore[union-attr]  # clients ask for lists
    if not request.message.params.get("cursor"):  # an empty one counts as none
        lists[method] = KnownList(method, request.message.line)
    if "result" in said and method in lists:
        lists[method].pages.append(hash_page(method, line))


def _learn(  # noqa: PLR0913  # an answer, and what it answers
    core: Core, server: Server, asked: Message, said: Object, line: bytes, *, is_own: bool
) -> None:
    """Remember an answer, if it is as a fresh server's.

    A call may change a server's lists, also without a notification. What we ask at its start it is
    asked before any call, so there only a notification counts.
    """
    process, question = server.process, find_question(asked.parse())
    is_fresh = not process.has_changed_lists if is_own else not process.is_used
    if question is None or not is_fresh or not hearers.is_first(server):
        return
    if core.settings.is_used_by_others(server.name) or not server.kind.clients:
        return
    client = server.kind.clients[0]
    wait = core.recall.learn(asked, client, question, said, line, core.now)
    if wait is not None:
        core.timers.set("keep", "", core.now + wait)


# Without a server


def answer_from_memory(core: Core, server: Server, request: Request, answer: bytes) -> None:
    """Answer a request in place of a server that is not there, or not ready."""
    client: Client = request.asker  # type: ignore[assignment]
    message = read(answer)
    said = message.parse()
    _note_page(request, said, answer)
    is_first = not client.opened and recall.is_greeting(request.method)
    if request.method == "tools/list" and core.settings.tools is not None:
        answer = core.settings.tools.filter(answer)
    core.reply(request, answer, message)
    memory = core.recall.find(request.message, client, core.now)
    if not is_first or "result" not in said or memory is None or client.kind.answer is not None:
        return
    core.note(f"the host is answered from memory ({recall.describe(memory, core.now)})")
    may_check = core.settings.ignores_changes and server.state == "absent"
    if may_check and server.stand_in is None and core.recall.take_due(memory):
        core.note("this memory is old: a server is started to compare it")
        core.happen(server, "needed")
        server.process.is_checked_only = True


def note_opening(core: Core, client: Client, request: Request, answer: Message) -> None:
    """Note the answer that opens a connection: any, but for a refused discovery."""
    said = answer.parse()
    if request.method == "server/discover" and "result" not in said:
        return  # the host sends `initialize` next
    client.opened, client.answer = request.method, said
    core.write_lease()


# Streams of the 2026 era


def hold_stream(core: Core, client: Client, request: Request) -> bool:
    """Keep a stream of list changes open without a server; False for any other stream."""
    granted = recall.grant(client, request.message)
    if granted is None:
        return False
    client.streams[request.number] = request
    request.is_acknowledged = True
    meta: Object = {protocol.SUBSCRIPTION_ID: request.message.parse()["id"]}
    confirmed = protocol.make_notification(
        "notifications/subscriptions/acknowledged", {"_meta": meta, "notifications": granted}
    )
    core.out.append(("send", client.name, confirmed))
    return True


def close_stream(request: Request, answer: Message) -> bytes:
    """Return the answer that ends a stream, as its client knows it."""
    request.asker.streams.pop(request.number, None)  # type: ignore[union-attr]
    line = read(answer.with_id(request.id))
    path = ("result", "_meta", protocol.SUBSCRIPTION_ID)
    return line.put(request.id, *path) if line.raw(*path) else line.line


def name_asker(request: Request, message: Message) -> bytes:
    """Return a notification as its client knows it; empty if it gets none."""
    if message.method == hearers.PROGRESS:
        token = request.token
        return message.put(token, "params", "progressToken") if token else b""
    if message.method == hearers.ACKNOWLEDGED:
        if request.is_acknowledged:
            return b""  # by us, or by an earlier server
        request.is_acknowledged = True
    return message.put(request.id, "params", "_meta", protocol.SUBSCRIPTION_ID)
