"""`doctor --live`: real servers, started through the real launcher, with one thing wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from typing import TYPE_CHECKING, Any

import pytest
from doctor_runs import spell, spell_codex
from fake_hosts import SERVER, FakeHosts, limit_to_subtree
from launches import HERE, LIMIT, LivenessSocket

from mcp_launch.doctor.live import conversation
from mcp_launch.hosts.claude import config as claude_config
from mcp_launch.hosts.codex import config as codex_config
from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from doctor_runs import Doctor
    from launches import LaunchRunner

FAULTY_SERVER = [sys.executable, "-S", str(HERE / "scripts" / "faulty_server.py")]

LAUNCHER = os.path.join(os.path.dirname(sys.executable), "mcp-launch")

OWN = "~/.config/mcp-launch/config.toml"
FILES = {
    "codex": ("~/.codex/config.toml", "mcp_servers"),
    "claude": ("~/.claude.json", "mcpServers"),
    "cursor": ("~/.cursor/mcp.json", "mcpServers"),
    "vscode": ("~/.config/Code/User/mcp.json", "servers"),
    "windsurf": ("~/.codeium/windsurf/mcp_config.json", "mcpServers"),
    "opencode": ("~/.config/opencode/opencode.json", "mcp"),
    "goose": ("~/.config/goose/config.yaml", "extensions"),
    "zed": ("~/.config/zed/settings.json", "context_servers"),
}


@pytest.fixture(autouse=True)
def no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no server be too slow because the machine is busy, and wait for none without need."""
    monkeypatch.setattr(conversation, "SETTLING", 0.0)
    monkeypatch.setattr(codex_config, "GRACE", 25.0)
    monkeypatch.setattr(claude_config, "GRACE", 25.0)


