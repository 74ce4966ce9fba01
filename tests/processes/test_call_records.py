"""Every call leaves a record, and nothing that it carried."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from launches import LIMIT, Launch, request, wait_until_gone

if TYPE_CHECKING:
    from collections.abc import Iterator
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


def make_command(*options: str) -> list[str]:
    """Return the command that runs the server behind the launcher."""
    run = [sys.executable, "-m", "mcp_launch", "run", "--server", "it", *options]
    return [*run, "--", sys.executable, "-c", SERVER]


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t"}}


class Session:
    """A host with one server behind the launcher."""

    def __init__(self, project: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            make_command(*options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=project,
        )
        self._launch = Launch(self.process)
        self._id = 0
        self.ask("initialize", HELLO)

    def ask(self, method: str, params: dict[str, Any]) -> Any:
        """Return the answer to a request; every line before it has to come in time, too."""
        self._id += 1
        self._launch.send(request(method, self._id, **params))
        while (message := self._launch.answer()).get("id") != self._id:
            assert "method" in message
        return message

    def call(self, tool: str, **arguments: Any) -> Any:
        return self.ask("tools/call", {"name": tool, "arguments": arguments})

    def close(self) -> None:
        if self.process.stdin and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(LIMIT)
        if self.process.stdout:
            self.process.stdout.close()


@pytest.fixture
def sessions(project: Path) -> Iterator[list[Session]]:
    """Return the sessions that end with the test."""
    assert project
    started: list[Session] = []
    yield started
    for session in started:
        session.process.kill()
        session.close()


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Return the directory of the records."""
    return tmp_path / "state" / "calls"


def read_records(directory: Path) -> list[dict[str, Any]]:
    texts = [part.read_text(encoding="utf-8") for part in sorted(directory.glob("*"))]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def test_each_call_is_one_record_without_arguments_and_results(
    project: Path, sessions: list[Session], records: Path
) -> None:
    sessions.append(session := Session(project))
    session.call("read", text="what nobody may see")
    session.call("fail")
    session.call("die")
    session.call("read")
    session.close()

    found = read_records(records)
    assert [(one["tool"], one["outcome"]) for one in found] == [
        ("read", "ok"),
        ("fail", "tool error"),
        ("die", "died"),
        ("read", "ok"),
    ]
    assert [one["number"] for one in found] == [1, 2, 3, 4]
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
    project: Path, sessions: list[Session], records: Path
) -> None:
    sessions.append(session := Session(project, "--record-arguments"))
    session.call("read", path="a.txt", password="correct-horse-battery")  # noqa: S106
    session.close()

    [record] = read_records(records)
    assert record["arguments"] == {"path": "a.txt", "password": "***"}


def test_secrets_of_the_environment_numbers_and_names_are_masked(
    project: Path, sessions: list[Session], records: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "Zx81-not-to-be-shown")
    token = "ghp_" + "a1" * 12
    sessions.append(session := Session(project, "--record-arguments"))
    session.call("read", text="it is Zx81-not-to-be-shown", passwd=12345678, max_tokens=99)
    session.call("read", script="curl -s -u me:hunter22 http://x", **{token: 1})
    session.close()

    first, second = (one["arguments"] for one in read_records(records))
    assert first == {"text": "it is ***", "passwd": "***", "max_tokens": 99}
    assert second == {"script": "curl -s -u me:*** http://x", "***": 1}


def test_arguments_nested_too_deeply_are_left_out(
    project: Path, sessions: list[Session], records: Path
) -> None:
    sessions.append(session := Session(project, "--record-arguments"))
    deep: Any = "x"
    for _ in range(480):
        deep = [deep]
    for value in (deep, "plain"):
        assert not session.call("read", value=value)["result"]["isError"]
    session.close()

    first, second = read_records(records)
    assert "arguments" not in first
    assert second["arguments"] == {"value": "plain"}


@pytest.mark.parametrize("option", ["--no-record", "--direct"])
def test_nothing_is_recorded_if_the_user_says_so(
    option: str, project: Path, sessions: list[Session], records: Path
) -> None:
    sessions.append(session := Session(project, option))
    session.call("read")
    session.close()

    assert not records.exists()


def test_a_call_that_is_open_when_its_host_is_killed_is_recorded(
    project: Path, runner: LaunchRunner, records: Path
) -> None:
    host = runner.launch_below_host("host", command=make_command(), cwd=project)
    host.send(request("initialize", 0, **HELLO))
    host.answer()
    host.send(request("tools/call", 1, name="wait"))
    assert host.answer()["method"] == "notifications/message"  # the server has the call

    host.process.kill()
    wait_until_gone(host.child)

    [record] = read_records(records)
    assert (record["tool"], record["outcome"]) == ("wait", "cancelled")
    assert record["pid"]


def test_calls_go_on_if_they_cannot_be_recorded(
    project: Path, sessions: list[Session], records: Path
) -> None:
    records.parent.mkdir()
    records.write_text("in the way", encoding="utf-8")
    sessions.append(session := Session(project))

    answers = [session.call("read", n=number) for number in range(5)]

    session.close()
    assert all(not one["result"]["isError"] for one in answers)
    assert session.process.returncode == 0


def test_many_launches_write_at_the_same_time(project: Path, records: Path) -> None:
    count, calls = 12, 40

    def run(_number: int) -> None:
        session = Session(project)
        try:
            for number in range(calls):
                session.call("read", text="x" * number)
        finally:
            session.close()

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))

    found = read_records(records)
    assert len(found) == count * calls
    assert len({(one["launch"], one["number"]) for one in found}) == count * calls


PROFILE = """
[servers.it]
tools = { deny = ["fail"] }
call_timeout = "1s"
max_concurrent = 1

[servers.it.arguments]
cwd = { inside = "project_root" }
"""


def test_a_profile_hides_pins_and_limits(
    project: Path, own_home: Path, sessions: list[Session], records: Path
) -> None:
    file = own_home / ".config" / "mcp-launch" / "config.toml"
    file.parent.mkdir(parents=True)
    file.write_text(PROFILE, encoding="utf-8")
    file.chmod(0o600)
    sessions.append(session := Session(project))

    given = json.loads(session.call("read", cwd=".")["result"]["content"][0]["text"])
    hidden = session.call("fail")
    outside = session.call("read", cwd=str(project.parent / "elsewhere"))
    late = session.call("wait")
    after = session.call("read", cwd=".")
    session.close()

    assert given == {"cwd": str(project)}
    assert "the tool fail of it is hidden" in hidden["result"]["content"][0]["text"]
    assert "elsewhere" in outside["result"]["content"][0]["text"]
    assert "within 1 s" in late["result"]["content"][0]["text"]
    assert not after["result"]["isError"]
    found = read_records(records)
    assert [(one["outcome"], one.get("changed")) for one in found] == [
        ("ok", ["cwd"]),
        ("refused", None),
        ("refused", None),
        ("timed out", None),
        ("ok", ["cwd"]),
    ]
    assert "cwd" in found[2]["reason"]
    assert "elsewhere" not in json.dumps(found)  # no record has the value of an argument
