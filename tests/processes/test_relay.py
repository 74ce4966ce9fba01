"""The guarded wire on real processes: every byte, both ways, whatever the speed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from launches import HERE, LIMIT, RUN, LaunchRunner, call, python, read_refusal, request
from shared_servers import SESSION_SERVER, SHARE, greet

if TYPE_CHECKING:
    from launches import Launch
    from shared_servers import Sharing

MEGABYTE = 1 << 20

# Copies its input to its output, in blocks of its own choosing.
CAT = ["cat"]

# Answers every request.
ANSWERER = python(
    "import json, sys\n"
    "for line in sys.stdin:\n"
    "    message = {'jsonrpc': '2.0', 'id': json.loads(line)['id'], 'result': {}}\n"
    "    print(json.dumps(message), flush=True)\n"
)

LINE_LENGTH = 65536
SIZE = 50 * MEGABYTE
LINES = SIZE // LINE_LENGTH

INPUT = (b'{"z":"' + b"z" * (LINE_LENGTH - 9) + b'"}\n') * LINES

# Writes 50 MB and reads 50 MB at the same time; tells on stderr how much it has read.
FLOOD = python(
    "import os, sys, threading\n"
    f"total = {SIZE}\n"
    "line = b'{\"x\":\"' + b'y' * 65527 + b'\"}\\n'\n"
    "def talk():\n"
    "    for _ in range(total // len(line)):\n"
    "        os.write(1, line)\n"
    "talker = threading.Thread(target=talk)\n"
    "talker.start()\n"
    "heard = 0\n"
    "while data := os.read(0, 1 << 16):\n"
    "    heard += len(data)\n"
    "talker.join()\n"
    "sys.stderr.write(str(heard))\n"
)


def send_in_background(launch: Launch, data: bytes, chunk: int) -> threading.Thread:
    def send() -> None:
        stdin = launch.process.stdin
        assert stdin
        for start in range(0, len(data), chunk):
            os.write(stdin.fileno(), data[start : start + chunk])
        stdin.close()

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def read_all(launch: Launch, chunk: int) -> bytes:
    stdout = launch.process.stdout
    assert stdout
    parts = []
    while data := os.read(stdout.fileno(), chunk):
        parts.append(data)
    return b"".join(parts)


MESSAGES = [
    b'{"CRLF":1}\r\n',
    b'  {"spaces": 2 }  \n',
    b'{"big":123456789012345678901234567890,"f":1.10}\n',
    b'{"bad utf-8":"\xff\xfe"}\n',
    b'{"control":"\x01"}\n',
    b'{"' + b"9" * 5000 + b'":' + b"9" * 5000 + b"}\n",
    '{"separators that end no line":"\u2028 \u00e4 \U0001f600"}\n'.encode(),
    b'{"no end of line":1}',
]
END = b"\n"  # a line is whole: its end is added


def test_messages_pass_as_they_were_written(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *CAT)
    for line in MESSAGES:
        launch.write(line)

    assert launch.finish()[1] == b"".join(MESSAGES) + END


def test_half_a_line_waits_for_its_other_half(runner: LaunchRunner) -> None:
    code = (
        "import os\n"
        "os.write(1, b'{\"half\":')\n"
        "os.read(0, 100)\n"
        "os.write(1, b'1}\\n{\"next\":2}\\n')\n"
    )
    launch = runner.launch("--", *python(code))

    launch.write(b"go on\n")

    assert launch.read_line() == b'{"half":1}\n'
    assert launch.read_line() == b'{"next":2}\n'


def test_a_line_of_64_mib_passes(runner: LaunchRunner) -> None:
    line = b'{"x":"' + b"y" * (64 * MEGABYTE) + b'"}\n'
    launch = runner.launch("--", *CAT)
    sender = send_in_background(launch, line, MEGABYTE)

    out = read_all(launch, MEGABYTE)
    sender.join(LIMIT)

    assert out == line
    assert launch.wait() == 0


@pytest.mark.parametrize("slow", ["nobody", "the host", "the server"])
def test_50_mb_both_ways_at_once_do_not_block_each_other(slow: str, runner: LaunchRunner) -> None:
    server = FLOOD
    if slow == "the server":
        server = [*FLOOD[:2], FLOOD[2].replace("os.read(0, 1 << 16)", "os.read(0, 1 << 12)")]
    launch = runner.launch("--", *server)
    sender = send_in_background(launch, INPUT, MEGABYTE)

    out = read_all(launch, 1 << 12 if slow == "the host" else MEGABYTE)
    sender.join(LIMIT)
    assert launch.process.stderr
    heard = int(launch.process.stderr.read())

    assert launch.wait() == 0
    assert heard == SIZE
    assert len(out) == LINES * LINE_LENGTH
    assert out.count(b"\n") == LINES


def test_a_host_that_does_not_read_costs_no_memory(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *FLOOD)
    sender = send_in_background(launch, INPUT, MEGABYTE)
    sender.join(LIMIT)  # the whole input is taken although nobody reads the output

    assert read_peak_memory(launch.pid) < 40 * MEGABYTE


def test_a_server_that_closes_its_stdout_early_is_seen_by_the_host(runner: LaunchRunner) -> None:
    code = (
        "import json, os\n"
        "asked = json.loads(os.read(0, 1000))\n"
        "answer = {'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}\n"
        "os.write(1, json.dumps(answer).encode() + b'\\n')\n"
        "os.close(1)\n"
        "while os.read(0, 100): pass\n"
    )
    launch = runner.launch("--", *python(code))
    launch.send(request("initialize"))

    assert launch.answer()["result"] == {}
    assert launch.read_line() == b""  # the end, while the server still listens
    assert launch.process.poll() is None
    assert launch.finish()[0] == 0


def test_a_server_that_closes_its_stdin_early_is_seen_by_the_host(runner: LaunchRunner) -> None:
    code = (
        "import json, os, time\n"
        "asked = json.loads(os.read(0, 1000))\n"
        "os.close(0)\n"
        "answer = {'jsonrpc': '2.0', 'id': asked['id'], 'result': {}}\n"
        "os.write(1, json.dumps(answer).encode() + b'\\n')\n"
        "time.sleep(3600)\n"
    )
    launch = runner.launch("--", *python(code))
    launch.send(request("initialize"))
    launch.answer()

    with pytest.raises(BrokenPipeError):
        launch.write((b"x" * 1023 + b"\n") * (64 << 10))


def test_a_host_that_stops_reading_breaks_the_servers_pipe(runner: LaunchRunner) -> None:
    launch = runner.launch("--", *FLOOD)
    assert launch.process.stdout
    launch.process.stdout.close()

    # SIGPIPE is the server's own business: Python turns it into an error.
    launch.close()
    assert launch.wait() in {0, 1}


def test_stderr_arrives_and_does_not_block_the_messages(runner: LaunchRunner) -> None:
    code = (
        "import os, sys\n"
        "os.write(2, b'e' * 50000)\n"
        "for line in sys.stdin: print(line, end='', flush=True)\n"
    )
    launch = runner.launch("--", *python(code))
    launch.send({"jsonrpc": "2.0", "method": "notifications/echo"})

    assert launch.answer()["method"] == "notifications/echo"
    assert launch.finish()[2] == b"e" * 50000


def test_sockets_carry_as_well_as_pipes(runner: LaunchRunner) -> None:
    """Claude Code connects its servers by socket pairs."""
    host = [sys.executable, str(HERE / "scripts" / "fake_host.py")]
    line = b'{"x":"' + b"y" * (8 * MEGABYTE) + b'"}\n'
    launch = runner.start([*host, "--socket", "--", *RUN, "--", *CAT])
    launch.read_line()
    sender = threading.Thread(target=launch.write, args=[line])
    sender.start()

    assert launch.read_line() == line
    sender.join(LIMIT)


def test_both_eras_pass(wire: list[str], runner: LaunchRunner) -> None:
    code = (
        "import json, sys\n"
        "for line in sys.stdin:\n"
        "    asked = json.loads(line)\n"
        "    answer = {'jsonrpc': '2.0', 'id': asked.get('id'), 'result': asked}\n"
        "    if 'id' in asked: print(json.dumps(answer), flush=True)\n"
    )
    launch = runner.launch(*wire, "--", *python(code))

    for method in ("server/discover", "initialize", "tools/list"):
        asked = request(method, f"{method}-probe")
        launch.send(asked)
        answer = launch.answer()
        answer["result"]["id"] = asked["id"]  # the server knows the request by a number of ours
        assert answer == {"jsonrpc": "2.0", "id": asked["id"], "result": asked}


def test_the_last_words_of_a_server_arrive(wire: list[str], runner: LaunchRunner) -> None:
    lines = b"".join(json.dumps({"n": n, "pad": "x" * 100}).encode() + b"\n" for n in range(5000))
    (runner.project / "words").write_bytes(lines)
    launch = runner.launch(*wire, "--", "cat", "words", stdin=subprocess.DEVNULL)

    assert launch.finish()[1] == lines


def test_input_that_ends_with_a_request_is_still_answered(
    wire: list[str], runner: LaunchRunner
) -> None:
    launch = runner.launch(*wire, "--", *ANSWERER)
    launch.send(*(request("ping", n) for n in range(1000)))

    code, out, _ = launch.finish()

    assert code == 0
    assert out.count(b"\n") == 1000


def read_peak_memory(pid: int) -> int:
    with open(f"/proc/{pid}/status", encoding="utf-8") as status:
        fields = dict(line.split(":", 1) for line in status)
    return int(fields["VmHWM"].split()[0]) * 1024


# Begins a notification with each call, and never ends it, unless it is to answer.
ENDLESS = """
import json, os, sys
for line in sys.stdin:
    said = json.loads(line)
    if said["method"] == "tools/call" and said["params"]["name"] == "endless":
        os.write(1, b'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":"')
        while True:
            os.write(1, b"x" * 65536)
    if "id" in said:
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "pid": os.getpid()}
        print(json.dumps({"jsonrpc": "2.0", "id": said["id"], "result": result}), flush=True)
