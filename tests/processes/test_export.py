"""`mcp-launch export --follow` as a process: ended in any way at any moment, it loses no call."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from export_records import CallParts, make_record
from json_formats import check_format
from otlp_receiver import OtlpReceiver, Reply

from mcp_launch.commands.export.spans import make_ids

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RECORDS = 500
WAIT = 30.0


class ExportProcesses:
    """Starts exporters, all of which end with the test."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[str]] = []

    def start(self, url: str, *words: str) -> subprocess.Popen[str]:
        """Start an exporter that goes on."""
        command = [sys.executable, "-m", "mcp_launch", "export", "--otlp", url]
        process = subprocess.Popen(
            [*command, "--follow", "--interval", "1s", *words],
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
def parts(tmp_path: Path) -> CallParts:
    return CallParts(tmp_path / "state")


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of an exporter; a line that never comes ends the process, and us."""
    assert process.stdout
    guard = threading.Timer(WAIT, process.kill)
    guard.start()
    try:
        return process.stdout.readline()
    finally:
        guard.cancel()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_it_exports_what_comes_and_ends_quietly(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses, number: int
) -> None:
    parts.write(make_record(1))
    process = exporters.start(collector.url)
    collector.wait_until(lambda: len(collector.spans) == 1)
    parts.write(make_record(2))
    collector.wait_until(lambda: len(collector.spans) == 2)

    process.send_signal(number)
    output, _ = process.communicate(timeout=WAIT)

    assert process.returncode == 0
    assert output == f"Exporting to {collector.url}\n"


def test_a_single_export_can_be_interrupted(collector: OtlpReceiver, parts: CallParts) -> None:
    parts.write(make_record(1))
    process = subprocess.Popen(
        [sys.executable, "-m", "mcp_launch", "export", "--otlp", collector.url],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )

    def interrupt(_path: str, _number: int) -> Reply:
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
    parts.write(make_record(1))
    process = exporters.start(url)

    assert read_line(process) == f"Exporting to {url}\n"
    assert read_line(process).endswith("cannot be reached: Connection refused; trying again\n")
    with OtlpReceiver(port) as collector:
        collector.wait_until(lambda: len(collector.spans) == 1)
        assert read_line(process) == "The collector accepts calls again\n"


def test_a_program_reads_what_was_exported_line_by_line(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses
) -> None:
    parts.write(make_record(1))
    process = exporters.start(collector.url, "--json")

    assert check_format("export", read_line(process))["calls"] == 1
    parts.write(make_record(2), make_record(3))
    assert check_format("export", read_line(process))["calls"] == 2


def test_a_second_one_to_the_same_collector_is_refused(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses
) -> None:
    parts.write(make_record(1))
    first = exporters.start(collector.url)
    collector.wait_until(lambda: bool(collector.spans))

    second = exporters.start(collector.url)
    output, _ = second.communicate(timeout=WAIT)

    assert second.returncode == 2
    assert f"process {first.pid} already exports to {collector.url}" in output


class Trouble:
    """Makes a collector fail, and kills the exporter, at random moments."""

    def __init__(self, collector: OtlpReceiver, parts: CallParts, seed: int) -> None:
        self._collector = collector
        self._parts = parts
        self._random = random.Random(seed)  # noqa: S311  # not a secret
        self.records: list[dict[str, Any]] = []
        self.process: subprocess.Popen[str] | None = None
        collector.decide = self.decide

    def write(self, count: int) -> None:
        """Write further records, into several parts."""
        for _ in range(min(count, RECORDS - len(self.records))):
            number = len(self.records) + 1
            outcome = self._random.choice(["ok", "ok", "tool error", "died"])
            record = make_record(number, outcome=outcome)
            self.records.append(record)
            self._parts.write(record, part=f"20261118-11050{self._random.randrange(5)}")

    def decide(self, path: str, _: int) -> Reply:
        """Answer a request, or do not; in the meantime calls go on."""
        if path == "/v1/traces":
            self.write(self._random.randrange(8))
        reply = self._random.choice(
            [
                Reply(),
                Reply(),
                Reply(),
                Reply(503, is_kept=False, headers={"retry-after": "0"}),
                Reply(is_kept=False, is_answered=False),
                Reply(is_answered=False),
            ]
        )
        # Before the answer, so the request was accepted or not, and nobody knows.
        if self.process and self._random.random() < 0.3:
            self.process.kill()
        return reply

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
def test_no_call_is_lost_or_counted_twice_whenever_it_is_killed(
    collector: OtlpReceiver, parts: CallParts, exporters: ExportProcesses, seed: int
) -> None:
    trouble = Trouble(collector, parts, seed)
    rounds = 0
    while len(trouble.records) < RECORDS:
        trouble.write(25)
        before = len(collector.requests)
        trouble.process = exporters.start(collector.url)
        collector.wait_until(lambda before=before: len(collector.requests) > before)  # type: ignore[misc]
        trouble.kill()
        rounds += 1
    collector.decide = lambda _path, _number: Reply()
    done = subprocess.run(
        [sys.executable, "-m", "mcp_launch", "export", "--otlp", collector.url, "--json"],
        check=True,
        capture_output=True,
        encoding="utf-8",
    )

    assert rounds > 10
    assert json.loads(done.stdout)["missed_parts"] == 0
    arrived = collector.count_spans()
    assert set(arrived) == {make_ids(record)[1] for record in trouble.records}
    # Duplicates are the same spans, in every respect.
    assert len({span.SerializeToString() for span in collector.spans}) == RECORDS
    assert collector.add_up_calls() == RECORDS
    failures = collector.get_metrics()["mcp_launch.failures"].sum.data_points
    failed = [record for record in trouble.records if record["outcome"] != "ok"]
    assert sum(point.as_int for point in failures) == len(failed)
    # Counters never went back on the way.
    counted = [collector.add_up_calls(at) for at in range(len(collector.metrics))]
    assert counted == sorted(counted)


def test_no_other_command_imports_what_only_exporting_needs() -> None:
    code = "import sys, mcp_launch.cli, mcp_launch.commands.ps; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, encoding="utf-8"
    )

    heavy = {
        "opentelemetry.proto",
        "google.protobuf",
        "urllib.request",
        "mcp_launch.commands.export",
    }
    assert heavy.isdisjoint(done.stdout.split())
