"""`mcp-launch export` against a collector: what is sent, what is remembered, what is said."""

from __future__ import annotations

import json
import socket
from importlib import util
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from export_records import MOMENT, CallParts, make_record
from fakes import FakeProcessTable
from json_formats import check_format
from otlp_receiver import OtlpReceiver, Reply

from mcp_launch import system
from mcp_launch.commands.export.progress import ProgressFile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LATER = "20261118-120000"


@pytest.fixture
def collector() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as collector:
        yield collector


@pytest.fixture(autouse=True)
def no_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no server run: those of this machine are not the test's."""
    monkeypatch.setattr(system, "open_table", FakeProcessTable)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


@pytest.fixture
def parts(state: Path) -> CallParts:
    return CallParts(state)


def export(collector: OtlpReceiver, *words: str) -> Done:
    return run_command("export", "--otlp", collector.url, *words)


def export_numbers(collector: OtlpReceiver, *words: str) -> dict[str, Any]:
    document: dict[str, Any] = check_format("export", export(collector, *words, "--json").stdout)
    return document


def test_all_calls_on_record_are_sent_and_then_only_new_ones(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(make_record(1), make_record(2, outcome="died"))

    first = export(collector)
    parts.write(make_record(3))
    second = export(collector)
    third = export(collector)

    assert first.stdout == f"Exported 2 calls (1 of them a failed call) to {collector.url}\n"
    assert second.stdout == f"Exported 1 call to {collector.url}\n"
    assert third.stdout == f"Nothing new for {collector.url}\n"
    assert (first.returncode, first.stderr) == (0, "")
    assert [*collector.count_spans().values()] == [1, 1, 1]
    assert [collector.add_up_calls(at) for at in range(3)] == [2, 3, 3]


def test_a_count_begins_before_its_first_call_and_stays(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(make_record(1, time=1_600_000_000.5))
    export(collector)
    parts.write(make_record(2, time=1_700_000_000.5))
    export(collector)

    begun = {
        point.start_time_unix_nano
        for at in range(2)
        for point in collector.get_metrics(at)["mcp_launch.calls"].sum.data_points
    }
    assert begun == {1_600_000_000_500_000_000}


def test_more_calls_than_one_batch_are_sent_in_several(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(*(make_record(number) for number in range(1, 1202)))

    assert export_numbers(collector)["calls"] == 1201
    assert len(collector.traces) == 3
    assert len(collector.count_spans()) == 1201
    assert len(collector.metrics) == 1


def test_since_leaves_out_earlier_calls_for_good(collector: OtlpReceiver, parts: CallParts) -> None:
    parts.write(make_record(1), make_record(100))
    since = ["--since", "2026-11-18T11:06:00+00:00"]
    assert MOMENT < 1_794_999_960 < MOMENT + 99

    assert export_numbers(collector, *since)["calls"] == 1
    parts.write(make_record(2), make_record(101))
    assert export_numbers(collector)["calls"] == 1


@pytest.mark.parametrize(
    ("reply", "said", "fix"),
    [
        (Reply(503, is_kept=False), "503 Service Unavailable", "the collector's own log"),
        (Reply(401, is_kept=False, text="no \x1btoken"), "no \\x1btoken", "--header authorization"),
        (Reply(404, is_kept=False), "404 Not Found", "check the address"),
        (Reply(307, is_kept=False, headers={"location": "/"}), "307", "the collector's own log"),
        (Reply(is_kept=False, is_answered=False), "cannot be reached", "nothing is lost"),
    ],
    ids=["unavailable", "unauthorized", "elsewhere", "redirected", "gone"],
)
def test_a_collector_that_refuses_is_an_error_and_nothing_is_lost(
    collector: OtlpReceiver, parts: CallParts, reply: Reply, said: str, fix: str
) -> None:
    parts.write(make_record(1))
    collector.decide = lambda _path, _number: reply

    done = export(collector)

    assert done.returncode == 1
    assert said in done.stderr
    assert fix in done.stderr
    collector.decide = lambda _path, _number: Reply()
    assert export_numbers(collector)["calls"] == 1


def test_a_collector_that_is_not_there_is_an_error(parts: CallParts) -> None:
    parts.write(make_record(1))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    done = run_command("export", "--otlp", f"http://127.0.0.1:{port}", "--json")

    assert done.returncode == 1
    document = check_format("export", done.stdout)
    assert document["problem"].endswith("cannot be reached: Connection refused")


def test_what_was_accepted_before_a_failure_is_not_sent_again(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(*(make_record(number) for number in range(1, 1202)))
    collector.decide = lambda _path, number: Reply(503, is_kept=False) if number == 2 else Reply()

    first = export(collector, "--json")

    assert (first.returncode, json.loads(first.stdout)["calls"]) == (1, 500)
    assert export_numbers(collector)["calls"] == 701
    assert set(collector.count_spans().values()) == {1}
    assert collector.add_up_calls() == 1201


def test_an_accepted_batch_whose_answer_is_lost_is_sent_again_with_the_same_ids(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(make_record(1), make_record(2))
    collector.decide = lambda _path, number: Reply(is_answered=number > 1)

    assert export(collector).returncode == 1
    assert export(collector).returncode == 0

    assert [*collector.count_spans().values()] == [2, 2]
    assert collector.add_up_calls() == 2


def test_a_request_that_is_too_large_is_divided(collector: OtlpReceiver, parts: CallParts) -> None:
    parts.write(*(make_record(number) for number in range(1, 301)))

    def refuse_large(path: str, _: int) -> Reply:
        sent = int(collector.requests[-1][1]["content-length"])
        is_large = path == "/v1/traces" and sent > 4000
        return Reply(413, is_kept=False) if is_large else Reply()

    collector.decide = refuse_large

    assert export_numbers(collector)["calls"] == 300
    assert len(collector.count_spans()) == 300
    assert set(collector.count_spans().values()) == {1}


def test_spans_that_a_collector_rejects_are_reported(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(make_record(1), make_record(2))
    collector.decide = lambda path, _: Reply(rejected=1 if path == "/v1/traces" else 0)

    done = export(collector)

    assert done.returncode == 0
    assert "The collector did not take 1 span: too \\x1b[31mold\n" in done.stdout
    assert export_numbers(collector)["calls"] == 0


def test_parts_that_were_deleted_before_they_were_sent_are_reported(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(make_record(1))
    parts.write(make_record(2), part=LATER)
    collector.decide = lambda _path, _number: Reply(503, is_kept=False)
    export(collector)
    parts.delete()
    export(collector)
    collector.decide = lambda _path, _number: Reply()

    done = export(collector)

    assert "Lost: 1 part of the records" in done.stdout
    assert "Exported 1 call to " in done.stdout
    assert export_numbers(collector)["missed_parts"] == 0


def test_lines_that_cannot_be_read_are_reported_once(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(b"{torn\n", make_record(1), make_record(2, time="never"))

    assert "Skipped 2 lines" in export(collector).stdout
    assert "Skipped" not in export(collector).stdout


def test_headers_are_sent_and_never_shown(
    collector: OtlpReceiver, parts: CallParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.write(make_record(1))
    token = "tok-3141592653"
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"authorization={token}")
    collector.decide = lambda _path, _number: Reply(403, is_kept=False, text=f"not {token}")

    done = export(collector, "--header", "x-tenant=a")

    _, headers = collector.requests[0]
    assert (headers["authorization"], headers["x-tenant"]) == (token, "a")
    assert headers["user-agent"].startswith("mcp-launch/")
    assert token not in done.stdout + done.stderr
    assert "not ***" in done.stderr


def test_what_is_remembered_is_private(
    collector: OtlpReceiver, parts: CallParts, state: Path
) -> None:
    parts.write(make_record(1))
    export(collector)

    files = sorted((state / "exports").iterdir())

    assert [path.suffix for path in files] == [".json", ".lock"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (state / "exports").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("content", ["", "{", "[]", '{"parts": 3}', "null"])
def test_a_damaged_file_is_the_same_as_none(
    collector: OtlpReceiver, parts: CallParts, state: Path, content: str
) -> None:
    parts.write(make_record(1))
    export(collector)
    [path] = (state / "exports").glob("*.json")
    path.write_text(content, encoding="utf-8")

    assert export_numbers(collector)["calls"] == 1
    assert [*collector.count_spans().values()] == [2]
    assert collector.add_up_calls() == 1


def test_each_collector_has_its_own_progress(collector: OtlpReceiver, parts: CallParts) -> None:
    parts.write(make_record(1))
    with OtlpReceiver() as other:
        assert export_numbers(collector)["calls"] == 1
        assert export_numbers(other)["calls"] == 1


def test_a_second_exporter_to_the_same_collector_is_refused(
    collector: OtlpReceiver, parts: CallParts, state: Path
) -> None:
    parts.write(make_record(1))
    with ProgressFile(str(state), collector.url).lock():
        done = export(collector)

    assert done.returncode == 2
    assert f"already exports to {collector.url}" in done.stderr
    assert "fix: end it first: kill " in done.stderr
    assert collector.requests == []


def test_without_records_and_servers_nothing_is_sent(collector: OtlpReceiver, state: Path) -> None:
    assert export(collector).returncode == 0
    assert collector.requests == []
    assert (state / "exports").is_dir()


def test_without_the_library_the_way_to_install_it_is_shown(
    collector: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_launch.commands.export.find_spec", lambda _: None)
    assert util.find_spec("opentelemetry")

    done = export(collector)

    assert done.returncode == 2
    assert "uv tool install --reinstall '.[otel]'" in done.stderr


@pytest.mark.parametrize("interval", ["0s", "soon", ""])
def test_an_interval_is_an_age(collector: OtlpReceiver, interval: str) -> None:
    done = export(collector, "--follow", "--interval", interval)

    assert done.returncode == 2
    assert "fix: " in done.stderr


def test_uninstalling_removes_what_is_remembered(
    collector: OtlpReceiver, parts: CallParts, state: Path
) -> None:
    parts.write(make_record(1))
    export(collector)

    run_command("uninstall", "--yes")

    assert not (state / "exports").exists()


def test_a_collector_without_tls_at_an_https_address_is_an_error(
    collector: OtlpReceiver, parts: CallParts
) -> None:
    parts.write(make_record(1))

    done = run_command("export", "--otlp", collector.url.replace("http:", "https:"))

    assert done.returncode == 1
    assert "cannot be reached: TLS fails: " in done.stderr
    assert "_ssl.c" not in done.stderr


def test_a_certificate_that_cannot_be_read_is_an_error(
    parts: CallParts, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts.write(make_record(1))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.pem")

    done = run_command("export", "--otlp", "https://127.0.0.1:9")

    assert done.returncode == 2
    assert "the certificate /nowhere/ca.pem cannot be used: No such file or dir" in done.stderr
