"""The state of an idle launch as plain values, from which another broker can go on.

It has no server, or one that a pool keeps, which need not notice. The broker does not read or
write anything itself, so its attributes are its state. While nothing goes on they are few: the
handshake, the host's settings and streams, what the host knows of each list, the session that the
last server served, some counters. Everything else must be as in a new broker, or there is no
snapshot.
"""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.routing import Binding, Served
from mcp_launch.errors import LaunchError
from mcp_launch.protocol.memory import KnownList, Remembered, hash_page, name_client
from mcp_launch.protocol.requests import Ticket
from mcp_launch.values import Found, Missing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mcp_launch.broker import Broker
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.broker.routing import PlanFor

    # What `json_text` can spell.
    Spelt = Any

# The attributes that are taken over, of each object.
BROKER = (
    "_binding_has_changed",
    "_deaths",
    "_finished",
    "_ids",
    "_restart_until",
    "carries_many",
    "last_call",
    "refusals",
    "unanswered",
)
ADMISSION = ("place", "root")
CONNECTION = (
    "_refused",
    "backend",
    "client",
    "discovery_was_refused",
    "greeting_key",
    "roots",
    "roots_are_due",
    "roots_key",
    "roots_were_asked",
)
HANDSHAKE = ("answer", "era", "greeting", "initialized", "is_over", "pending")
BACKEND = (
    "_acknowledged",
    "_calls_at_start",
    "_unacknowledged",
    "calls",
    "calls_of_others",
    "connections",
    "failed_wakes",
    "generation",
    "gone_tools",
    "greeting_was_answered",
    "greeting_was_refused",
    "has_run",
    "input_is_closed",
    "is_checking",
    "is_late",
    "is_overdue",
    "is_resting",
    "is_successor",
    "is_unused",
    "is_unverified",
    "is_waking",
    "last_active",
    "last_length",
    "output_has_ended",
    "owes_newline",
    "ready_since",
    "remembered_tools",
    "restart_requests",
    "retry_at",
    "speaks_to_its_host",
    "starts",
    "task_hosts",
    "tasks",
    "unasked",
    "wake_error",
    "wakes",
    "why_awake",
    "why_given_up",
)
REQUESTS = ("_count", "level", "listening", "subscriptions")
LINES = ("holds_requests", "noise_count")
BOUND = ("state", "session", "thread", "evidence")
CONTEXT = ("session", "thread", "place")
MEMORY = ("answers", "client", "has_changed", "is_due", "is_new", "size_of_server", "written")
# The same, if a server runs.
RUNNING = ("keeps_order", "pid", "state")

TICKET = ("connection", "key", "method", "line", "is_noted", "id", "token")

# What must be empty or false, of each object.
IDLE_BROKER = (
    "_failure_was_sent",
    "_grace_limit",
    "host_is_lost",
    "_is_reading",
    "failure",
    "finished_calls",
    "is_out_of_time",
    "is_shown_as_tool",
    "out",
    "signalled",
)
IDLE_CONNECTION = (
    "batches",
    "calls",
    "input_has_ended",
    "input_is_lost",
    "reader_is_lost",
    "server_requests",
    "unsent",
)
IDLE_BACKEND = (
    *("has_neighbours", "held", "next_deadline", "next_served", "own_requests", "queue"),
    *("restart", "why_replaced"),
)
IDLE_REQUESTS = ("_noted", "tokens")

# The same, if a server runs.
IDLE_RUNNING = ("expired", "input_is_closed", "is_overdue", "is_resting", "output_has_ended")


def describe(broker: Broker, *, may_run: bool = False) -> dict[str, Spelt] | None:
    """Return the state of a broker; None if it cannot be described exactly.

    It has no server or, if that may run, one that has nothing to do.
    """
    if len(broker.connections) != 1 or len(broker.backends) != 1 or not _is_idle(broker):
        return None
    (connection,), (backend,) = broker.connections.values(), broker.backends.values()
    is_running = backend.state == "ready" and may_run and not _has_any(backend, IDLE_RUNNING)
    if backend.state != "absent" and not is_running:
        return None
    lists = _describe_lists(connection, backend)
    if lists is None:
        return None
    served, requests = backend.served, backend.requests
    try:
        return {
            "broker": _read(broker, BROKER),
            "admission": _read(broker._admission, ADMISSION),  # noqa: SLF001  # a part of its state
            "connection": _read(connection, CONNECTION),
            "handshake": _read(connection.handshake, HANDSHAKE),
            "memories": [_read(memory, MEMORY) for memory in connection.memories.values()],
            "backend": _read(backend, BACKEND),
            "running": _read(backend, RUNNING) if is_running else {},
            "requests": _read(requests, REQUESTS),
            "open": [[_spell(key), _read(one, TICKET)] for key, one in requests.open.items()],
            "lists": lists,
            "lines": _read(backend.lines, LINES),
            "bound": _read(served.bound, BOUND),
            "context": _read(served.context, CONTEXT),
        }
    except (_Indescribable, RecursionError):
        return None


