"""Requests of clients that say something of themselves: greeting, log level, subscriptions, tasks.

Nothing is confirmed in a server's place: two clients that subscribe to one resource both ask the
server, which gets the lowest log level that any of its clients wants.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker import hearers
from mcp_launch.broker.client import MODERN
from mcp_launch.broker.routing import NotAdmitted
from mcp_launch.broker.server import Server
from mcp_launch.protocol import json_text
from mcp_launch.protocol.memory import name_client
from mcp_launch.protocol.message import read
from mcp_launch.values import REFUSED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.broker.client import Client
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.request import Request
    from mcp_launch.protocol.message import Message

_LEVEL = "logging/setLevel"
_SUBSCRIBE, _UNSUBSCRIBE = "resources/subscribe", "resources/unsubscribe"

# Requests that a later server gets, too.
SETTINGS = {_LEVEL, _SUBSCRIBE, _UNSUBSCRIBE}


def _take_greeting(core: Core, client: Client, request: Request) -> bool:
    """Have a client use the servers of its kind, which get its words."""
    if not client.is_ready:
        client.opened = ""  # it was refused before: this is its first greeting again
    for probe in [one for one in client.asked.values() if one.method == "server/discover"]:
        if isinstance(probe.answerer, Server) and probe.number in probe.answerer.waiting:
            # It does not wait for the answer any more; an older server might die of the question.
            del probe.answerer.waiting[probe.number]
            code, text = protocol.METHOD_NOT_FOUND, "Method not found"
            core.reply(probe, protocol.make_error(probe.id, code, text))
    # One that cannot be named is only for this client.
    kind = core.assign(client, name_client(request.message.parse()) or f"only {client.name}")
    if kind.greeting is None:
        kind.greeting = request.message
        kind.memory = core.recall.find(request.message, None, core.now)
        for server in kind.servers:
            core.happen(server, "hailed")
    return False


def _take_discovery(core: Core, client: Client, request: Request) -> bool:
    """Answer a discovery in a pool as the last one: a server that was greeted may die of it."""
    if not core.settings.returns_unread or client.kind.name:
        return False
    answer = core.recall.discoveries.get(name_client(request.message.parse()))
    if answer is not None:
        core.reply(request, answer.with_id(request.id))
        return True
    modern = core.kinds.get(MODERN)
    if not client.kind.servers and modern is not None and modern.servers:
        core.assign(client, MODERN)
    return False


def _take_level(core: Core, client: Client, request: Request) -> bool:
    """Have the server send what the client wants that wants most."""
    if request.message.params.get("level") not in hearers.LEVELS:
        return False  # the server says what it thinks of it
    client.level = request.message
    for server in client.kind.servers[1:]:
        if server.state in {"ready", "draining"}:
            core.ask(server, _with_lowest_level(client, request.message), lambda _: None)
    return False


def _with_lowest_level(client: Client, message: Message) -> Message:
    """Return a request for log messages with the level of the client that wants most."""
    lowest = hearers.find_lowest_level(client.kind.clients)
    if lowest is None or lowest.level is None or lowest is client:
        return message
    wanted = json_text.encode(lowest.level.params["level"]).encode()
    return read(message.put(wanted, "params", "level"))


def _take_task(core: Core, client: Client, request: Request) -> bool:
    """Refuse a request that concerns another client's task, or those of all."""
    task = request.message.params.get("taskId")
    owners = {hearers.find_owner(one, task) for one in client.kind.servers} - {""}
    if request.method == "tasks/list" and len(client.kind.clients) > 1:
        text = "several sessions share this server, so its tasks cannot be listed"
    elif owners and client.owner not in owners:
        text = "several sessions share this server, and this task is another's"
    else:
        return False
    text = f"[mcp-launch] {text}"
    core.end_request(request, protocol.make_refusal(request.id, request.method, text), REFUSED)
    return True


# Each returns whether it has handled a request; if not, a server gets it.
HANDLERS: dict[str, Callable[[Core, Client, Request], bool]] = {
    "initialize": _take_greeting,
    "server/discover": _take_discovery,
    _LEVEL: _take_level,
    **dict.fromkeys(
        ("tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update"), _take_task
    ),
}


def list_with_task(servers: list[Server], request: Request) -> list[Server] | NotAdmitted:
    """Return the servers that a request about a task may be for, all if none is known to have it.

    Two servers may use the same id for a task: then only the caller tells which one is meant. If it
    is known, it decides: else its session could wait for a server that never gets the request.
    """
    if request.caller is not None:
        return servers
    task = request.message.params.get("taskId")
    having = [one for one in servers if task in one.process.tasks] if isinstance(task, str) else []
    if len(having) > 1:
        return NotAdmitted(
            f"{len(having)} servers of different sessions have a task {task}, and this request "
            "does not say which session it is for",
            "send the session in _meta, as with a call",
            is_counted=True,
        )
    return having or servers


def note_setting(server: Server, request: Request) -> bool:
    """Note what a server has to be told again; return whether it need not hear of this now."""
    uri = request.message.params.get("uri")
    client: Client = request.asker  # type: ignore[assignment]  # servers have no settings
    if request.method == _LEVEL and request.message.params.get("level") in hearers.LEVELS:
        request.message = _with_lowest_level(client, request.message)
    if not isinstance(uri, str):
        return False
    if request.method == _SUBSCRIBE:
        server.subscriptions[client, uri] = request
        return False
    server.subscriptions.pop((client, uri), None)
    return any(subscribed == uri for _, subscribed in server.subscriptions)


def forget_setting(server: Server, request: Request) -> None:
    """Forget a setting that the server has refused."""
    client: Client = request.asker  # type: ignore[assignment]
    if request.method == _LEVEL and client.level and client.level.key == request.message.key:
        client.level = None
    elif request.method == _SUBSCRIBE:
        server.subscriptions.pop((client, str(request.message.params.get("uri"))), None)


def forget_client(core: Core, client: Client) -> None:
    """Take back what a client that has left has set, where no other has set the same."""
    for server in core.servers.values():
        mine = [uri for one, uri in server.subscriptions if one is client]
        for uri in mine:
            del server.subscriptions[client, uri]
            if all(other != uri for _, other in server.subscriptions):
                _tell(core, server, _UNSUBSCRIBE, {"uri": uri})
    lowest = hearers.find_lowest_level(client.kind.clients)
    if client.level is not None and lowest is not None and lowest.level is not None:
        for server in client.kind.servers:
            _tell(core, server, _LEVEL, {"level": lowest.level.params["level"]})


def cancel_tasks(core: Core, server: Server, owners: set[str]) -> None:
    """Cancel the tasks that go on for a client that has left."""
    for task, (owner, goes_on) in sorted(server.process.tasks.items()):
        if goes_on and owner not in owners:
            server.process.tasks[task] = (owner, False)
            _tell(core, server, "tasks/cancel", {"taskId": task})


def _tell(core: Core, server: Server, method: str, params: dict[str, object]) -> None:
    if server.state in {"ready", "draining"}:
        message = read(protocol.make_request(method, params))  # type: ignore[arg-type]
        core.ask(server, message, lambda _: None)