@pytest.fixture(autouse=True)
def programs(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let servers find the usual programs; what runs is of no interest here."""
    assert doctor
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/bin:/bin")


@pytest.fixture
def liveness(tmp_path: Path) -> Iterator[LivenessSocket]:
    liveness = LivenessSocket(tmp_path)
    yield liveness
    liveness.close()


def make_entry(*words: str, run: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """Return an entry with such a server; `run`: it is wrapped, with these options."""
    command = [*FAULTY_SERVER, *words]
    if run is not None:
        command = [LAUNCHER, "run", *run, "--", *command]
    return {"command": command[0], "args": command[1:], **more}


def configure(doctor: Doctor, host: str, **entries: dict[str, Any]) -> None:
    """Write a host's file."""
    path, key = FILES[host]
    text = spell_codex(**entries) if host == "codex" else spell(key, **entries)
    doctor.machine.write(path, text)


def look(doctor: Doctor, *words: str) -> list[dict[str, Any]]:
    """Start all servers, and return what is found about those that were started."""
    return doctor.find("--live", "--select", "ML3,ML018", *words)


def look_at(doctor: Doctor, host: str, *words: str, **more: Any) -> list[dict[str, Any]]:
    """Start one server, `docs`, and return what was found."""
    configure(doctor, host, docs=make_entry(*words, **more))
    return look(doctor)


def list_codes(found: list[dict[str, Any]]) -> list[str]:
    return [one["code"] for one in found]


@pytest.mark.parametrize(
    ("host", "words"),
    [
        pytest.param("codex", [], id="knows both eras"),
        pytest.param("cursor", ["legacy"], id="knows the old era"),
        pytest.param("claude", ["curious"], id="asks for roots"),
        pytest.param("codex", ["toolless", "legacy"], id="has no tools"),
        pytest.param("claude", ["pages=3", "tools=7", "legacy"], id="has three pages of tools"),
        pytest.param("claude", ["imitating"], id="talks like the launcher"),
    ],
)
def test_nothing_is_found_about_a_healthy_server_and_nothing_is_left(
    host: str, words: list[str], doctor: Doctor, tmp_path: Path
) -> None:
    configure(doctor, host, docs=make_entry(*words))
    before = {path for path in tmp_path.rglob("*") if "cache" not in str(path)}

    assert look(doctor) == []

    count = 0 if "toolless" in words else 7 if "tools=7" in words else 2
    assert [re.sub(r"\d+\.\d", "0.1", line) for line in doctor.said] == [
        f"1 of 1  {HOSTS[host].title}: docs  ready in 0.1 s, {count} tools"
    ]
    assert {path for path in tmp_path.rglob("*") if "cache" not in str(path)} == before


# What each code is found in: a host with a server's words, how it is wrapped, and the message.
@pytest.mark.parametrize(
    ("code", "server", "run", "message"),
    [
        ("ML301", "codex dies", None, "'docs' does not start: it ended with exit code 1 bef"),
        ("ML301", "claude dying", None, "'docs' ended with exit code 1 on `tools/list`"),
        ("ML302", "codex refusing", None, "'docs' refuses `tools/list`: the database is lo"),
        ("ML302", "claude refusing", None, "'docs' refuses `tools/list`: the database is l"),
        ("ML304", "claude noisy", None, "'docs' prints 2 lines that are not messages to std"),
        ("", "claude noisy", [], ""),
        ("ML304", "claude noisy", ["--direct"], "stdout: Welcome to the server!"),
        ("ML307", "codex stubborn", None, "keeps running after its input ends, so it outli"),
        ("", "codex stubborn", [], ""),
        ("ML307", "codex littering", None, "'docs' leaves a process behind when it ends"),
        ("", "codex littering", [], ""),
        ("ML309", "codex modern", None, "'docs' knows only `server/discover`"),
        ("", "claude modern", None, ""),
        ("ML309", "claude legacy version=1.0", None, "'docs' uses protocol version 1.0"),
        ("", "codex legacy version=1.0", None, ""),
        ("ML309", "codex legacy unversioned", None, "has no serverInfo.version"),
        ("", "cursor legacy touchy", None, ""),
        ("", "claude legacy touchy", None, ""),
        ("", "claude legacy touchy", [], ""),
        ("ML309", "claude legacy touchy", ["--restart", "off"], "cannot handle `server/d"),
    ],
)
def test_a_server_with_one_fault_is_found_unless_its_host_or_the_launcher_mends_it(
    code: str, server: str, run: list[str] | None, message: str, doctor: Doctor
) -> None:
    found = look_at(doctor, *server.split(), run=run)

    assert list_codes(found) == ([code] if code else [])
    assert all(message in one["message"] and one["fix"] for one in found)
    assert all(one["subject"]["server"] == "docs" for one in found)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (make_entry(env={"ODD": "x" * 200_000}), "cannot be started: Argument list too long: "),
        (make_entry(env={"ODD": "x\0y"}), "a variable holds a NUL"),
        ({"command": "sh", "args": ["-c", "exit 3"]}, "it ended with exit code 3 before it"),
    ],
    ids=["too long", "a NUL", "it ends"],
)
def test_a_server_that_cannot_be_started_hides_no_other(
    entry: dict[str, Any], message: str, doctor: Doctor
) -> None:
    configure(doctor, "claude", docs=entry, others=make_entry("noisy"))

    found = look(doctor)

    assert list_codes(found) == ["ML301", "ML304"]
    assert message in found[0]["message"]
    assert "Errno" not in found[0]["message"]


