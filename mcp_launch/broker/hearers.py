"""Who hears a server's message, if it answers nobody's request.

| from a server | goes to |
| --- | --- |
| a question (sampling, elicitation, roots) | the one client at work, else the only one |
| ping; roots, where they are ours to give | answered by us |
| progress; a notification of a stream; a question taken back | whoever it belongs to, or nobody |
| the status of a task | the launch that the task was made for |
| the end of an elicitation | the client that was asked |
| an updated resource | its subscribers, or the only client |
| a log message | the clients at work, else all, each from its own level on |
| a changed list, and everything else | all; of several servers of a client, only the first one's |

A client that has closed its end gets only answers and progress: some break at anything else.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.protocol.memory import ANNOUNCED_BY
from mcp_launch.protocol.message import find_key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.client import Client
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.server import Server
    from mcp_launch.protocol.json_text import Json
    from mcp_launch.protocol.message import Message

PROGRESS, CANCELLED = "notifications/progress", "notifications/cancelled"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
_ELICITED = "notifications/elicitation/complete"
_LOG = "notifications/message"
_UPDATED = "notifications/resources/updated"

# Announce that a list has changed.
CHANGES = {f"notifications/{what}/list_changed" for what in ANNOUNCED_BY.values()}

# The levels of log messages, the least severe first.
LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# How long a server may work on a request that was given up, and how many of these are known.
_ORPHANED_FOR = 60.0
_ORPHANS_LIMIT = 1000

# The states of a task that will not change any more, and how many tasks of a server are known.
_FINISHED = ("completed", "failed", "cancelled")
_TASKS_LIMIT = 10_000

_RELATED_TASK = "io.modelcontextprotocol/related-task"


def find_asked(server: Server, message: Message) -> Request | None:
    """Return the request of a client that a notification belongs to, by our number in it."""
    if message.method == PROGRESS:
        return server.owes.get(spell(message.params.get("progressToken")))
    return server.owes.get(spell(message.meta.get(protocol.SUBSCRIPTION_ID)))


def list_hearers(server: Server, message: Message) -> list[Client]:  # noqa: PLR0911  # one for each row of the table
    """Return the clients that get a notification which belongs to no request."""
    method, params = message.method, message.params
    clients = server.kind.clients
    if method == PROGRESS or protocol.SUBSCRIPTION_ID in message.meta:
        return []  # its request is no longer open
    if method == _ELICITED:
        asked = server.process.elicited.get(find_key(params.get("elicitationId")))
        return [one for one in clients if one is asked]
    if method.startswith("notifications/tasks"):
        owner = find_owner(server, params.get("taskId"))
        return [one for one in clients if one.owner == owner]
    if method == _UPDATED:
        subscribers = _list_subscribers(server, params.get("uri"))
        return subscribers if len(clients) > 1 else clients
    if method == _LOG:
        return _list_listeners(server, params.get("level"))
    if method in CHANGES and not is_first(server):
        return []  # its client has its lists from the first server
    return clients


def is_first(server: Server) -> bool:
    """Return whether clients have their lists from this server."""
    return server.kind.servers[0] is server


def find_person(server: Server, message: Message, now: float) -> tuple[Client | None, str]:  # noqa: PLR0911  # one for each reason
    """Return the client that a question is for; or why there is none."""
    task = protocol.get_member(message.meta.get(_RELATED_TASK), "taskId")
    clients = server.kind.clients
    owner = find_owner(server, task)
    if owner:
        named = [one for one in clients if one.owner == owner]
        client = named[0] if named else None
        is_there = client is not None and client.may_be_asked
        return (client, "") if is_there else (None, "the session that this is for has ended")
    at_work = {one.asker for one in server.list_unfinished() if one.asker is not None}
    if _has_orphans(server, {one.owner for one in at_work or clients}, now):  # type: ignore[union-attr]
        return None, "this may be for a session that has ended or cancelled its request"
    asked = [*at_work] or clients
    if not asked:
        return None, "the session that this is for has ended"
    if len(asked) > 1:
        why = "several sessions share this server, and the request does not say which one it is for"
        return None, why
    client = asked[0]  # type: ignore[assignment]  # servers ask clients only
    if client is not None and client.is_behind and len(clients) > 1:
        return None, "the session that this is for does not read what it is sent"
    if not client.may_be_asked:  # type: ignore[union-attr]
        return None, "the host has closed its end"
    return client, ""


def note_orphan(server: Server, request: Request, now: float) -> None:
    """Note a request whose client does not wait for its answer any more."""
    owner = getattr(request.asker, "owner", "")
    server.orphans[request.number] = (owner, now)
    if len(server.orphans) > _ORPHANS_LIMIT:
        del server.orphans[next(iter(server.orphans))]


def _has_orphans(server: Server, owners: set[str], now: float) -> bool:
    """Return whether a server may still work for another session than those that it serves."""
    fresh = now - _ORPHANED_FOR
    return any(since > fresh and owner not in owners for owner, since in server.orphans.values())


def note_task(server: Server, owner: str, answer: Json) -> None:
    """Note the task that an answer tells of, if it does."""
    result = protocol.get_member(answer, "result")
    told = protocol.get_member(result, "task")
    task = told if isinstance(told, dict) else result
    name, state = (protocol.get_member(task, one) for one in ("taskId", "status"))
    if not isinstance(name, str):
        return
    tasks = server.process.tasks
    tasks[name] = (tasks.get(name, (owner, True))[0], state not in _FINISHED)
    if len(tasks) > _TASKS_LIMIT:
        finished = (one for one, (_, goes_on) in tasks.items() if not goes_on)
        del tasks[next(finished, next(iter(tasks)))]


def find_owner(server: Server, task: Json) -> str:
    """Return the launch that a task was made for; empty if it is not known."""
    return server.process.tasks.get(task, ("", False))[0] if isinstance(task, str) else ""


def find_lowest_level(clients: list[Client]) -> Client | None:
    """Return the client that wants the most log messages; None if none has said what it wants."""
    wanting = [one for one in clients if one.level is not None]
    return min(wanting, key=lambda one: _rank(one.level.params.get("level")), default=None)  # type: ignore[union-attr]


def _rank(level: Json) -> int:
    return LEVELS.index(level) if level in LEVELS else -1


def _list_listeners(server: Server, level: Json) -> list[Client]:
    at_work = {one.asker for one in server.list_unfinished()}
    clients = server.kind.clients
    listening = [one for one in clients if one in at_work] or clients
    if level not in LEVELS:
        return listening
    return [
        one
        for one in listening
        if one.level is None or _rank(one.level.params.get("level")) <= _rank(level)
    ]


def _list_subscribers(server: Server, uri: Json) -> list[Client]:
    """Return the subscribers of a resource, or of one that it is a part of."""
    found = [
        client
        for client, subscribed in server.subscriptions
        if uri == subscribed or str(uri).startswith(_list_parents(subscribed))
    ]
    return [*dict.fromkeys(found)]


def _list_parents(uri: str) -> tuple[str, ...]:
    """Return how the URIs of a resource's parts begin."""
    return (uri,) if uri.endswith("/") else tuple(uri + mark for mark in "/?#")


def spell(number: Json) -> bytes:
    """Return one of our numbers as we write it; empty if it is none."""
    key = find_key(number)
    return b"%d" % key if key.__class__ is int else b""
