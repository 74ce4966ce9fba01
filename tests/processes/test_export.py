"""`mcp-launch export` against a collector: what is sent, what is said, and that no call is lost."""

from __future__ import annotations

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from call_parts import THREAD, CallParts
from call_parts import make_record as make_any_record
from command_line import Done, run_command
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from otlp_receiver import OtlpReceiver, Reply, read_attributes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = 200
WAIT = 30.0
REFUSED = Reply(503, is_kept=False)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"


class ExportProcesses:
    """Starts exporters, all of which end with the test."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, url: str) -> subprocess.Popen[str]:
        """Start an exporter that goes on."""
        process = subprocess.Popen(
            [sys.executable, "-m", "mcp_launch", "export", "--otlp", url, "--follow"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        self.started.append(process)
        return process

    def end_all(self) -> None:
        for process in self.started:
            process.kill()
            process.communicate(timeout=WAIT)


# 2026-11-18 11:05:25.123
MOMENT = 1794999925.123


def make_record(number: int = 1, **facts: Any) -> dict[str, Any]:
    """Return one of several calls, a second apart."""
    return make_any_record(**{"time": MOMENT + number - 1, "number": number} | facts)


def write(
    parts: CallParts, *records: dict[str, Any] | bytes, part: str = "20261118-110501"
) -> None:
    lines = [one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n" for one in records]
    parts.append(*lines, name=f"{part}.jsonl")


@pytest.fixture
def exporters() -> Iterator[ExportProcesses]:
    exporters = ExportProcesses()
    yield exporters
    exporters.end_all()


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as collector:
        yield collector


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def parts(state: Path) -> CallParts:
    return CallParts(state)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again for a second, not for ten."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")


def export(url: str, **environ: str) -> Done:
    return run_command("export", "--otlp", url, cwd=None, **environ)


def export_as_process(url: str) -> Done:
    """Export in a process of its own, where nothing catches what libraries log."""
    done = subprocess.run(
        [sys.executable, "-m", "mcp_launch", "export", "--otlp", url],
        check=False,
        capture_output=True,
        encoding="utf-8",
        timeout=WAIT,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of an exporter; a line that never comes ends the process, and us."""
    assert process.stdout
    guard = threading.Timer(WAIT, process.kill)
    guard.start()
    try:
        return process.stdout.readline()
    finally:
        guard.cancel()


def export_one(collector: OtlpReceiver, parts: CallParts, **facts: Any) -> Span:
    """Return the span of one call."""
    write(parts, make_record(**facts))
    assert export(collector.url).returncode == 0
    return collector.spans[-1]