def test_what_another_error_explains_is_not_repeated(doctor: Doctor) -> None:
    configure(doctor, "claude", docs={"command": "no-such-server"}, others=make_entry())

    found = doctor.find("--live", "--ignore", "ML117")

    assert list_codes(found) == ["ML201"]
    assert [line for line in doctor.said if line.endswith("Claude Code: docs  does not start")]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["silent"], "ML302", "did not answer `initialize` within 0.5 s"),
        (["legacy", "stuck"], "ML309", "cannot handle `server/discover`, Claude Code's"),
    ],
    ids=["to everything", "to what it does not know"],
)
def test_a_server_that_says_nothing_is_found_in_bounded_time(
    words: list[str], code: str, message: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_silent = "silent" in words
    monkeypatch.setattr(conversation, "ANSWER_LIMIT", 0.5 if is_silent else 3.0)
    monkeypatch.setattr(conversation, "DISCOVER_GRACE", 0.1)
    # Only one that never answers is not waited for: the other has to start once more.
    monkeypatch.setattr(conversation, "SECOND_LIMIT", 0.2 if is_silent else 5.0)

    [finding] = look_at(doctor, "claude", *words)

    assert finding["code"] == code
    assert message in finding["message"]


def test_a_server_that_was_silent_only_at_its_first_start_is_healthy(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(conversation, "ANSWER_LIMIT", 3.0)

    assert look_at(doctor, "codex", f"shy={tmp_path / 'mark'}") == []

    last = r"again  Codex: docs  ready in .* tools \(its second start; the first: .*\)"
    assert re.fullmatch(last, doctor.said[-1])


@pytest.mark.parametrize(
    ("host", "entry", "message"),
    [
        ("codex", {}, "Codex waits 0 s, then continues without them"),
        ("codex", {"required": True}, ""),
        ("codex", {"required": True, "startup_timeout_sec": 0.001}, "gives up after 0.001 s"),
        ("CLAUDE_CODE_MCP_STARTUP_WAIT_MS", {}, "`claude -p` waits 0.001 s"),
        ("MCP_TIMEOUT", {}, "Claude Code gives up after 0.001 s"),
    ],
    ids=["Codex", "Codex waits", "Codex gives up", "claude -p", "Claude Code gives up"],
)
def test_a_server_that_is_too_slow_for_its_host_is_found(
    host: str, entry: dict[str, Any], message: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name in capital letters is the setting of Claude Code that is too small."""
    monkeypatch.setattr(codex_config, "GRACE", 0.0)
    if host.isupper():
        monkeypatch.setenv(host, "1")

    found = look_at(doctor, "claude" if host.isupper() else host, "legacy", **entry)

    assert list_codes(found) == (["ML303"] if message else [])
    assert all(message in one["message"] for one in found)


def test_a_server_that_keeps_claude_code_waiting_for_an_answer_is_found(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "DISCOVER_GRACE", 0.2)
    monkeypatch.setattr(claude_config, "GRACE", 0.2)

    [finding] = look_at(doctor, "claude", "mute", "legacy")

    assert finding["code"] == "ML303"
    assert "because it does not answer `server/discover`" in finding["message"]


def test_a_server_that_asks_something_before_the_end_does_not_seem_to_go_on(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "SETTLING", 3.0)

    assert look_at(doctor, "claude", "anxious") == []


def test_policies_are_compared_with_the_tools_that_a_server_has_now(doctor: Doctor) -> None:
    words = ["pages=2", "legacy", "name=read"]
    configure(doctor, "codex", docs=make_entry(*words, run=["--server", "docs"]))
    text = '[servers.docs]\ntools = { allow = ["read*"], deny = ["read-1", "raed"] }\n'
    doctor.machine.write(OWN, text).chmod(0o600)

    [finding] = look(doctor)

    beginning = "`raed` in `deny` matches no tool of docs (2 remembered)"
    assert finding["message"].startswith(beginning)


# What is started, where and with what.


def test_a_server_that_two_hosts_start_alike_is_started_once_and_reported_for_both(
    doctor: Doctor,
) -> None:
    configure(doctor, "cursor", docs=make_entry("noisy"))
    configure(doctor, "windsurf", docs=make_entry("noisy"))

    found = look(doctor)

    assert len(doctor.said) == 1
    assert [(one["code"], one["subject"]["host"]) for one in found] == [
        ("ML304", "cursor"),
        ("ML304", "windsurf"),
    ]


def test_a_launch_that_needs_its_host_is_started_without_one(doctor: Doctor) -> None:
    options = ["--strict", "--when-unknown", "fail", "--env", "THREAD=thread"]

    assert look_at(doctor, "codex", "needs=THREAD", run=options) == []


@pytest.mark.parametrize("setting", ["option", "profile", "variable"])
def test_a_server_that_is_remembered_is_started_all_the_same(
    setting: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every server is too slow here, so it is started a second time in the same session."""
    monkeypatch.setattr(codex_config, "GRACE", 0.0)
    started = tmp_path / "started"
    count_starts = ["sh", "-c", f'echo once >> {started}; exec "$@"', "sh", *FAULTY_SERVER]
    run = ["run", "--server", "docs", *(["--start", "called"] if setting == "option" else [])]
    entry: dict[str, Any] = {"command": LAUNCHER, "args": [*run, "--", *count_starts]}
    if setting == "variable":
        entry["env"] = {"MCP_LAUNCH_START": "called", "MCP_LAUNCH_REST": "1s"}
    if setting == "profile":
        doctor.machine.write(OWN, '[defaults]\nstart = "called"\nrest = "1s"\n').chmod(0o600)
    configure(doctor, "codex", docs=entry)

    assert list_codes(look(doctor)) == ["ML303"]

    assert started.read_text(encoding="utf-8") == "once\n" * 2


def test_a_server_is_started_where_its_host_would_start_it(doctor: Doctor) -> None:
    (doctor.machine.project / "below").mkdir()
    place = str(doctor.machine.project / "below")

    assert look_at(doctor, "codex", f"in={place}", cwd=place) == []
    assert look_at(doctor, "codex", f"in={doctor.machine.project}") == []


@pytest.mark.parametrize("name", ["GIVEN", "CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID"])
@pytest.mark.parametrize("run", [None, []], ids=["bare", "wrapped"])
def test_a_server_gets_what_its_host_would_give_it(
    name: str, run: list[str] | None, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIVEN", "yes")
    assert look_at(doctor, "claude", f"needs={name}", run=run) == []

    configure(doctor, "claude")
    assert list_codes(look_at(doctor, "codex", f"needs={name}", run=run)) == ["ML301"]


@pytest.mark.parametrize(
    ("host", "offered", "era"),
    [
        ("codex", 1, "legacy"),
        ("claude", 2, "both"),
        ("claude", 2, "legacy"),
        ("vscode", 5, "legacy"),
    ],
)
def test_a_server_is_offered_what_its_host_offers(
    host: str, offered: int, era: str, doctor: Doctor
) -> None:
    configure(doctor, host, docs=make_entry("adapting", era))

    assert look(doctor) == []
    assert doctor.said[-1].endswith(f", {2 + offered} tools")


GOOSE = {"type": "stdio", "cmd": FAULTY_SERVER[0], "args": FAULTY_SERVER[1:]}


@pytest.mark.parametrize(
    ("host", "entry", "why"),
    [
        ("vscode", make_entry(env={"KEY": "${input:key}"}), "VS Code would ask for ${input:key}"),
        (
            "vscode",
            make_entry(env={"A": "${config:a.b}"}),
            "only VS Code can fill in ${config:a.b}",
        ),
        ("vscode", make_entry(env={"A": "${command:x}"}), "only VS Code can fill in ${command:x}"),
        ("opencode", {"command": ["cat", "{file:~/x}"]}, "only opencode can fill in {file:~/x}"),
        (
            "goose",
            {**GOOSE, "env_keys": ["MY_TOKEN"]},
            "Goose would take MY_TOKEN from the system's keyring",
        ),
    ],
)
def test_a_server_that_needs_what_only_its_host_has_is_not_started(
    host: str, entry: dict[str, Any], why: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(doctor, host, docs=entry)

    assert look(doctor) == []
    assert doctor.said == [f"not started  {HOSTS[host].title}: docs  {why}"]

    monkeypatch.setenv("MY_TOKEN", "x")
    look(doctor)
    assert doctor.said[-1].startswith("1 of 1  Goose" if host == "goose" else "not started")


def test_what_a_project_brings_is_not_started_before_its_host_may(
    doctor: Doctor, tmp_path: Path
) -> None:
    """A clone of a stranger's repository must not run anything because the doctor looks."""
    entry = {"command": "touch", "args": [str(tmp_path / "started")]}
    doctor.machine.write(".mcp.json", spell(docs=entry))
    doctor.machine.write(".vscode/mcp.json", spell("servers", docs=entry))
    doctor.machine.write(".codex/config.toml", spell_codex(docs=entry))

    assert look(doctor) == []

    titles = ("Codex", "Claude Code", "VS Code")
    names = [line.split("  ")[:2] for line in doctor.said]
    assert names == [["not started", f"{title}: docs"] for title in titles]
    assert not (tmp_path / "started").exists()

    doctor.machine.write("~/.claude/settings.json", '{"enabledMcpjsonServers": ["docs"]}')
    look(doctor)
    assert (tmp_path / "started").exists()


# Profiles.


def test_a_server_with_an_invalid_profile_is_not_started_and_hides_no_other(
    doctor: Doctor,
) -> None:
    doctor.machine.write(OWN, "[servers.docs]\ncwdd = 3\n").chmod(0o600)
    configure(
        doctor,
        "claude",
        noisy=make_entry("noisy"),
        wrapped=make_entry("dies", run=["--server", "docs"]),
    )

    found = [(one["code"], one["subject"]["server"]) for one in look(doctor)]

    assert found == [("ML304", "noisy")]
    assert doctor.said[0] == (
        "not started  Claude Code: wrapped  its profile cannot be used (ML013)"
    )


def test_defaults_are_not_applied_to_a_server_without_a_launcher(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor.machine.write(OWN, '[defaults]\npass_env = ["PATH"]\n').chmod(0o600)
    monkeypatch.setenv("GIVEN", "yes")
    configure(
        doctor,
        "claude",
        bare=make_entry("needs=GIVEN"),
        wrapped=make_entry("needs=GIVEN", run=["--server", "wrapped"]),
    )

    assert [one["subject"]["server"] for one in look(doctor)] == ["wrapped"]


# Secrets.

HIDDEN = "tango-Foxtrot-17"


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["--header", f"Authorization: Bearer {HIDDEN}"], {}),
        ([f"--header=X-API-Key: {HIDDEN}"], {}),
        ([f"https://x/?profile=p&api_key={HIDDEN}"], {}),
        ([f"server --key {HIDDEN}"], {}),
        ([f"postgres://me:{HIDDEN}@h/db"], {}),
        ([], {"env": {"DATABASE_URL": f"postgres://me:{HIDDEN}@h/db"}}),
        ([], {"run": ["--dotenv", "secrets.env"]}),
        ([], {"run": ["--server", "docs"]}),
    ],
    ids=[
        *("header", "option", "address", "script", "password", "variable", "dotenv", "profile"),
    ],
)
def test_no_secret_of_a_server_is_among_its_last_words(
    words: list[str], more: dict[str, Any], doctor: Doctor
) -> None:
    doctor.machine.write("secrets.env", f"DB_PASSWORD={HIDDEN}\n")
    profile = f'[servers.docs]\nenv = {{ PASSWORD = "{HIDDEN}" }}\n'
    doctor.machine.write(OWN, profile).chmod(0o600)

    [finding] = look_at(doctor, "claude", f"says={'x' * 290} {HIDDEN}", "dies", *words, **more)

    assert finding["code"] == "ML301"
    assert "xxx ***" in str(finding["details"])
    assert "run the command by itself" in finding["fix"]
    assert "tango" not in str(finding)


# Its end, and what runs then.


def test_the_cause_is_not_pushed_out_by_news_of_npm(doctor: Doctor) -> None:
    [finding] = look_at(doctor, "codex", "dies", "npm")

    assert finding["details"] == ["npm error could not determine executable to run"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(
    number: signal.Signals,
    doctor: Doctor,
    liveness: LivenessSocket,
    runner: LaunchRunner,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = doctor.machine.home / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    slow = make_entry("silent", "stubborn", f"liveness={liveness.path}")
    configure(doctor, "claude", docs=make_entry(), slow=slow)

    running = runner.start([sys.executable, "-m", "mcp_launch", "doctor", "--live"])
    liveness.wait_for("server")
    os.kill(running.pid, number)

    assert running.process.wait(LIMIT) == 128 + number
    assert liveness.read_until_end("server") == b""
    assert list(place.iterdir()) == []


def test_what_runs_is_shown_as_it_is_after_the_servers_were_started(
    doctor: Doctor, fake_hosts: FakeHosts, tmp_path: Path
) -> None:
    """Starting them may take a minute, in which servers end and others begin."""
    doctor.machine.table = limit_to_subtree()
    ended = fake_hosts.start("claude", command=SERVER)
    script = f"kill -9 {ended.server}; exec {' '.join(FAULTY_SERVER)}"
    entries = json.loads((doctor.machine.home / ".kiro/settings/mcp.json").read_text("utf-8"))
    assert entries  # the server of the host that runs is known
    (doctor.machine.home / ".kiro/settings/mcp.json").unlink()
    configure(doctor, "codex", docs={"command": "sh", "args": ["-c", script]})
    assert tmp_path

    done = doctor.run("--live", "-v")

    assert "1 of 1  Codex: docs  ready in" in done.stderr
    assert f"(process {ended.server})" not in done.stdout
