"""Records finished calls: one line each, never with results, with arguments only if asked.

Imported when the first call has finished, and used only between messages: what a record needs
to know of a call is read from its line now, not while the host waits.
"""

from __future__ import annotations

import os
from time import monotonic, time

from mcp_launch import protocol, state
from mcp_launch.errors import printable
from mcp_launch.protocol import ID_AT, USUAL_BEGINNING, json_text
from mcp_launch.state.calls import CallLog, find_calls
from mcp_launch.values import FAILURE, Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker import Broker
    from mcp_launch.broker.routing import FollowedCall, Served
    from mcp_launch.hosts import Caller
    from mcp_launch.protocol.json_text import Json, Message

# How much of a reason and of a tool's name is kept.
_REASON_LIMIT = 300
_NAME_LIMIT = 200

# Arguments that take more are not recorded.
_ARGUMENTS_LIMIT = 1 << 14

_VERSION = "io.modelcontextprotocol/protocolVersion"

# How a tool is named in most calls; if it occurs only once, this is the place.
_TOOL = b'"name":"'

_NAMED_VERSION = _VERSION.encode()
_USUAL = (
    b'{"time":%.3f,"ms":%.3f,"outcome":"%b","number":%d,"pid":%d,"tool":"%b","request":%d,'
    b'"response":%d,"id":%b,%b}\n'
)


