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
from sessions import A, B, kill, methods, of, with_constants
from shared_servers import Sharing, greet

from mcp_launch.broker.routing import KEY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sessions import Claude


def cancel(request_id: object) -> dict[str, Any]:
    """Return the host's cancellation of a request."""
    params = {"requestId": request_id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def write_call(launch: Launch, request_id: str, meta: str, arguments: str = "{}") -> None:
    """Call `look` with words that `json.dumps` would not choose."""
    params = f'{{"name":"look","arguments":{arguments},"_meta":{meta}}}'
    line = f'{{"jsonrpc":"2.0","id":{request_id},"method":"tools/call","params":{params}}}'
    launch.write(line.encode() + b"\n")


# What we answer ourselves.


def test_a_call_is_refused_with_a_result_that_says_it_failed(codex: Callable[..., Launch]) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

    host.send(call("look", 2, meta=of(B)), request("prompts/get", 3, _meta=of(B)))
    refused, other = host.answer(), host.answer()

    assert refused["result"]["isError"] is True
    assert "resultType" not in refused["result"]
    assert "but this server serves" in read_refusal(refused)
    assert "but this server serves" in other["error"]["message"]
    assert not -32768 <= other["error"]["code"] <= -32000


def test_a_refused_call_of_the_2026_era_has_a_complete_result(
    codex: Callable[..., Launch],
) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

    version = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    host.send(call("look", 2, meta=of(B, **version)))

    assert host.answer()["result"]["resultType"] == "complete"


@pytest.mark.parametrize(
    ("written", "arguments"),
    [
        ("7", f'{{"n":{"9" * 5000}}}'),
        ("9" * 5000, "{}"),
        ("1e2", "{}"),
        ("1.50", "{}"),
        ('"\\u0061"', "{}"),
    ],
    ids=["beside a long number", "long", "an exponent", "a fraction", "an escape"],
)
def test_a_refused_request_gets_its_id_back_as_it_was_written(
    codex: Callable[..., Launch], written: str, arguments: str
) -> None:
    host = codex("--on-change", "refuse", threads=(A,))
    host.initialize()
    host.call("look", meta=of(A))

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


def test_nothing_of_ours_is_written_into_a_servers_answer(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    session = claude("--env", "SESSION=session")
    host = session.begin()
    host.send(call("ask", 2, at_once=True))  # a question that nobody answers
    assert host.answer()["method"] == "sampling/createMessage"
    assert host.answer()["id"] == 2
    flag = tmp_path / "go"
    host.send(call("wait", 3, path=str(flag), size=200_000))
    assert host.answer()["method"] == "notifications/message"

    session.switch("s-2")
    host.send(call("look", 4))
    flag.touch()

    said = [host.answer() for _ in range(3)]
    assert len(said[0]["result"]["text"]) == 200_000
    assert said[1]["method"] == "notifications/cancelled"
    assert said[2]["result"]["env"]["SESSION"] == "s-2"


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


def test_an_answer_that_has_begun_may_end_before_its_server_is_replaced(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    run = with_constants(DRAIN_LIMIT=0.01, LINE_LIMIT=20.0)
    session = claude("--env", "SESSION=session", "--trace", run=run)
    host = session.begin()
    flag = tmp_path / "go"
    host.send(call("slowly", 2, path=str(flag)))
    host.wait_for_output(20_000)

    session.switch("s-2")
    host.send(call("look", 3))
    host.wait_for_stderr(b"it may finish the answer")
    flag.touch()

    first, second = host.answer(), host.answer()
    assert (first["id"], len(first["result"]["text"])) == (2, 50_000)
    assert (second["id"], second["result"]["env"]["SESSION"]) == (3, "s-2")


def test_an_answer_that_does_not_end_in_time_is_cut_and_not_followed_by_its_end(
    claude: Callable[..., Claude], tmp_path: Path
) -> None:
    run = with_constants(DRAIN_LIMIT=0.01, LINE_LIMIT=0.01)
    session = claude("--env", "SESSION=session", run=run)
    host = session.begin()
    flag = tmp_path / "go"
    host.send(call("slowly", 2, path=str(flag)))
    host.wait_for_output(20_000)

    session.switch("s-2")
    host.send(call("look", 3))
    assert host.read_line().endswith(b"x [cut off]\n")
    flag.touch()  # it has not been ended yet, and finishes its line

    refused, answer = host.answer(), host.answer()
    assert (refused["id"], answer["id"]) == (2, 3)
    assert "was replaced" in read_refusal(refused)


def test_an_answer_before_the_noise_that_ends_a_strict_launch_arrives(runner: LaunchRunner) -> None:
    code = (
        "import sys\n"
        "sys.stdin.readline()\n"
        'sys.stdout.write(\'{"jsonrpc":"2.0","id":1,"result":{}}\\nnoise\\n\')\n'
        "sys.stdout.flush()\n"
        "sys.stdin.read()\n"
    )
    launch = runner.launch("--stdout", "strict", "--", *python(code))
    launch.send(request("initialize"))

    assert launch.answer() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert launch.finish()[0] == 125


# A server that dies.


@pytest.mark.parametrize("mode", ["auto", "off"])
@pytest.mark.parametrize("size", [10, 100_000])
def test_an_answer_without_a_line_end_is_the_only_one(
    runner: LaunchRunner, mode: str, size: int
) -> None:
    launch = runner.launch("--stdout", mode, "--", *SCRIPTED_SERVER)
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


def test_a_cancelled_call_is_not_handed_to_the_next_server(
    runner: LaunchRunner, tmp_path: Path
) -> None:
    run = with_constants(module="broker", _DYING=20.0)
    launch = runner.start([*run, "--", *SCRIPTED_SERVER])
    launch.initialize()
    flag = tmp_path / "go"
    launch.call("deaf", 2, path=str(flag))

    launch.send(call("look", 3), cancel(3), request("ping", 4))
    flag.touch()

    assert launch.answer()["id"] == 4
    heard = launch.call("look", 5)["heard"]
    assert [message["id"] for message in heard if "id" in message] == [heard[0]["id"], 4, 5]
    assert "notifications/cancelled" not in methods({"heard": heard})


def test_a_server_gets_no_cancellation_of_its_predecessors_requests(
    runner: LaunchRunner,
) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    kill(launch.call("look", 1)["pid"])
    launch.call("look", 2)

    launch.send(cancel(1))

    assert "notifications/cancelled" not in methods(launch.call("look", 3))


def test_a_later_server_cancels_its_own_request_and_no_other(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    for number in (10, 20):
        launch.send(call("ask", number))
        launch.answer()
        launch.send(call("die", number + 1))
        answered = [launch.answer() for _ in range(3)]
        assert answered[2]["method"] == "notifications/cancelled"

    launch.send(call("ask", 30))
    asked = launch.answer()
    launch.send(call("withdraw", 31))

    assert launch.answer()["params"]["requestId"] == asked["id"]


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


def test_a_number_beyond_all_floats_arrives_as_it_was_sent(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()

    write_call(launch, "1", f'{{"{KEY.text}":{{"x":1e999}}}}')

    assert launch.answer()["result"]["meta"][KEY.text]["outer"] == {"x": float("inf")}


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


def test_a_deep_id_of_a_servers_request_ends_nothing(runner: LaunchRunner) -> None:
    deep = "[" * 500 + "]" * 500
    asks = (
        "import sys\n"
        "sys.stdin.readline()\n"
        'print(\'{"jsonrpc":"2.0","id":1,"result":{}}\')\n'
        f'print(\'{{"jsonrpc":"2.0","id":{deep},"method":"sampling"}}\', flush=True)\n'
        "for line in sys.stdin:\n"
        "    if 'die' in line: sys.exit(5)\n"
    )
    launch = runner.launch("--", *python(asks))
    launch.send(request("initialize"))
    launch.answer()
    assert deep.encode() in launch.read_line()

    launch.send(request("die", 2))

    assert "exit code 5" in read_refusal(launch.answer())
    assert launch.answer()["params"]["requestId"] == json.loads(deep)


def test_an_empty_cursor_asks_for_the_first_page(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *SCRIPTED_SERVER)
    launch.initialize()
    launch.ask("tools/list", cursor="")
    kill(launch.call("look")["pid"])

    assert launch.call("look", 2)["calls"] == 1


@pytest.mark.parametrize("request_id", [{}, [], {"a": 1}], ids=str)
def test_an_answer_with_an_impossible_id_passes(runner: LaunchRunner, request_id: object) -> None:
    code = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)\n"
    launch = runner.launch("--", *python(code))
    launch.initialize(roots={})

    answer = {"jsonrpc": "2.0", "id": request_id, "result": {"roots": []}}
    launch.answer()
    launch.send(answer)

    assert launch.answer() == answer


# What other readers would find in a line.


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


@pytest.mark.parametrize("how", hide(b""))
def test_no_reader_finds_a_call_that_was_not_judged(codex: Callable[..., Launch], how: str) -> None:
    host = codex("--on-change", "refuse", threads=(A,), command=FORGIVING)
    host.initialize()
    host.call("look", meta=of(A))

    host.write(hide(json.dumps(call("look", 2, meta=of(B))).encode())[how])
    host.send(call("look", 3, meta=of(A)))

    answer = host.answer()
    while answer["id"] != 3:
        answer = host.answer()
    calls = [one for one in answer["result"]["heard"] if one.get("method") == "tools/call"]
    assert [one["id"] for one in calls] == [1, 3]


@pytest.mark.parametrize(
    "more",
    ['"Params":{"name":"look","_meta":%s}', '"param\u017f":{"name":"look","_meta":%s}'],
    ids=["capital letters", "a long s"],
)
def test_no_call_is_so_usual_that_it_is_not_judged(codex: Callable[..., Launch], more: str) -> None:
    """The hundredth call looks like the others before it, but for what it says behind them."""
    host = codex(threads=(A,))
    host.initialize()
    usual = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"_meta":%s,"name":"look"}%s}'
    meta = json.dumps(of(A), separators=(",", ":"))
    for number in range(1, 4):
        host.write((usual % (number, meta, "")).encode() + b"\n")
        assert host.answer()["id"] == number

    host.write((usual % (4, meta, "," + more % json.dumps(of(B)))).encode() + b"\n")

    assert "error" in host.answer()
    assert B not in json.dumps(host.call("look", 5, meta=of(A))["heard"])


def test_a_context_under_a_capitalised_name_is_refused(codex: Callable[..., Launch]) -> None:
    host = codex(threads=(A,))
    host.initialize()
    forged = call("look", 1, meta=of(A))
    forged["params"]["_Meta"] = {KEY.text: {"threadId": B}}

    host.send(forged)

    assert "capitalised" in host.answer()["error"]["message"]


def test_words_that_come_in_pieces_do_not_hide_a_call(codex: Callable[..., Launch]) -> None:
    host = codex("--stdout", "off", "--on-change", "refuse", threads=(A,), command=python(ECHO))
    host.send(call("look", meta=of(A)))
    host.answer()

    host.write(b"hello\r")
    host.wait_for_output(len("hello\r"))  # it has passed: it cannot be a message
    host.send(call("look", 2, meta=of(B)))

    assert host.read_line() == b"hello\r\n"
    assert "but this server serves" in read_refusal(host.answer())


ECHO = "import os\nwhile data := os.read(0, 65536): os.write(1, data)\n"


# After the host has closed its end.

LATE_SERVER = [sys.executable, str(HERE / "scripts" / "late_server.py")]

# The ways in which a host may have its server.
WAYS = {
    "plain": [],
    "nothing judged": ["--stdout", "off"],
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

    progress, answer = read_rest(launch)

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
