"""What a launch leaves for a person to read, and `mcp-launch logs`, which shows it."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from command_line import run_command
from launches import (
    ENVIRONMENT_SERVER,
    LIMIT,
    RUN,
    SCRIPTED_SERVER,
    LaunchRunner,
    call,
    python,
    request,
    wait_for_lease,
)

from mcp_launch.machine.launch_logs import LogReader
from mcp_launch.state import launch_log
from mcp_launch.state.launch_log import Log

if TYPE_CHECKING:
    from pathlib import Path

    from fake_hosts import FakeHosts

LOGS = [sys.executable, "-m", "mcp_launch", "logs"]

SAYS_MUCH = (
    "import os, sys\n"
    "for number in range(8_000):\n"
    "    os.write(2, b'%06d %s\\n' % (number, b'x' * 400))\n"
    "os.write(2, b'no end')\n"
    "sys.stdin.read()\n"
)


def show(*words: str) -> str:
    return run_command("logs", *words).stdout


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """Return where the logs are."""
    return tmp_path / "state" / "logs"


def read(logs: Path) -> str:
    [log] = logs.glob("*.log")
    return log.read_text(encoding="utf-8")


def test_a_log_holds_what_hosts_hide(runner: LaunchRunner, logs: Path) -> None:
    says = (
        "import sys; print('to stderr', file=sys.stderr, flush=True); print('noise', flush=True);"
    )
    runner.launch("--server", "it", "--", *python(says + "sys.stdin.read()")).finish()

    told = read(logs)
    assert re.search(r"^[\d.]+ e to stderr$", told, re.MULTILINE)
    assert re.search(r"^[\d.]+ n noise$", told, re.MULTILINE)
    assert re.search(r"^[\d.]+ t cwd .* \(inherited\)$", told, re.MULTILINE)
    assert re.search(r"^[\d.]+ t the host has closed our stdin$", told, re.MULTILINE)
    [log] = logs.iterdir()
    assert [stat.S_IMODE(one.stat().st_mode) for one in (log, logs)] == [0o600, 0o700]

    # Who finds what is left of the launch does not write a second end.
    launch_log.append_end(f"{logs.parent}/leases/{log.stem}.json", "it was killed")
    assert read(logs).count(" x ended: ") == 1
    assert "it was killed" not in read(logs)

    # Nobody reads what is shown: no error.
    for words in (["-v"], ["-v", "--json"]):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run(
            [*LOGS, *words], check=False, stdout=writing, stderr=subprocess.PIPE, timeout=60
        )
        os.close(writing)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--server", "it", "--", "there-is-no-such-command"], "was not found on PATH"),
        (["--cwd"], "--cwd needs a value"),
        (["--", *python("import sys; sys.exit('I need more')")], "I need more"),
    ],
    ids=["not found", "a slip", "the server ended"],
)
def test_a_launch_that_failed_has_a_log_that_says_why_and_removes_old_ones(
    words: list[str], said: str, runner: LaunchRunner, logs: Path
) -> None:
    make_old_log(logs)
    launch = runner.launch(*words)
    launch.send(request("initialize"))

    assert said in launch.answer()["error"]["message"]
    launch.finish()

    assert not (logs / "old.log").exists()
    assert re.search(rf" f the launch failed: .*{said}.* — fix: ", read(logs))


def make_old_log(logs: Path) -> None:
    logs.mkdir(parents=True)
    (logs / "old.log").write_text("x", encoding="utf-8")
    os.utime(logs / "old.log", (1e9, 1e9))


def test_a_launch_that_goes_on_removes_old_logs(runner: LaunchRunner, logs: Path) -> None:
    make_old_log(logs)
    launch = runner.launch("--", *ENVIRONMENT_SERVER)

    deadline = time.monotonic() + LIMIT
    while (logs / "old.log").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)

    launch.finish()


def test_no_log_is_kept_where_none_is_wanted(
    runner: LaunchRunner, logs: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiles = own_home / ".config" / "mcp-launch" / "config.toml"
    profiles.parent.mkdir(parents=True)
    profiles.write_text("[servers.it]\ncommand = 'none-such'\nno_log = true\n", encoding="utf-8")
    profiles.chmod(0o600)
    missing = ["there-is-no-such-command"]

    def run(*words: str) -> None:
        runner.launch(*words, stdin=subprocess.DEVNULL).finish()
        assert not logs.exists(), words

    run("--no-log", "--", *ENVIRONMENT_SERVER)
    run("--no-log", "--", *missing)
    run("--no-log", "--cwdd", "x")
    run("--server", "it")
    monkeypatch.setenv("MCP_LAUNCH_NO_LOG", "1")
    run("--", *missing)


def test_a_typing_error_at_a_terminal_leaves_no_log(runner: LaunchRunner, logs: Path) -> None:
    ours, theirs = os.openpty()
    for words in (["--cwd"], ["--no-such-option", "true"], []):
        assert runner.launch(*words, stdin=theirs).wait() != 0
        assert not logs.exists(), words
    assert runner.launch("no-such", stdin=theirs).wait() != 0
    os.close(ours)
    os.close(theirs)
    assert logs.exists()


@pytest.mark.parametrize("wire", [[], ["--direct"]], ids=["guarded", "direct"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_launch_whose_host_ends_it_while_its_server_starts_has_an_end(
    number: signal.Signals, wire: list[str], runner: LaunchRunner, tmp_path: Path, logs: Path
) -> None:
    slow = python("import time; time.sleep(600)")
    launch = runner.launch("--server", "it", *wire, "--", *slow)
    wait_for_lease(tmp_path / "state", lambda one: "server" in one["processes"])

    launch.process.send_signal(number)
    launch.wait()

    why = (
        "mcp-launch itself was killed"
        if number == signal.SIGKILL
        else f"{number.name} was received"
    )
    assert f"ended: {why}; the server " in wait_for_end(logs)


def test_a_launch_that_is_killed_by_a_host_that_ends_has_an_ordinary_end(
    fake_hosts: FakeHosts, logs: Path
) -> None:
    """Hosts kill what they have started right before they end."""
    ready = python("import os, sys; os.write(1, b'ready\\n'); os.execv(sys.argv[1], sys.argv[1:])")
    launch = [*RUN, "--server", "it", "--", *ENVIRONMENT_SERVER]
    fake_host = fake_hosts.start("codex", command=[*ready, *launch])
    wait_for_lease(logs.parent, lambda one: "server" in one["processes"])

    os.kill(fake_host.server, signal.SIGKILL)
    fake_host.kill_host()

    assert "ended: Codex has ended; the server " in wait_for_end(logs)


def wait_for_end(logs: Path) -> str:
    deadline = time.monotonic() + LIMIT
    while " x ended: " not in read(logs):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    [end] = [line for line in read(logs).splitlines() if " x ended: " in line]
    return end


def test_a_log_that_grows_too_large_keeps_its_end(runner: LaunchRunner, logs: Path) -> None:
    launch = runner.launch("--server", "it", "--", *python(SAYS_MUCH), stderr=subprocess.DEVNULL)

    launch.finish()

    sizes = {path.suffix: path.stat().st_size for path in logs.iterdir()}
    assert sizes.keys() == {".log", ".1"}
    assert max(sizes.values()) <= launch_log.LIMIT + (1 << 17)
    shown = show("-n", "10000")
    numbers = [int(number) for number in re.findall(r"stderr +(\d{6}) x", shown)]
    assert numbers == list(range(numbers[0], 8_000))
    assert "it" in shown.partition("\n")[0]
    assert shown.count("no end") == 1


def test_a_launch_goes_on_without_a_log(runner: LaunchRunner, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no directory", encoding="utf-8")
    launch = runner.launch("--", *python("import sys; sys.stderr.write('x'); sys.stdin.read()"))

    code, _, said = launch.finish()

    assert (code, said) == (0, b"x")


def test_output_without_lines_is_kept_in_pieces_and_empty_lines_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "1.log"
    log = Log(str(path), {})
    log.add_stderr(b"\n" * 65_536 + b"said\n")
    assert path.stat().st_size < 200

    for _ in range(100):
        log.add_stderr(b"x" * 1000)
    log.finish_line()

    kept = path.read_bytes().partition(b"said\n")[2].split(b"\n")
    assert max(map(len, kept)) < 10_000
    assert b"".join(line[-9000:].rpartition(b" ")[2] for line in kept) == b"x" * 100_000


def test_neither_a_full_nor_a_slow_disk_nor_a_link_harms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = Log("/dev/full", {"server": "it"})
    full.add_stderr(b"line\n")
    full.note("text")

    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    (tmp_path / "2.log").symlink_to(precious)
    Log(str(tmp_path / "2.log"), {}).note("text")
    assert precious.read_text(encoding="utf-8") == "precious"

    log = Log(str(tmp_path / "1.log"), {})
    moments = iter([0.0, 10.0])
    monkeypatch.setattr(launch_log, "_clock", lambda: next(moments))
    log.note("written slowly")
    log.note("not written any more")
    assert "not written" not in (tmp_path / "1.log").read_text(encoding="utf-8")


def test_the_next_server_begins_a_line_of_its_own(runner: LaunchRunner, logs: Path) -> None:
    code = (
        "import json, os, sys\n"
        "for line in sys.stdin:\n"
        "    message = json.loads(line)\n"
        "    os.write(2, b'half')\n"
        "    if message['method'] == 'die': os._exit(1)\n"
        "    print(json.dumps({'jsonrpc': '2.0', 'id': message.get('id', 0), 'result': {}}),"
        " flush=True)\n"
    )
    launch = runner.launch("--", *python(code))
    launch.ask("initialize")
    launch.send(request("die", 2))
    assert "error" in launch.answer()
    launch.ask("again")
    launch.finish()

    said = [line.partition(" e ")[2] for line in read(logs).splitlines() if " e " in line]
    assert said == ["halfhalfhalf", "halfhalfhalf"]


def test_old_logs_are_removed_and_those_of_living_launches_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, leases = tmp_path / "logs", tmp_path / "leases"
    leases.mkdir()
    logs.mkdir()
    now = time.time()
    ages = {"old.log": 1e9, "old.log.1": 1e9, "living.log": 1e9, "notes.txt": 1e9, "new.log": 0}
    for name, age in {**ages, "newer.log": -1, "large.log": 60}.items():
        (logs / name).write_text("x" * 10, encoding="utf-8")
        os.utime(logs / name, (now - age, now - age))
    (leases / "living.json").write_text("{}", encoding="utf-8")
    # What nobody of ours has put there stops nothing.
    (logs / "dangling.log").symlink_to(logs / "nowhere")
    (logs / "directory.log").mkdir()
    os.utime(logs / "directory.log", (1e9, 1e9))
    strange = {"living.log", "notes.txt", "dangling.log", "directory.log"}

    launch_log.prune(str(logs), str(leases))
    left = {path.name for path in logs.iterdir()}
    assert left == strange | {"large.log", "new.log", "newer.log"}

    # There is too much: the oldest go.
    (logs / "dangling.log").unlink()
    monkeypatch.setattr(launch_log, "KEPT_IN_ALL", 25)
    launch_log.prune(str(logs), str(leases))
    left = {path.name for path in logs.iterdir()}
    assert left - strange == {"new.log", "newer.log"}


def test_logs_can_be_narrowed_to_a_server_or_a_session(runner: LaunchRunner) -> None:
    for server in ("a", "b"):
        command = [*RUN, "--restart", "off", "--server", server, "--", *SCRIPTED_SERVER]
        environ = {**os.environ, "AGENT_SESSION_ID": f"session-of-{server}"}
        launch = runner.launch_below_host("goose", command=command, env=environ)
        launch.initialize()
        launch.send(call("die"))  # says something on stderr first
        assert "of old age" in str(launch.answer())
        launch.finish()

    assert show().count("of old age") == 2  # on stderr; the failure does not repeat it
    assert show("--failed").count("of old age") == 2  # where it is quoted
    assert show("a").count("of old age") == 1
    assert show("--session", "session-of-b") == show("b")
    launch_id = re.findall(r"launch (\w+)", show("-v", "b"))[0]
    assert show("--session", launch_id) == show("b")


def test_a_log_that_starts_over_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_log, "LIMIT", 400)
    path = str(tmp_path / "1.log")
    log = Log(path, {"server": "it"})
    reader = LogReader(path, {}, is_shown=lambda _: True)
    seen = []
    for number in range(200):
        log.note(f"line {number}")
        if number % 5 == 0:  # often enough to miss nothing, and at every point of a file's life
            reader.read()
            seen += [line.text for line in reader.take_lines() if line.kind == "decision"]
    reader.read()
    seen += [line.text for line in reader.take_lines()]

    assert seen == [f"line {number}" for number in range(200)]


def test_following_shows_new_lines_of_every_launch(runner: LaunchRunner) -> None:
    old = runner.launch("--server", "old", "--", *SCRIPTED_SERVER)
    old.initialize()
    following = runner.start([*LOGS, "-f", "-n", "1"])
    assert b"old" in following.read_line()

    old.call("look")
    new = runner.launch("--server", "new", "--restart", "off", "--", *SCRIPTED_SERVER)
    new.initialize()
    new.send(call("die"))

    while b"of old age" not in following.read_line():
        pass
    following.process.send_signal(2)
    assert following.wait() == 0