def test_all_calls_on_record_are_sent_and_then_only_new_ones(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    write(parts, make_record(1), make_record(2, outcome="died"), part="20261118-110500")
    first = export(collector.url)
    write(parts, make_record(3))
    second = export(f"{collector.url}/v1/traces")
    third = run_command("export", OTEL_EXPORTER_OTLP_ENDPOINT=f"{collector.url}/")

    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout == f"Exported 2 calls to {collector.url}\n"
    assert second.stdout == f"Exported 1 call to {collector.url}\n"
    assert third.stdout == f"Exported nothing new to {collector.url}\n"
    assert [*collector.count_spans().values()] == [1, 1, 1]


def test_a_call_is_a_span_by_the_conventions(collector: OtlpReceiver, parts: CallParts) -> None:
    span = export_one(collector, parts)

    assert span.name == "tools/call search"
    assert span.kind == Span.SPAN_KIND_SERVER
    assert span.start_time_unix_nano == round(MOMENT * 1000) * 1_000_000
    assert span.end_time_unix_nano - span.start_time_unix_nano == 12_500_000
    assert span.status.code == Status.STATUS_CODE_UNSET
    assert (len(span.trace_id), len(span.span_id), span.parent_span_id) == (16, 8, b"")
    assert read_attributes(span.attributes) == {
        "mcp.method.name": "tools/call",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "search",
        "network.transport": "pipe",
        "jsonrpc.request.id": "7",
        "mcp.session.id": THREAD,
        "mcp.protocol.version": "2025-06-18",
        "process.pid": 4711,
        "mcp_launch.host": "codex",
        "mcp_launch.server": "docs",
        "mcp_launch.thread": THREAD,
        "mcp_launch.project": "/work/shop",
        "mcp_launch.cwd": "/work/shop",
        "mcp_launch.launch": "01a1e296e1adc4db8953f0",
        "mcp_launch.number": 1,
        "mcp_launch.outcome": "ok",
        "mcp_launch.waited": False,
        "mcp_launch.request.size": 312,
        "mcp_launch.response.size": 4096,
    }


@pytest.mark.parametrize(
    ("outcome", "error"),
    [
        ("ok", None),
        ("cancelled", None),
        ("tool error", "tool_error"),
        ("protocol error", "protocol_error"),
        ("refused", "refused"),
        ("timed out", "timeout"),
        ("died", "server_died"),
        ("of a later version", "_OTHER"),
    ],
)
def test_a_failure_has_its_class_and_its_reason(
    collector: OtlpReceiver, parts: CallParts, outcome: str, error: str | None
) -> None:
    span = export_one(collector, parts, outcome=outcome, reason="it is so")

    assert read_attributes(span.attributes).get("error.type") == error
    assert span.status.code == (Status.STATUS_CODE_ERROR if error else Status.STATUS_CODE_UNSET)
    assert span.status.message == ("it is so" if error else "")


def test_what_a_policy_did_and_a_wait_are_attributes_and_arguments_never(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    facts = {"arguments": {"query": "secret"}, "id": "a-7"}
    span = export_one(collector, parts, waited=True, changed=["cwd", "path"], **facts)

    attributes = read_attributes(span.attributes)
    assert attributes["mcp_launch.waited"] is True
    assert attributes["mcp_launch.changed"] == ["cwd", "path"]
    assert attributes["jsonrpc.request.id"] == "a-7"
    assert b"secret" not in span.SerializeToString()


@pytest.mark.parametrize("flags", ["01", "00"], ids=["sampled", "not sampled"])
def test_the_hosts_span_is_the_parent_and_no_call_is_left_out(
    collector: OtlpReceiver, parts: CallParts, flags: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    own = export_one(collector, parts)
    span = export_one(collector, parts, trace=f"00-{TRACE}-{PARENT}-{flags}")

    assert (span.trace_id.hex(), span.parent_span_id.hex()) == (TRACE, PARENT)
    assert span.span_id == own.span_id


@pytest.mark.parametrize(
    "text",
    [
        "x",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
    ],
)
def test_a_traceparent_that_is_not_valid_is_ignored(
    collector: OtlpReceiver, parts: CallParts, text: str
) -> None:
    assert export_one(collector, parts, trace=text).parent_span_id == b""


def test_no_record_can_make_the_collector_refuse_the_others(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    values: list[Any] = [-1, 1e300, True, [], {}, "\ud800\0\x1b", "x" * 100_000, 2**70, [None, 3]]
    names = [*make_record()]
    odd = [{**dict.fromkeys(names, one), "time": MOMENT + at} for at, one in enumerate(values)]
    write(parts, b"{torn\n", b"null\n", make_record(100, time="never"), *odd, make_record(101))

    done = export(collector.url)

    assert done.stdout == f"Exported {len(odd) + 1} calls to {collector.url}\n"
    assert len(collector.count_spans()) == len(odd) + 1
    assert max(span.ByteSize() for span in collector.spans) < 30_000


def test_the_resource_names_machine_and_user_and_variables_take_precedence(
    collector: OtlpReceiver, parts: CallParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("USER", "ann")
    export_one(collector, parts)
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=shop%20one,host.name=build-7")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "mcp")
    export_one(collector, parts)

    plain, changed = (
        read_attributes(one.resource_spans[0].resource.attributes) for one in collector.traces
    )
    assert plain["service.name"] == "mcp-launch"
    assert plain["host.name"] == socket.gethostname()
    assert plain["user.name"] == "ann"
    assert changed == plain | {"service.name": "mcp", "team": "shop one", "host.name": "build-7"}


@pytest.mark.parametrize(
    ("reply", "said", "fix"),
    [
        (REFUSED, "refused the calls: 503 Service Unavailable", "the collector's own log"),
        (Reply(401, is_kept=False), "401 Unauthorized", "set OTEL_EXPORTER_OTLP_HEADERS"),
        (Reply(404, is_kept=False), "404 Not Found", "check the address"),
        (Reply(307, is_kept=False, headers={"location": "/"}), "307", "the collector's own log"),
        (Reply(is_kept=False, is_answered=False), "cannot be reached", "start it"),
    ],
    ids=["unavailable", "unauthorized", "elsewhere", "redirected", "gone"],
)
def test_a_collector_that_refuses_is_an_error_and_nothing_is_lost(
    collector: OtlpReceiver, parts: CallParts, reply: Reply, said: str, fix: str
) -> None:
    write(parts, make_record(1))
    collector.decide = lambda _: reply

    done = export_as_process(collector.url)

    assert (done.returncode, done.stdout) == (1, "")
    problem, way_out = done.stderr.splitlines()
    assert said in problem
    assert fix in way_out
    assert "nothing is lost" in way_out
    collector.decide = lambda _: Reply()
    assert export(collector.url).stdout.startswith("Exported 1 call ")


def test_a_collector_that_is_not_there_is_an_error(parts: CallParts) -> None:
    write(parts, make_record(1))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    done = export_as_process(f"http://127.0.0.1:{port}")

    assert (done.returncode, done.stdout) == (1, "")
    problem, _ = done.stderr.splitlines()
    assert problem.endswith(f"127.0.0.1:{port} cannot be reached: Connection refused")


def test_a_collector_that_does_not_answer_is_an_error(parts: CallParts) -> None:
    write(parts, make_record(1))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        done = export_as_process(f"http://127.0.0.1:{silent.getsockname()[1]}")

    assert done.returncode == 1
    assert "cannot be reached: no answer in time" in done.stderr
    assert len(done.stderr.splitlines()) == 2


def test_a_collector_without_tls_at_an_https_address_is_an_error(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    write(parts, make_record(1))

    done = export(collector.url.replace("http:", "https:"))

    assert done.returncode == 1
    assert "cannot be reached: TLS failed\n" in done.stderr


@pytest.mark.parametrize("content", [None, b"no PEM"], ids=["missing", "damaged"])
def test_a_certificate_that_cannot_be_read_is_an_error(
    collector: OtlpReceiver, parts: CallParts, tmp_path: Path, content: bytes | None
) -> None:
    write(parts, make_record(1))
    if content:
        (tmp_path / "ca.pem").write_bytes(content)
    url = collector.url.replace("http:", "https:")

    done = export(url, OTEL_EXPORTER_OTLP_CERTIFICATE=str(tmp_path / "ca.pem"))

    assert done.returncode == 1
    assert "set OTEL_EXPORTER_OTLP_CERTIFICATE to" in done.stderr


@pytest.mark.parametrize("address", ["127.0.0.1:4318", "ftp://a", "http://", "http://a:b", "x@y"])
def test_what_is_no_address_of_a_collector_is_refused(address: str) -> None:
    done = export(address)

    assert done.returncode == 2
    assert "is not the address of a collector" in done.stderr


def test_a_collector_on_this_machine_is_reached_past_a_proxy(
    collector: OtlpReceiver, parts: CallParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")

    export_one(collector, parts)


def test_what_was_accepted_before_a_failure_is_not_sent_again(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    write(parts, *(make_record(number) for number in range(1, 1202)))
    collector.decide = lambda number: Reply(401, is_kept=False) if number == 2 else Reply()

    first = export(collector.url)
    second = export(collector.url)

    assert (first.returncode, second.returncode) == (1, 0)
    assert first.stdout.startswith("Exported ")
    assert len(collector.count_spans()) == 1201
    assert set(collector.count_spans().values()) == {1}


def test_a_request_that_is_too_large_is_divided(collector: OtlpReceiver, parts: CallParts) -> None:
    write(parts, *(make_record(number) for number in range(1, 301)))

    def refuse_large(_: int) -> Reply:
        is_large = int(collector.requests[-1]["content-length"]) > 50_000
        return Reply(413, is_kept=False) if is_large else Reply()

    collector.decide = refuse_large

    assert export(collector.url).stdout == f"Exported 300 calls to {collector.url}\n"
    assert len(collector.count_spans()) == 300
    assert set(collector.count_spans().values()) == {1}


def test_a_record_that_is_longer_than_a_request_is_sent(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    write(parts, make_record(1), make_record(2, arguments="x" * 2_000_000), make_record(3))

    assert export(collector.url).stdout == f"Exported 3 calls to {collector.url}\n"


def test_spans_that_a_collector_rejects_are_reported(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    write(parts, make_record(1), make_record(2))
    collector.decide = lambda _: Reply(rejected=1)

    done = export(collector.url)

    assert done.returncode == 0
    assert "The collector did not take 1 span: too \\x1b[31mold\n" in done.stdout
    assert "nothing new" in export(collector.url).stdout


def test_secrets_are_sent_and_never_shown(
    collector: OtlpReceiver, parts: CallParts, state: Path
) -> None:
    write(parts, make_record(1))
    token = "tok-3141592653"
    collector.decide = lambda _: Reply(403, is_kept=False)

    with_header = export(collector.url, OTEL_EXPORTER_OTLP_HEADERS=f"authorization={token}")
    with_user = export(collector.url.replace("//", f"//ann:{token}@") + f"?key={token}")

    assert collector.requests[0]["authorization"] == token
    assert collector.requests[1]["authorization"].startswith("Basic ")
    for done in (with_header, with_user):
        assert done.returncode == 1
        assert token not in done.stdout + done.stderr
    [path] = (state / "exports").iterdir()
    assert token not in path.read_text(encoding="utf-8")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"parts": 3}', '{"parts": {"20261118-110501.jsonl": -7}}']
)
def test_a_damaged_position_is_the_same_as_none(
    collector: OtlpReceiver, parts: CallParts, state: Path, content: str
) -> None:
    write(parts, make_record(1))
    export(collector.url)
    [path] = (state / "exports").iterdir()
    path.write_text(content, encoding="utf-8")

    export(collector.url)

    assert [*collector.count_spans().values()] == [2]


def test_each_collector_gets_all_calls(collector: OtlpReceiver, parts: CallParts) -> None:
    write(parts, make_record(1))
    with OtlpReceiver() as other:
        export(collector.url)
        export(other.url)

        assert (len(collector.spans), len(other.spans)) == (1, 1)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_exports_what_comes_and_ends_quietly(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses, number: int
) -> None:
    write(parts, make_record(1))
    process = exporters.start(collector.url)
    collector.wait_until(lambda: len(collector.spans) == 1)
    write(parts, make_record(2))
    collector.wait_until(lambda: len(collector.spans) == 2)

    process.send_signal(number)
    output, _ = process.communicate(timeout=WAIT)

    assert process.returncode == 0
    assert output == f"Exporting to {collector.url}\n"


def test_a_single_export_can_be_interrupted(collector: OtlpReceiver, parts: CallParts) -> None:
    write(parts, make_record(1))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_launch", "export", "--otlp", collector.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )

    def interrupt(_: int) -> Reply:
        process.send_signal(signal.SIGINT)
        return Reply(is_kept=False, is_answered=False)

    collector.decide = interrupt
    try:
        output, _ = process.communicate(timeout=WAIT)
    finally:
        process.kill()

    assert (process.returncode, output) == (130, "")


def test_it_waits_for_a_collector_that_is_away(
    parts: CallParts, exporters: ExportProcesses
) -> None:
    with OtlpReceiver() as gone:
        port, url = gone.port, gone.url
    write(parts, make_record(1))
    process = exporters.start(url)

    assert read_line(process) == f"Exporting to {url}\n"
    assert read_line(process).endswith("cannot be reached: Connection refused; trying again\n")
    with OtlpReceiver(port) as collector:
        collector.wait_until(lambda: len(collector.spans) == 1)
        assert read_line(process) == "The collector accepts calls again\n"


def test_a_second_one_to_the_same_collector_is_refused(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses
) -> None:
    write(parts, make_record(1))
    exporters.start(collector.url)
    collector.wait_until(lambda: bool(collector.spans))

    done = export(collector.url)

    assert done.returncode == 2
    assert f"another process already exports to {collector.url}" in done.stderr


class Trouble:
    """Makes a collector fail, and kills the exporter, at random moments."""

    def __init__(self, collector: OtlpReceiver, parts: CallParts, seed: int) -> None:
        self._collector = collector
        self._parts = parts
        self._random = random.Random(seed)  # noqa: S311  # not a secret
        self.written = 0
        self.process: subprocess.Popen[str] | None = None
        collector.decide = self.decide

    def write(self, count: int) -> None:
        """Write further records, into several parts."""
        for _ in range(min(count, RECORDS - self.written)):
            self.written += 1
            record = make_record(self.written)
            write(self._parts, record, part=f"20261118-11050{self._random.randrange(5)}")

    def decide(self, _: int) -> Reply:
        """Answer a request, or do not; in the meantime calls go on."""
        self.write(self._random.randrange(8))
        replies = [Reply(), Reply(), Reply(503, is_kept=False, headers={"retry-after": "0"})]
        replies += [Reply(is_kept=False, is_answered=False), Reply(is_answered=False)]
        # Before the answer, so the request was accepted or not, and nobody knows.
        if self.process and self._random.random() < 0.3:
            self.process.kill()
        return self._random.choice(replies)

    def kill(self) -> None:
        """Kill the exporter a moment after a request, as it remembers or reads on."""
        assert self.process
        try:
            self.process.wait(self._random.random() * 0.05)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.process.wait(WAIT)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_no_call_is_lost_whenever_it_is_killed(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses, seed: int
) -> None:
    trouble = Trouble(collector, parts, seed)
    while trouble.written < RECORDS:
        trouble.write(25)
        before = len(collector.requests)
        trouble.process = exporters.start(collector.url)
        collector.wait_until(lambda before=before: len(collector.requests) > before)  # type: ignore[misc]
        trouble.kill()
    collector.decide = lambda _: Reply()
    assert export(collector.url).returncode == 0

    numbers = {read_attributes(span.attributes)["mcp_launch.number"] for span in collector.spans}
    assert numbers == set(range(1, RECORDS + 1))
    # Duplicates are the same spans, in every respect.
    assert len(collector.count_spans()) == RECORDS
    assert len({span.SerializeToString() for span in collector.spans}) == RECORDS


def test_no_other_command_imports_what_only_exporting_needs() -> None:
    code = "import sys, mcp_launch.commands.command_line; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8"
    )

    assert {"opentelemetry", "google.protobuf", "requests"}.isdisjoint(done.stdout.split())


def test_without_the_sdk_the_way_to_install_it_is_shown() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None; sys.argv = ['mcp-launch', 'export']; "
        "import mcp_launch; sys.exit(mcp_launch.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, encoding="utf-8"
    )

    assert done.returncode == 2
    for command in ("uv tool install --reinstall", "pipx install --force", "pip install"):
        assert f"{command} '.[otel]'" in done.stderr
