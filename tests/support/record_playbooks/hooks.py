"""Put a recorder around the core of a launch: wraps what reads, writes, starts and ends.

The package knows nothing of it. Every hook calls what it replaces, and one that finds
nothing to wrap fails at once: a recording with a gap would be worse than none.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from record_playbooks import describe
from record_playbooks.recorder import Recorder
from record_playbooks.wrapping import add_after, add_before, add_on_error, wrap_os

from mcp_launch import launch, runtime, trace
from mcp_launch.broker import outer_launch, replacement
from mcp_launch.errors import LaunchError
from mcp_launch.launch import context, profile
from mcp_launch.runtime import failed_launch, loop, relay, streams
from mcp_launch.state import leases
from mcp_launch.system import guardian, guardian_process, kernel

if TYPE_CHECKING:
    from collections.abc import Callable

_ORDERS = {guardian_process.INPUT_ENDED: "input-ended", guardian_process.REPLACED: "replaced"}


def install(name: str, test: str) -> None:
    """Record this process's launch under a name."""
    recorder = Recorder(name, test)
    _record_start(recorder)
    _record_end(recorder)
    _record_plans(recorder)
    _record_callers(recorder)
    _record_reads(recorder)
    _record_guardian(recorder)
    _record_writes(recorder)
    _record_closing(recorder)
    _record_pauses(recorder)
    _record_timers(recorder)
    _record_notes(recorder)
    _record_failed_launch(recorder)


def _record_start(recorder: Recorder) -> None:
    """Write the head when the first server is started, by what was found until then."""
    known: dict[str, Any] = {}
    follow = context.Context.follow_callers

    def begin(_starter: object, plan: Any, pipes: Any) -> None:
        if pipes is None:
            return  # the direct wire
        recorder.servers += 1
        if recorder.servers == 1:
            found = known["found"]
            head = describe.describe_head(known["wanted"], found, follow(found), plan)
            recorder.begin({"test": recorder.test, **head})
        sink, source, complaints = pipes.ours
        recorder.name_server(recorder.servers, sink=sink, source=source, errors=complaints)
        recorder.add("<<", f"server-{recorder.servers}", "start", describe.describe_plan(plan))

    def name_guardian(started: Any, *_: object) -> None:
        number = recorder.servers
        recorder.name_server(number, report=started.report, control=started.control)
        recorder.name_server(number, guardian=id(started))

    def fail(error: LaunchError, started: object, _plan: object) -> None:
        party = recorder.find("guardian", id(started))
        recorder.add(">>", party, "start-failed", describe.describe_error(error))

    add_after(profile, "load", lambda wanted, *_: known.update(wanted=wanted))
    add_after(context, "find_context", lambda found, *_: known.update(found=found))
    add_before(guardian.Starter, "begin", begin)
    add_after(guardian.Starter, "begin", name_guardian)
    add_on_error(launch, "wait_for", fail)
    add_on_error(guardian, "wait_for", fail)


def _record_end(recorder: Recorder) -> None:
    def note_outcome(wire: Any) -> None:
        recorder.add("<<", "launch", "outcome", wire.describe_outcome())

    def fail(failure: Exception, *_: object) -> None:
        facts: dict[str, Any] = {"type": repr(failure)}
        if isinstance(failure, LaunchError):
            facts = describe.describe_error(failure)
        recorder.add("<<", "launch", "failed", facts)

    add_after(runtime, "_carry_to_the_end", lambda _code, wire: note_outcome(wire))
    add_on_error(runtime, "_carry_to_the_end", lambda _error, wire: note_outcome(wire))
    add_before(launch, "_fail", fail)
    add_after(launch, "run", lambda code, _: recorder.add("<<", "launch", "exit", code))


def _record_plans(recorder: Recorder) -> None:
    """Show which plans are asked for while a server is served, and what came of it."""

    def note(verb: str) -> Callable[..., None]:
        def refuse(error: LaunchError, _: object) -> None:
            recorder.add(">>", "plan", verb, describe.describe_error(error))

        return refuse

    def want(found: Any) -> None:
        recorder.add("<<", "plan", "wanted", describe.describe_context(found))

    def decide(plan: Any, _: object) -> None:
        recorder.add(">>", "plan", "decided", describe.describe_plan(plan))

    def carry(running: runtime.Running, *_: object) -> None:
        add_before(running, "decide", want)
        add_after(running, "decide", decide)
        add_on_error(running, "decide", note("refused"))

    add_before(runtime, "carry", carry)
    add_on_error(replacement, "check_environment", note("unfit"))