class Records:
    """Writes what the broker has noted of calls."""

    def __init__(self, broker: Broker, *, keeps_arguments: bool) -> None:
        self._broker = broker
        self._keeps_arguments = keeps_arguments
        self._log = CallLog(find_calls(os.environ))
        # What the last of them describes.
        self._served: Served | None = None
        self._caller: Caller | None = None
        self._place: Found | None = None
        self._context = b""
        self._secrets: tuple[Served | None, list[str]] | None = None  # of a server's environment
        self._has_lost = False  # a record that could not be made

    def write(self) -> None:
        """Write all records so far in one go."""
        calls, self._broker.finished_calls = self._broker.finished_calls, []
        since_start = time() - monotonic()
        self._log.append(b"".join([self._make(call, since_start) for call in calls]))

    def _make(self, call: FollowedCall, since_start: float) -> bytes:
        """Return the record of a call; empty if it cannot be made."""
        try:
            return self._make_usual_line(call, since_start) or self._make_line(call, since_start)
        except Exception as error:  # noqa: BLE001  # a host may send anything: only its record is lost
            if not self._has_lost:
                self._has_lost = True
                # Its text may have values of arguments.
                state.note(f"a call could not be recorded: {type(error).__name__}", FAILURE)
            return b""

    def _make_usual_line(self, call: FollowedCall, since_start: float) -> bytes:
        """Return the record of a call that need not be parsed; empty for any other.

        By far the most common, and a host may make thousands of them in a second.
        """
        line = call.line
        find, rfind = line.find, line.rfind  # CPython finds words faster from the end
        at = rfind(_TOOL) + len(_TOOL)
        end, id_end = find(b'"', at), find(b",", ID_AT)
        request_id, tool = line[ID_AT:id_end], line[at:end]
        if (
            self._keeps_arguments
            or call.reason
            or call.has_waited
            or call.held
            or call.changed
            or call.whole_length
            or rfind(_TOOL, 0, at - 1) >= 0
            or rfind(b"traceparent") >= 0
            or rfind(_NAMED_VERSION) >= 0
            or find(b"\\", 0, end) >= 0
            or not request_id.isdigit()
            or not tool.translate(None, b"_-./").isalnum()
            or not line.startswith(USUAL_BEGINNING)
            or not len(_TOOL) <= at < end < at + _NAME_LIMIT
        ):
            return b""
        began = call.began
        return _USUAL % (
            began + since_start,
            (call.ended - began) * 1000,
            call.outcome.encode(),
            call.number,
            call.pid,
            tool,
            len(line),
            call.answer_length,
            request_id,
            self._describe_context(call),
        )

    def _make_line(self, call: FollowedCall, since_start: float) -> bytes:
        record: Message = {
            "time": round(call.began + since_start, 3),
            "ms": round((call.ended - call.began) * 1000, 3),
            "outcome": call.outcome,
            "number": call.number,
        }
        said = protocol.look(call.line)
        record.update(_describe_call(call, said if isinstance(said, dict) else {}))
        if call.reason:
            text = printable(self._broker.settings.mask(call.reason))
            record["reason"] = text[:_REASON_LIMIT]
        version = protocol.get_member(said, "params", "_meta", _VERSION)
        if isinstance(version, str):
            record["protocol"] = version[:_NAME_LIMIT]
        members = [json_text.encode(record)[1:-1].encode(), self._describe_context(call)]
        if self._keeps_arguments and len(call.line) <= _ARGUMENTS_LIMIT and b"\0" not in call.line:
            arguments = self._spell_arguments(
                call, protocol.get_member(said, "params", "arguments")
            )
            members += [b'"arguments":' + arguments] if arguments else []
        return b"{%b}\n" % b",".join(members)

    def _spell_arguments(self, call: FollowedCall, given: Json) -> bytes:
        """Return the arguments of a call without secrets; empty if there are none.

        They are encoded on their own: nested as deeply as is possible here, they would be too
        deep as a part of something else.
        """
        from mcp_launch import masking

        if given is None:
            return b""

        if self._secrets is None or call.served is not self._secrets[0]:
            environ = call.served.plan.environ if call.served else {}
            known = masking.list_in_variables({**os.environ, **environ})
            self._secrets = (call.served, [*known])
        try:
            scrubber = masking.Scrubber([*self._secrets[1], *masking.list_in_value(given)])
            return json_text.encode(scrubber.clean_sent({"": given})[""]).encode()
        except RecursionError:
            return b""

    def _describe_context(self, call: FollowedCall) -> bytes:
        """Return who has called, as members of an object; the same as last time for most."""
        served, caller, place = call.served, call.caller, call.place
        is_same = served is self._served and place is self._place
        if not is_same or caller != self._caller or not self._context:
            self._served, self._caller, self._place = served, caller, place
            served = served or next(iter(self._broker.backends.values())).served
            named = self._name_caller(call, served)
            for connection in self._broker.connections.values():
                answer = connection.handshake.answer
                version = protocol.get_member(answer, "result", "protocolVersion")
                if isinstance(version, str):  # in the 2026 era each call names its own
                    named["protocol"] = version[:_NAME_LIMIT]
            self._context = json_text.encode(named)[1:-1].encode()
        return self._context

    def _name_caller(self, call: FollowedCall, served: Served) -> dict[str, Json]:
        context = served.context.at(call.place) if call.place else served.context
        session: str | None = _read(context.session)
        thread: str | None = _read(context.thread)
        if call.caller is not None:
            named, thread, _ = call.caller
            # A call that names only its thread belongs to that thread's session.
            is_same = named is None and thread == served.bound.thread
            session = served.bound.session if is_same else named
        elif self._broker.carries_many:
            session = thread = None  # it may be any session's
        facts = {
            "host": _read(context.host),
            "session": session,
            "thread": thread,
            "project": _read(context.project_root),
            "cwd": context.place.value,
            "server": self._broker.settings.server,
            "launch": self._broker.settings.launch,
        }
        return {name: value for name, value in facts.items() if value}


def _read(fact: object) -> str | None:
    return fact.value if isinstance(fact, Found) else None


def _describe_call(call: FollowedCall, said: Message) -> dict[str, Json]:
    tool = call.tool or protocol.get_member(said, "params", "name")
    request_id = said.get("id")
    trace = protocol.get_member(said, "params", "_meta", "traceparent")
    facts: dict[str, Json] = {
        "pid": call.pid,
        "tool": tool[:_NAME_LIMIT] if isinstance(tool, str) else None,
        "request": call.whole_length or len(call.line),
        "response": call.answer_length,
        "waited": call.has_waited,
        "held": round(call.held * 1000, 3),
        "changed": [*call.changed],
        "trace": trace[:_NAME_LIMIT] if isinstance(trace, str) else None,
    }
    found: dict[str, Json] = {name: value for name, value in facts.items() if value}
    if isinstance(request_id, int | float | str) and len(str(request_id)) <= _NAME_LIMIT:
        found["id"] = request_id
    return found
