"""Records finished calls: one line each, never with results, with arguments only if asked.

Imported when the first call has finished. Several records are made at once, because for a single
one the code is never in the processor's cache, and takes four times as long.
"""

from __future__ import annotations

import os
from time import monotonic, time

from mcp_launch import protocol, state
from mcp_launch.errors import printable
from mcp_launch.protocol import json_text
from mcp_launch.state.calls import CallLog, find_calls
from mcp_launch.values import FAILURE, Found

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.core import Core
    from mcp_launch.broker.request import Request
    from mcp_launch.broker.routing import Served
    from mcp_launch.protocol.json_text import Json

# How much of a reason and of a tool's name is kept.
_REASON_LIMIT = 300
_NAME_LIMIT = 200

# Arguments that take more are not recorded.
_ARGUMENTS_LIMIT = 1 << 14


class Records:
    """Makes records of calls, and writes them."""

    def __init__(self, core: Core, *, keeps_arguments: bool) -> None:
        self._core = core
        self._keeps_arguments = keeps_arguments
        self._log = CallLog(find_calls(os.environ))
        self._since_start = time() - monotonic()
        self._number = 0
        self._described: object = None  # what the context is of
        self._context = b""
        self._secrets: tuple[Served | None, list[str]] | None = None  # of a server's environment
        self._has_lost = False  # a record that could not be made

    def write(self, calls: list[Request]) -> None:
        """Write the records of calls in one go."""
        lines = []
        for call in calls:
            try:
                lines.append(self._make(call))
            except Exception:  # noqa: BLE001  # a host may send anything: only its record is lost
                if not self._has_lost:
                    self._has_lost = True
                    state.note("a call could not be recorded", FAILURE)
        if lines:
            self._log.append(b"".join(lines))

    def _make(self, call: Request) -> bytes:
        began, key, length = call.began, call.id, call.length
        self._number += 1
        described = (call.served, call.place, call.caller, call.pid, call.outcome)
        if described != self._described:
            self._described = described
            self._context = self._describe_context(call)
        meta = call.message.meta
        is_plain = not (call.has_waited or call.held or call.changed or call.reason)
        is_plain = is_plain and "traceparent" not in meta and protocol.PROTOCOL_VERSION not in meta
        return (
            b'{"time":%.3f,"ms":%.3f,"number":%d,"id":%b,"tool":%b,"request":%d,"response":%b,%b%b}\n'
            % (
                began + self._since_start,
                (call.ended - began) * 1000,
                self._number,
                key if len(key) <= _NAME_LIMIT else b"null",
                _find_tool(call),
                call.size,
                b"%d" % length if length else b"null",
                self._context,
                b"" if is_plain and not self._keeps_arguments else self._describe_rest(call),
            )
        )

    def _describe_rest(self, call: Request) -> bytes:
        """Return what most calls do not have, as further members of an object."""
        rest: dict[str, Json] = {}
        if call.has_waited:
            rest["waited"] = True
        if call.held:
            rest["held"] = round(call.held * 1000, 3)
        if call.changed:
            rest["changed"] = [*call.changed]
        if call.reason:
            text = printable(self._core.settings.mask(call.reason))
            rest["reason"] = text[:_REASON_LIMIT]
        for name, key in (("trace", "traceparent"), ("protocol", protocol.PROTOCOL_VERSION)):
            value = call.message.meta.get(key)
            if isinstance(value, str):
                rest[name] = value[:_NAME_LIMIT]
        members = b"," + json_text.encode(rest)[1:-1].encode() if rest else b""
        if self._keeps_arguments and (arguments := self._spell_arguments(call)):
            members += b',"arguments":' + arguments
        return members

    def _spell_arguments(self, call: Request) -> bytes:
        """Return the arguments of a call without secrets; empty if there are none.

        They are encoded on their own: nested as deeply as is possible here, they would be too
        deep as a part of something else.
        """
        given = call.message.params.get("arguments")
        if call.size > _ARGUMENTS_LIMIT or given is None:
            return b""
        from mcp_launch import masking

        if self._secrets is None or call.served is not self._secrets[0]:
            environ = call.served.plan.environ if call.served else {}
            known = masking.list_in_variables({**os.environ, **environ})
            self._secrets = (call.served, [*known])
        try:
            scrubber = masking.Scrubber([*self._secrets[1], *masking.list_in_value(given)])
            return json_text.encode(scrubber.clean_sent({"": given})[""]).encode()
        except RecursionError:
            return b""

    def _describe_context(self, call: Request) -> bytes:
        """Return who has called, and how it ended, as members of an object.

        They are the same as last time for most calls.
        """
        served = call.served or next(iter(self._core.servers.values())).served
        named: dict[str, Json] = {"outcome": call.outcome, "pid": call.pid or None}
        named |= self._name_caller(call, served)
        for client in self._core.clients.values():
            version = protocol.get_member(client.answer, "result", "protocolVersion")
            if isinstance(version, str):  # in the 2026 era each call names its own
                named["protocol"] = version[:_NAME_LIMIT]
        return json_text.encode(named)[1:-1].encode()

    def _name_caller(self, call: Request, served: Served) -> dict[str, Json]:
        context = served.context.at(call.place) if call.place else served.context
        session: str | None = _read(context.session)
        thread: str | None = _read(context.thread)
        stamp = self._core.stamp
        if call.caller is not None:
            named, thread, _ = call.caller
            # A call that names only its thread belongs to that thread's session.
            is_same = named is None and thread == served.bound.thread
            session = served.bound.session if is_same else named
        elif stamp is not None and stamp.carries_many:
            session = thread = None  # it may be any session's
        facts = {
            "host": _read(context.host),
            "session": session,
            "thread": thread,
            "project": _read(context.project_root),
            "cwd": context.place.value,
            "server": self._core.settings.server,
            "launch": self._core.settings.launch,
        }
        return {name: value for name, value in facts.items() if value}


def _read(fact: object) -> str | None:
    return fact.value if isinstance(fact, Found) else None


def _find_tool(call: Request) -> bytes:
    tool = call.message.read_tool()
    return json_text.encode(tool[:_NAME_LIMIT] if isinstance(tool, str) else None).encode()
