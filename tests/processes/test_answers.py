"""Every request is answered exactly once, and no call reaches a server that must not see it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from launches import (
    HERE,
    SCRIPTED_SERVER,
    Launch,
    LaunchRunner,
    call,
    python,
    read_refusal,
    request,
)
from sessions import A, B, of, with_constants
from shared_servers import Sharing, greet

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions import Claude


def write_call(launch: Launch, request_id: str, meta: str, arguments: str = "{}") -> None:
    """Call `look` with words that `json.dumps` would not choose."""
    params = f'{{"name":"look","arguments":{arguments},"_meta":{meta}}}'
    line = f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":{params}}}'
    launch.write(line.encode() + b"\n")


# What we answer ourselves.


def test_a_refused_request_gets_its_id_back_as_it_was_written(
    codex: Callable[..., Launch],
) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))
    long_number = f'{{"n":{"9" * 5000}}}'

    for written, arguments in {
        "7": long_number,
        "9" * 5000: "{}",
        "1e2": "{}",
        "1.50": "{}",
        '"\\u0061"': "{}",
    }.items():
        write_call(host, written, json.dumps(of(B)), arguments)

        assert host.read_line().startswith(f'{{"jsonrpc":"2.0","id":{written},"result"'.encode())


def test_a_call_with_a_long_number_is_answered_when_the_server_dies(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    number = "9" * 4000  # as long as the server itself can read
    params = f'{{"name":"die","arguments":{{"n":{number}}},"_meta":{{"n":{number * 2}}}}}'
    line = f'{{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{params}}}\n'
    launch.write(line.encode())

    answer = launch.answer()

    assert answer["id"] == 2
    assert "tools/call was not answered" in read_refusal(answer)


# A server that is being replaced.


def test_a_call_that_took_too_long_is_not_answered_again_at_length(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session", run=with_constants(DRAIN_LIMIT=0.2))
    host = session.begin()
    flag = tmp_path / "go"
    host.send(call("wait", 2, path=str(flag), size=200_000))
    assert host.answer()["method"] == "notifications/message"

    session.switch("s-2")
    host.send(call("look", 3))
    assert "was replaced" in read_refusal(host.answer())
    flag.touch()  # it has not been ended yet, and answers

    answer = host.answer()
    assert answer["id"] == 3
    assert answer["result"]["env"]["SESSION"] == "s-2"


# A server that dies.


@pytest.mark.parametrize("size", [10, 100_000])
def test_an_answer_without_a_line_end_is_the_only_one(runner: LaunchRunner, size: int) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.send(call("bare", 2, size=size), call("look", 3))

    answers = [json.loads(line) for line in read_messages(launch, until=3)]

    assert [answer["id"] for answer in answers] == [2, 3]


def read_messages(launch: Launch, until: int) -> list[bytes]:
    """Return the lines that a host can read, up to the answer to this request."""
    lines: list[bytes] = []
    while not lines or json.loads(lines[-1]).get("id") != until:
        line = launch.read_line()
        assert line, "the launch closed its stdout"
        if not line.endswith(b"[cut off]\n"):
            lines.append(line)
    return lines


def test_a_server_that_no_longer_reads_ends_the_launch_when_it_ends(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    launch = runner.start([*with_constants(module="broker", _DYING=0.01), "--", *SCRIPTED_SERVER])
    launch.initialize()
    flag = tmp_path / "go"
    launch.call("deaf", 2, path=str(flag))
    launch.send(call("look", 3))
    with pytest.raises(BrokenPipeError):
        ask_without_end(launch)

    flag.touch()

    answered = {}
    while line := launch.read_line():
        answer = json.loads(line)
        assert answer["id"] not in answered, "answered twice"
        answered[answer["id"]] = answer
    assert "ended with exit code 5" in read_refusal(answered[3])
    assert launch.wait() == 5


def ask_without_end(launch: Launch) -> None:
    """Ask until nobody listens any more."""
    for number in range(4, 1_000_000):
        launch.send(request("ping", number))


# Depths, numbers and cursors.


DEEP_TOOLS = python(
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    message = json.loads(line)\n"
    "    if 'id' not in message: continue\n"
    "    tools = '[{\"name\":\"x\",\"inputSchema\":' + '[' * 500 + ']' * 500 + '}]'\n"
    "    result = '{\"tools\":' + tools + '}' if message['method'] == 'tools/list' else '{}'\n"
    "    if message['method'] == 'die': sys.exit(5)\n"
    '    print(\'{"jsonrpc":"2.0","id":%s,"result":%s}\''
    " % (json.dumps(message['id']), result), flush=True)\n"
)


def test_a_deep_schema_reaches_the_host_and_survives_the_servers_end(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *DEEP_TOOLS)
    launch.initialize()

    assert launch.ask("tools/list")["tools"][0]["name"] == "x"
    launch.send(request("die", 2))
    assert "exit code 5" in read_refusal(launch.answer())
    assert launch.ask("ping") == {}


# What other readers would find in a line.

DEEP = b"[" * 5000 + b"]" * 5000


def hide(line: bytes) -> dict[str, bytes]:
    """Return lines in which some readers find this message, and others do not."""
    return {
        "form feed": b"\f" + line + b"\n",
        "vertical tab": b"\v" + line + b"\v\n",
        "file separator": b"\x1c" + line + b"\n",
        "unit separator": b"\x1f" + line + b"\n",
        "next line": b"\xc2\x85" + line + b"\n",
        "no-break space": b"\xc2\xa0" + line + b"\n",
        "behind a carriage return": b'{"jsonrpc":"2.0","method":"x"}\r' + line + b"\n",
        "within a message": b'{"x":\r' + line + b"\r}\n",
        "behind words": b"hello\r" + line + b"\n",
        "behind a line separator": b"{}\xe2\x80\xa8" + line + b"\n",
        "a trailing comma": line[:-1] + b",}\n",
        "a comment": b"/* x */" + line + b"\n",
        "capital letters": line.replace(b'"method"', b'"Method"') + b"\n",
        "UTF-16": line.decode().encode("utf-16-be") + b"\0\n",
        "a byte-order mark": b"\xef\xbb\xbf" + line + b"\n",
        "behind a message": b'{"jsonrpc":"2.0","method":"notifications/x"}' + line + b"\n",
        "before words": line + b" and so on\n",
        "a carriage return": b"\r" + line + b"\r\n",
        "deep arguments": line.replace(b'"arguments": {}', b'"arguments": ' + DEEP) + b"\n",
    }


# A server that reads text, as the official SDK for Python does, and forgives a lot.
FORGIVING = python(
    "import io, json, sys\n"
    "heard = []\n"
    "lines = io.TextIOWrapper(sys.stdin.buffer, encoding='utf-8')\n"
    "for line in (part for line in lines for part in line.splitlines()):\n"
    "    text = line.strip().replace('/* x */', '').replace(',}', '}')\n"
    "    try: message = json.loads(text.replace('\\0', ''))\n"
    "    except ValueError: continue\n"
    "    heard.append({name.casefold(): value for name, value in message.items()})\n"
    "    if 'id' in message: print(json.dumps({'jsonrpc': '2.0', 'id': message['id'],"
    " 'result': {'heard': heard}}), flush=True)\n"
)


def test_no_reader_finds_a_call_that_was_not_judged(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "refuse", threads=(A,), command=FORGIVING)
    host.initialize()
    host.call("look", meta=of(A))

    for how, hidden in hide(json.dumps(call("look", 2, meta=of(B))).encode()).items():
        host.write(hidden)
        host.send(call("look", 3, meta=of(A)))
        answer = host.answer()
        while answer["id"] != 3:
            answer = host.answer()
        calls = [one for one in answer["result"]["heard"] if one.get("method") == "tools/call"]
        assert {one["params"]["_meta"]["threadId"] for one in calls} == {A}, how


# After the host has closed its end.

LATE_SERVER = [sys.executable, str(HERE / "scripts" / "late_server.py")]

# The ways in which a host may have its server.
WAYS = {
    "plain": [],
    "one for each session": ["--on-change", "isolate"],
    "shared": ["--share", "project"],
}


@pytest.fixture(params=[*WAYS])
def late(request: pytest.FixtureRequest, sharing: Sharing, tmp_path: Path) -> LateServer:
    """Return a server that speaks when it may, and the launches that use it."""
    return LateServer(sharing, tmp_path, WAYS[request.param])


class LateServer:
    """Starts launches of a server that says more than it was asked for."""

    def __init__(self, sharing: Sharing, directory: Path, words: list[str]) -> None:
        self._runner, self._directory, self._words = sharing.runner, directory, words

    def may_start(self, tool: str) -> None:
        """Let the server read what its hosts say, and name its tool."""
        (self._directory / "start").write_text(tool, encoding="utf-8")

    def may_go_on(self) -> None:
        """Let the server answer its call."""
        (self._directory / "go").touch()

    def launch(self, *words: str) -> Launch:
        """Start a launch that says on stderr what it notices."""
        command = [*LATE_SERVER, str(self._directory)]
        return self._runner.launch("--trace", *self._words, *words, "--", *command)

    def teach(self) -> None:
        """Have what the server answers remembered, with another tool than it has later."""
        self.may_start("before")
        launch = self.launch()
        greet(launch)
        self.list_tools(launch)
        launch.finish()
        (self._directory / "start").unlink()

    @staticmethod
    def list_tools(launch: Launch) -> list[str]:
        """Ask for the tools, whatever else is said before they come."""
        launch.send(request("tools/list", 1))
        while (answer := launch.answer()).get("id") != 1 or "result" not in answer:
            pass
        return [tool["name"] for tool in answer["result"]["tools"]]

    @staticmethod
    def close(launch: Launch) -> None:
        """Close a launch's stdin, and wait until it has noticed that."""
        launch.close()
        launch.wait_for_stderr(b"the host has closed our stdin")


