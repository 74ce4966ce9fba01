"""Records of calls: whatever a host sends, the worst that is lost is the record of its call."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from broker_playbooks import HANDSHAKE, Playbook

from mcp_launch.broker.limits import CallLimiter
from mcp_launch.runtime import CallRecorder
from mcp_launch.runtime.records import Records

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from loop_rig import RecordedLog


def open_recorded(**settings: Any) -> Playbook:
    """Return a playbook whose calls are recorded, after the handshake."""
    playbook = Playbook(records_calls=True, **settings)
    playbook.play(HANDSHAKE)
    return playbook


def call(playbook: Playbook, number: int, arguments: str = "{}") -> None:
    """Have a call answered."""
    params = f'{{"name":"t","arguments":{arguments}}}'
    said = f'{{"jsonrpc":"2.0","id":{number},"method":"tools/call","params":{params}}}\n'
    playbook.broker.host_said("host", said.encode())
    playbook.broker.server_said("server", b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % number)


def read_records(directory: Path) -> list[dict[str, Any]]:
    texts = [part.read_text(encoding="utf-8") for part in directory.glob("*")]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def read_ids(directory: Path) -> list[int]:
    return [one["id"] for one in read_records(directory)]


def test_arguments_of_any_depth_leave_a_record(tmp_path: Path) -> None:
    playbook = open_recorded()
    records = Records(playbook.broker, keeps_arguments=True)

    depths = range(300, 500)  # from well within what can be encoded to well beyond it
    for depth in depths:
        call(playbook, depth, '{"x":' + "[" * depth + "]" * depth + "}")
        records.write()

    assert read_ids(tmp_path / "state" / "calls") == [*depths]


def test_a_record_tells_how_long_its_call_was_held_back(tmp_path: Path) -> None:
    playbook = open_recorded(limits=CallLimiter(max_concurrent=1))
    for event in (
        'host: 1 tools/call {"name":"a"}',
        'host: 2 tools/call {"name":"b"}',
        "after 4",
        "server: 1 = {}",
    ):
        playbook.play_event(event)
    playbook.broker.timer("next server")
    playbook.play_event("after 1")
    playbook.play_event("server: 2 = {}")

    Records(playbook.broker, keeps_arguments=False).write()

    first, second = read_records(tmp_path / "state" / "calls")
    assert "held" not in first
    assert (second["ms"], second["held"]) == (5000.0, 4000.0)


def test_a_record_that_cannot_be_made_is_lost_and_no_other(
    tmp_path: Path, trace: RecordedLog
) -> None:
    def mask(text: str) -> str:
        raise KeyError(text)

    playbook = open_recorded(mask=mask, on_change="refuse")
    records = Records(playbook.broker, keeps_arguments=False)
    for number, session in enumerate(["a", "b", "b", "a"], 1):
        params = f'{{"_meta":{{"session":"{session}"}},"name":"t"}}'
        playbook.play_event(f"host: {number} tools/call {params}")
        playbook.broker.server_said("server", b'{"jsonrpc":"2.0","id":%d,"result":{}}\n' % number)

    records.write()

    assert read_ids(tmp_path / "state" / "calls") == [1, 4]
    assert len(trace.notes) == 1
    assert "could not be recorded" in trace.notes[0]


def test_calls_go_on_if_mcp_launch_is_removed_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    playbook = open_recorded()
    recorder = CallRecorder(playbook.broker, keeps_arguments=False)
    monkeypatch.setitem(sys.modules, "mcp_launch.runtime.records", None)

    call(playbook, 1)
    recorder.write()

    assert not playbook.broker.finished_calls
