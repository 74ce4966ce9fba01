"""Every call leaves a record, and nothing that it carried."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from launches import RUN, Launch, call, request, wait_until_gone

if TYPE_CHECKING:
    from pathlib import Path

    from launches import LaunchRunner

# "wait" says that it has come, and is never answered.
SERVER = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    result = {}
    if asked["method"] == "initialize":
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                  "serverInfo": {"name": "x", "version": "1"}}
    elif asked["method"] == "tools/call":
        tool = asked["params"]["name"]
        if tool == "die":
            os._exit(3)
        if tool == "wait":
            print('{"jsonrpc": "2.0", "method": "notifications/message"}', flush=True)
            continue
        given = asked["params"].get("arguments")
        result = {"content": [{"type": "text", "text": json.dumps(given)}],
                  "isError": tool == "fail"}
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""


COMMAND = ["--", sys.executable, "-c", SERVER]

IDS = itertools.count(1)


def open_session(runner: LaunchRunner, *options: str) -> Launch:
    """Return a host with one server behind the launcher."""
    launch = runner.launch("--server", "it", *options, *COMMAND, stderr=subprocess.DEVNULL)
    ask(launch, request("initialize", next(IDS), protocolVersion="2025-06-18"))
    return launch


def ask(launch: Launch, message: dict[str, Any]) -> Any:
    """Return the answer to a request."""
    launch.send(message)
    while (answer := launch.answer()).get("id") != message["id"]:
        assert "method" in answer
    return answer


def use(launch: Launch, tool: str, **arguments: Any) -> Any:
    return ask(launch, call(tool, next(IDS), **arguments))["result"]


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Return the directory of the records."""
    return tmp_path / "state" / "calls"


def read_records(directory: Path) -> list[dict[str, Any]]:
    texts = [part.read_text(encoding="utf-8") for part in sorted(directory.glob("*"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_each_call_is_one_record_without_arguments_and_results(
    project: Path, runner: LaunchRunner, records: Path
) -> None:
    launch = open_session(runner)
    use(launch, "read", text="what nobody may see")
    for tool in ("fail", "die", "read"):
        use(launch, tool)
    launch.finish()

    found = read_records(records)
    assert [(one["number"], one["tool"], one["outcome"]) for one in found] == [
        (1, "read", "ok"),
        (2, "fail", "tool error"),
        (3, "die", "died"),
        (4, "read", "ok"),
    ]
    assert all("arguments" not in one for one in found)
    assert "nobody may see" not in json.dumps(found)
    first = found[0]
    assert (first["server"], first["project"], first["cwd"]) == ("it", str(project), str(project))
    assert first["protocol"] == "2025-06-18"
    assert first["pid"] != found[3]["pid"]  # another server
    assert first["request"] > 80
    assert first["response"] > 60
    assert first["ms"] > 0
    assert oct(os.stat(records).st_mode & 0o777) == "0o700"
    assert {oct(part.stat().st_mode & 0o777) for part in records.iterdir()} == {"0o600"}


def test_arguments_are_recorded_on_request_without_their_secrets(
    runner: LaunchRunner, records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "Zx81-not-to-be-shown")
    launch = open_session(runner, "--record-arguments")
    deep: Any = "x"
    for _ in range(480):
        deep = [deep]
    token = "ghp_" + "a1" * 12

    for given in (
        {"path": "a.txt", "password": "correct-horse-battery"},
        {"text": "it is Zx81-not-to-be-shown", "passwd": 12345678, "max_tokens": 99},
        {"script": "curl -s -u me:hunter22 http://x", token: 1},
        {"value": deep},
    ):
        assert not use(launch, "read", **given)["isError"]
    launch.finish()

    assert [record.get("arguments") for record in read_records(records)] == [
        {"path": "a.txt", "password": "***"},
        {"text": "it is ***", "passwd": "***", "max_tokens": 99},
        {"script": "curl -s -u me:*** http://x", "***": 1},
        None,  # nested too deeply
    ]


@pytest.mark.parametrize("option", ["--no-record", "--direct"])
def test_nothing_is_recorded_if_the_user_says_so(
    option: str, runner: LaunchRunner, records: Path
) -> None:
    launch = open_session(runner, option)
    use(launch, "read")
    launch.finish()

    assert not records.exists()


def test_a_call_that_is_open_when_its_host_is_killed_is_recorded(
    runner: LaunchRunner, records: Path
) -> None:
    host = runner.launch_below_host("host", command=[*RUN, *COMMAND])
    host.initialize()
    host.send(call("wait"))
    assert host.answer()["method"] == "notifications/message"  # the server has the call

    host.process.kill()
    wait_until_gone(host.child)

    [record] = read_records(records)
    assert (record["tool"], record["outcome"]) == ("wait", "cancelled")
    assert record["pid"]


def test_calls_go_on_if_they_cannot_be_recorded(runner: LaunchRunner, records: Path) -> None:
    records.parent.mkdir()
    records.write_text("in the way", encoding="utf-8")
    launch = open_session(runner)

    assert not any(use(launch, "read", n=number)["isError"] for number in range(5))
    assert launch.finish()[0] == 0


def test_many_launches_write_at_the_same_time(runner: LaunchRunner, records: Path) -> None:
    count, calls = 6, 40
    launches = [open_session(runner) for _ in range(count)]

    def run(launch: Launch) -> None:
        for number in range(calls):
            use(launch, "read", text="x" * number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, launches))
    for launch in launches:
        launch.finish()

    found = read_records(records)
    assert len({(one["launch"], one["number"]) for one in found}) == len(found) == count * calls


PROFILE = """
[servers.it]
tools = { deny = ["fail"] }
call_timeout = "3s"
max_concurrent = 1

[servers.it.arguments]
cwd = { inside = "project_root" }
mode = { value = "r" }
"""


def test_a_profile_hides_pins_and_limits(
    project: Path, own_home: Path, runner: LaunchRunner, records: Path
) -> None:
    file = own_home / ".config" / "mcp-launch" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(PROFILE, encoding="utf-8")
    file.chmod(0o600)
    launch = open_session(runner)

    def read(result: Any) -> str:
        return str(result["content"][0]["text"])

    assert json.loads(read(use(launch, "read", mode="w"))) == {"mode": "r"}
    assert "the tool fail of it is hidden" in read(use(launch, "fail"))
    outside = use(launch, "read", cwd=str(project.parent / "elsewhere"))
    assert "elsewhere" in read(outside)
    assert "within 3 s" in read(use(launch, "wait"))
    assert not use(launch, "read", cwd=".")["isError"]
    launch.finish()

    found = read_records(records)
    assert [(one["outcome"], one.get("changed")) for one in found] == [
        ("ok", ["mode"]),
        ("refused", None),
        ("refused", None),
        ("timed out", ["mode"]),
        ("ok", ["cwd", "mode"]),
    ]
    assert "cwd" in found[2]["reason"]
    assert "elsewhere" not in json.dumps(found)  # no record has the value of an argument