"""

ALONE_AND_SHARED = pytest.mark.parametrize("words", [[], SHARE], ids=["alone", "shared"])


@ALONE_AND_SHARED
def test_a_server_that_never_ends_a_line_is_replaced_with_the_reason(
    sharing: Sharing, words: list[str]
) -> None:
    reason = "was ended, because it wrote a line of more than 256 MB"
    launch = sharing.runner.launch(*words, "--server", "docs", "--", *python(ENDLESS))
    greet(launch)
    before = launch.call("who")["pid"]

    launch.send(call("endless", 5))
    answer = launch.answer()

    assert answer["id"] == 5
    assert reason in read_refusal(answer)
    assert launch.call("who")["pid"] != before
    launch.finish()
    assert reason in run_command("logs", "docs").stdout


TOO_LONG = 257 * MEGABYTE


@pytest.mark.parametrize(
    ("beginning", "end"),
    [
        pytest.param(
            b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","arguments":"',
            b'"}}\n',
            id="the id comes first",
        ),
        pytest.param(
            b'{"method":"tools/call","params":{"name":"echo","arguments":{"text":"',
            b'"}},"jsonrpc":"2.0","id":5}\n',
            id="the id comes last",
        ),
    ],
)
def test_a_call_of_more_than_256_mb_is_refused(
    runner: LaunchRunner, beginning: bytes, end: bytes
) -> None:
    launch = runner.launch("--", *SESSION_SERVER)
    greet(launch)

    launch.write(beginning)
    for _ in range(2):
        launch.write(b"x" * TOO_LONG)
    assert read_peak_memory(launch.pid) < 2 * TOO_LONG, "all of it is kept"
    launch.write(end)
    answer = launch.answer()

    assert answer["id"] == 5
    assert "is longer than 256 MB" in read_refusal(answer)
    assert launch.call("echo")["served"] == 1, "the server has got it"