def restore(broker: Broker, described: dict[str, Spelt], plan_for: PlanFor) -> None:
    """Give a new broker, with one connection and one backend, a state that was described.

    Raises:
        LaunchError: The directory in which the last server worked is gone.

    """
    (connection,), (backend,) = broker.connections.values(), broker.backends.values()
    _write(broker, described["broker"])
    _write(broker._admission, described["admission"])  # noqa: SLF001  # a part of its state
    _write(connection, described["connection"])
    _write(connection.handshake, described["handshake"])
    for kept in described["memories"]:
        memory = Remembered("", 0.0)
        _write(memory, kept)
        connection.memories[memory.client] = memory
    _write(backend, described["backend"])
    _write(backend, described["running"])
    _write(backend.requests, described["requests"])
    for key, kept in described["open"]:
        ticket = Ticket("", b"", "", b"", is_noted=False)
        _write(ticket, kept)
        backend.requests.open[_read_spelt(key)] = ticket
    for method, request, count in described["lists"]:
        known = backend.requests.lists[method] = KnownList(method, _read_spelt(request))
        known.pages = _list_pages(connection, known)[:count]
    _write(backend.lines, described["lines"])
    backend.served = _restore_served(backend.served, described, plan_for)
    backend.wait_as_needed()


def _restore_served(served: Served, described: dict[str, Spelt], plan_for: PlanFor) -> Served:
    bound = Binding(*(_read_spelt(described["bound"][name]) for name in BOUND))
    session, thread, place = (_read_spelt(described["context"][name]) for name in CONTEXT)
    context, plan = served.context.for_session(session, thread), served.plan
    was_moved = place.value != context.place.value
    is_same = not was_moved and place.origin == context.place.origin
    try:
        # The next server is planned again; until then, this describes the one before it.
        context, plan = plan_for(context, None if is_same else place)
    except LaunchError:
        if was_moved:
            raise
    return Served(context, bound, plan)


def _is_idle(broker: Broker) -> bool:
    """Return whether nothing goes on in a broker."""
    (connection,), (backend,) = broker.connections.values(), broker.backends.values()
    requests, comparison = backend.requests, backend.comparison
    is_within = backend.lines.is_midway or backend.lines.is_within_a_line
    is_empty = not (
        _has_any(broker, IDLE_BROKER)
        or _has_any(connection, IDLE_CONNECTION)
        or _has_any(backend, IDLE_BACKEND)
        or _has_any(requests, IDLE_REQUESTS)
        or requests.list_unfinished()
    )
    is_quiet = not (is_within or connection.lines.is_midway or comparison.is_going_on)
    has_exited = backend.exit_code is not None
    return is_empty and is_quiet and not has_exited and broker.phase == "serving"


def _has_any(owner: object, names: Iterable[str]) -> bool:
    return any(getattr(owner, name) for name in names)


# Lists: hashes of their pages mean nothing to another process, so they are made again.


def _describe_lists(connection: HostConnection, backend: Backend) -> list[Spelt] | None:
    """Return what the host knows of each list; None if memory has something else."""
    described = []
    for known in backend.requests.lists.values():
        if known.pages != _list_pages(connection, known)[: len(known.pages)]:
            return None
        described.append([known.method, _spell(known.request), len(known.pages)])
    return described


def _list_pages(connection: HostConnection, known: KnownList) -> list[int]:
    """Return the hashes of the pages of a list in memory."""
    client = name_client(protocol.look_message(known.request)) or connection.client
    memory = connection.memories.get(client)
    pages = [] if memory is None else memory.list_pages(known.method)
    return [hash_page(known.method, page) for page in pages]


# Values


class _Indescribable(Exception):  # there is no snapshot then
    """A value that cannot be spelt."""


def _read(owner: object, names: Iterable[str]) -> dict[str, Spelt]:
    return {name: _spell(getattr(owner, name)) for name in names}


def _write(owner: object, spelt: dict[str, Spelt]) -> None:
    for name, value in spelt.items():
        setattr(owner, name, _read_spelt(value))


def _spell(value: Any) -> Spelt:  # noqa: ANN401  # of any of the types below
    """Return a value as JSON: a plain one as it is, any other in a list that begins with its type.

    Raises:
        _Indescribable: It is of another type, or of a type that was derived from one of these.

    """
    kind = LaunchError if isinstance(value, LaunchError) else value.__class__
    if value is None or kind in {bool, int, float, str}:
        return value
    if kind not in _KINDS:
        raise _Indescribable
    return [kind.__name__, *_KINDS[kind][0](value)]


def _read_spelt(spelt: Spelt) -> Any:  # noqa: ANN401  # as above
    if spelt.__class__ is not list:
        return spelt
    name, *parts = spelt
    return _NAMED[name](parts)


# How a value is taken apart, and put together again.
_KINDS: dict[type, tuple[Any, Any]] = {
    bytes: (lambda value: [value.decode("latin-1")], lambda parts: parts[0].encode("latin-1")),
    list: (lambda value: map(_spell, value), lambda parts: [_read_spelt(one) for one in parts]),
    tuple: (lambda value: map(_spell, value), lambda parts: tuple(map(_read_spelt, parts))),
    set: (lambda value: map(_spell, sorted(value)), lambda parts: set(map(_read_spelt, parts))),
    dict: (
        lambda value: [[_spell(name), _spell(one)] for name, one in value.items()],
        lambda parts: {_read_spelt(name): _read_spelt(one) for name, one in parts},
    ),
    Found: (lambda value: [value.value, value.origin], lambda parts: Found(*parts)),
    Missing: (lambda value: value.searched, Missing),
    LaunchError: (
        lambda value: [value.problem, value.fix],
        lambda parts: LaunchError(parts[0], fix=parts[1]),
    ),
}
_NAMED = {kind.__name__: put_together for kind, (_, put_together) in _KINDS.items()}