def _record_callers(recorder: Recorder) -> None:
    """Show what the host's own record says, and a launch around this one, when it changes."""
    last: dict[str, Any] = {}

    def note(party: str) -> Callable[..., None]:
        def compare(value: Any, *_: object) -> None:
            if party not in last or last[party] != value:
                last[party] = value
                recorder.add(">>", party, "changed", value if value is not None else [])

        return compare

    def follow(callers: Any, _: object) -> None:
        if not callers.is_in_request:
            add_after(callers, "read", note("caller"))

    add_after(context.Context, "follow_callers", follow)
    add_after(outer_launch.Outer, "read", note("outer"))


def _record_reads(recorder: Recorder) -> None:
    def read(fd: int, size: int) -> bytes:
        party = recorder.find_source(fd)
        try:
            data = os.read(fd, size)
        except OSError:
            data = b""  # the core takes it for the end
        if not data:
            recorder.ended.add(party)
        recorder.add(">>", party, *(("data", data) if data else ("end",)))
        return data

    def note_errors(data: bytes, fd: int) -> None:
        party = recorder.find("errors", fd)
        recorder.add(">>", party, *(("errors", data) if data else ("errors-end",)))

    wakes: set[int] = set()

    def read_signals(fd: int, size: int) -> bytes:
        data = os.read(fd, size)
        for number in data if fd in wakes else ():
            is_alarm = number == kernel.SIGALRM
            recorder.add(">>", *(("timer", "lease") if is_alarm else ("signal", str(number))))
        return data

    relay._read = read  # noqa: SLF001
    add_after(streams, "read", note_errors)
    add_before(loop.EventLoop, "_hear_signal", lambda wire: wakes.add(wire._wake))  # noqa: SLF001
    wrap_os(loop, read=read_signals)


def _record_guardian(recorder: Recorder) -> None:
    begun: dict[int, bytes] = {}

    def read(fd: int, size: int) -> bytes:
        data = os.read(fd, size)
        party = recorder.find("report", fd)
        *lines, begun[fd] = (begun.get(fd, b"") + data).split(b"\n")
        for line in lines if party else ():
            word, *numbers = line.decode().split()
            if word == "started":
                pids = dict(zip(("server", "guardian"), map(int, numbers), strict=True))
                recorder.add(">>", party, word, pids)
            elif word in {"exited", "left"}:
                recorder.add(">>", party, word, int(numbers[0]))
        return data

    def write(fd: int, data: bytes) -> int:
        if party := recorder.find("control", fd):
            order = _ORDERS.get(data[0])
            recorder.add("<<", party, *((order,) if order else ("signal", data[0])))
        return os.write(fd, data)

    def lose(wire: Any) -> None:
        party = recorder.find("guardian", id(wire.guardian))
        recorder.add(">>", party, "gone", wire.guardian.exit_code)

    wrap_os(guardian, read=read, write=write)
    add_before(relay.Relay, "_lose_guardian", lose)


def _record_writes(recorder: Recorder) -> None:
    """Show what is put, and of that what the kernel does not take at once."""

    def put(outlet: Any, data: bytes) -> None:
        if data:
            party = recorder.find_sink(outlet._fd)  # noqa: SLF001
            recorder.add("<<", party, "dropped" if outlet.is_closed else "data", data)

    opened = streams._open_without_blocking  # noqa: SLF001

    def open_without_blocking(fd: int) -> tuple[Callable[..., int], object]:
        write, target = opened(fd)
        return _note_room(recorder, write, fd), target

    streams._open_without_blocking = open_without_blocking  # noqa: SLF001
    add_before(streams.Outlet, "put", put)


def _note_room(recorder: Recorder, write: Callable[..., int], fd: int) -> Callable[..., int]:
    def wrapped(target: Any, data: bytes | bytearray) -> int:
        party, is_late = recorder.find_sink(fd), isinstance(data, bytearray)
        try:
            written = write(target, data)
        except BlockingIOError:
            if not is_late:
                recorder.add(">>", party, "full", len(data))
            raise
        except OSError:
            recorder.add(">>", party, "broken")
            raise
        if is_late and written == len(data):
            recorder.add(">>", party, "drained")
        elif not is_late and written < len(data):
            recorder.add(">>", party, "full", len(data) - written)
        return written

    return wrapped