def read_rest(launch: Launch) -> list[dict[str, Any]]:
    """Return the messages up to the end."""
    return [json.loads(line) for line in iter(launch.read_line, b"")]


def test_a_host_that_closed_its_stdin_gets_progress_and_answers_and_nothing_else(
    late: LateServer,
) -> None:
    late.may_start("only")
    launch = late.launch()
    greet(launch)
    late.list_tools(launch)
    launch.send(call("only", 2, meta={"progressToken": "mine"}))
    while launch.answer().get("params", {}).get("data") != "at work":
        pass
    late.close(launch)
    late.may_go_on()

    rest = read_rest(launch)
    assert len(rest) == 2, rest
    progress, answer = rest

    assert progress["method"] == "notifications/progress"
    assert progress["params"]["progressToken"] == "mine"
    assert answer["id"] == 2
    told = [one for one in answer["result"]["told"] if one["id"] == 1]
    assert all("has closed" in one["error"]["message"] for one in told)


def test_a_host_that_was_answered_from_memory_and_closed_its_stdin_gets_nothing(
    late: LateServer,
) -> None:
    late.teach()
    launch = late.launch()
    greet(launch)
    assert late.list_tools(launch) == ["before"]
    late.close(launch)
    late.may_start("after")

    assert read_rest(launch) == []
    assert launch.wait() == 0


def test_a_host_that_closed_its_stdin_while_its_server_starts_gets_only_its_answer(
    late: LateServer,
) -> None:
    late.teach()
    late.may_go_on()
    launch = late.launch("--start", "called")
    greet(launch)
    assert late.list_tools(launch) == ["before"]
    launch.send(call("before", 2, meta={"progressToken": 2}))
    late.close(launch)
    late.may_start("before")

    *progress, answer = read_rest(launch)

    assert [one["params"]["progressToken"] for one in progress] == [2]
    assert answer["id"] == 2
    assert answer["result"]["content"] == []