def _record_closing(recorder: Recorder) -> None:
    def close(outlet: Any) -> None:
        if not outlet.is_closed:
            recorder.add("<<", recorder.find_sink(outlet._fd), "close")  # noqa: SLF001

    def close_later(outlet: Any) -> None:
        if outlet.pending and not outlet.is_closed:
            recorder.add("<<", recorder.find_sink(outlet._fd), "close-when-empty")  # noqa: SLF001

    def close_output(wire: Any) -> None:
        fd = wire._from_server  # noqa: SLF001
        if fd >= 0:
            recorder.add("<<", recorder.find_source(fd), "close-output")

    def recover(unread: bytes, wire: Any) -> None:
        party = recorder.find("guardian", id(wire.guardian))
        recorder.add(">>", party, "unread", unread)

    add_before(streams.Outlet, "close", close)
    add_before(streams.Outlet, "close_when_empty", close_later)
    add_before(relay.Relay, "_close_output", close_output)
    add_after(relay.Relay, "recover_unread", recover)
    add_before(relay, "replace_by_nothing", lambda _: recorder.add("<<", "host", "close-input"))


def _record_pauses(recorder: Recorder) -> None:
    """Show when reading from somebody stops and goes on, but neither its begin nor its end."""
    paused: set[tuple[str, int]] = set()

    def find(fd: int) -> str:
        return "host" if fd == 0 else recorder.find("source", fd)

    def unwatch(wire: Any, fd: int) -> None:
        party = find(fd)
        if party and party not in recorder.ended and fd in wire._handlers:  # noqa: SLF001
            paused.add((party, fd))
            recorder.add("<<", party, "pause")

    def watch(_wire: object, fd: int, *_: object) -> None:
        if (find(fd), fd) in paused:
            paused.discard((find(fd), fd))
            recorder.add("<<", find(fd), "resume")

    def lose_host(_: object) -> None:
        if "lost" not in recorder.ended:
            recorder.ended |= {"host", "lost"}
            recorder.add(">>", "host", "lost")

    add_before(loop.EventLoop, "watch", watch)
    add_before(loop.EventLoop, "unwatch", unwatch)
    add_before(relay.Relay, "_lose_host", lose_host)  # it calls the other, as does the start
    add_before(relay.Relay, "lose_host", lose_host)


def _record_timers(recorder: Recorder) -> None:
    def set_alarm(_wire: object, name: str, seconds: float, _action: object) -> None:
        recorder.add("<<", "timer", "set", [name, round(seconds, 2)])

    def follow(_: None, wire: Any, name: str, *_more: object) -> None:
        moment, action = wire._alarms[name]  # noqa: SLF001

        def fire() -> None:
            recorder.add(">>", "timer", name)
            action()

        wire._alarms[name] = (moment, fire)  # noqa: SLF001

    def drop_alarm(wire: Any, name: str) -> None:
        if name in wire._alarms:  # noqa: SLF001
            recorder.add("<<", "timer", "drop", name)

    def leave_soon(wire: Any) -> None:
        if wire._leave_at is None:  # noqa: SLF001
            recorder.add("<<", "timer", "set", ["leave", loop._LEAVE_AFTER])  # noqa: SLF001

    def wake_after(seconds: float) -> None:
        if seconds:
            recorder.add("<<", "timer", "set", ["lease", seconds])

    add_before(loop.EventLoop, "set_alarm", set_alarm)
    add_after(loop.EventLoop, "set_alarm", follow)
    add_before(loop.EventLoop, "drop_alarm", drop_alarm)
    add_before(loop.EventLoop, "leave_soon", leave_soon)
    add_before(kernel, "wake_after", wake_after)


def _record_notes(recorder: Recorder) -> None:
    """Show the lease, the log, and what is written to stderr past the relay."""

    def write_lease(_lease: object, **learned: Any) -> None:
        recorder.add("<<", "lease", "write", describe.describe_lease(learned))

    def write(fd: int, data: bytes) -> int:
        recorder.add("<<", "stderr", "data", data)
        return os.write(fd, data)

    def tell(error: LaunchError, _stream: object) -> None:
        text = f"[mcp-launch] {error.problem}\n[mcp-launch]   fix: {error.fix}\n"
        recorder.add("<<", "stderr", "data", text.encode(errors="backslashreplace"))

    add_before(leases.Lease, "write", write_lease)
    add_before(trace, "record", lambda text: recorder.add("<<", "log", "note", text))
    add_before(launch, "tell", tell)
    wrap_os(trace, write=write)


def _record_failed_launch(recorder: Recorder) -> None:
    def read(fd: int, size: int) -> bytes:
        data = os.read(fd, size)
        recorder.add(">>", "host", *(("data", data) if data else ("end",)))
        return data

    def write(fd: int, data: bytes) -> int:
        recorder.add("<<", "host", "data", data)
        return os.write(fd, data)

    wrap_os(failed_launch, read=read, write=write)
