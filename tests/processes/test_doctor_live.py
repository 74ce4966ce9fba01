"""`doctor --live`: real servers, started through the real launcher, with one thing wrong."""

from __future__ import annotations

import json
import re
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, Any

import pytest
from fake_hosts import SERVER, FakeHosts, limit_to_subtree
from fake_machine import list_codes
from launches import HERE, LivenessSocket, wait_until_gone
from mcp_launch.doctor.checks import processes
from mcp_launch.doctor.progress import Progress

from mcp_launch.doctor import live, registry
from mcp_launch.doctor.live import client, prepare
from mcp_launch.hosts.claude import config as claude_config
from mcp_launch.hosts.codex import config as codex_config
from mcp_launch.hosts.configured import HOSTS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from fake_hosts import FakeHost
    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

FAULTY_SERVER = [sys.executable, "-S", str(HERE / "scripts" / "faulty_server.py")]

FILES = {
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
    monkeypatch.setattr(client, "SETTLING", 0.0)
    monkeypatch.setattr(codex_config, "GRACE", 25.0)
    monkeypatch.setattr(claude_config, "GRACE", 25.0)


@pytest.fixture
def liveness(tmp_path: Path) -> Iterator[LivenessSocket]:
    liveness = LivenessSocket(tmp_path)
    yield liveness
    liveness.close()


def make_entry(*words: str, run: list[str] | None = None, **more: Any) -> dict[str, Any]:
    """Return an entry with such a server; `run`: it is wrapped, with these options."""
    command = [*FAULTY_SERVER, *words]
    if run is not None:
        command = ["/opt/mcp-launch", "run", *run, "--", *command]
    return {"command": command[0], "args": command[1:], **more}


def configure(machine: FakeMachine, host: str, **entries: dict[str, Any]) -> None:
    """Write a host's file."""
    if host == "codex":
        lines = [
            line
            for name, entry in entries.items()
            for line in (f"[mcp_servers.{name}]", *[f"{k} = {spell(v)}" for k, v in entry.items()])
        ]
        machine.write("~/.codex/config.toml", "\n".join(lines) + "\n")
    else:
        path, key = FILES[host]
        machine.write(path, json.dumps({key: entries}))


def spell(value: Any) -> str:
    """Return a value in TOML."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{name} = {spell(one)}' for name, one in value.items())} }}"
    return json.dumps(value)


def look(machine: FakeMachine, told: list[str] | None = None) -> list[Finding]:
    """Start all servers and return what was found."""
    return list(live.check(machine.survey(), Progress((told if told is not None else []).append)))


def look_at(machine: FakeMachine, host: str, *words: str, **more: Any) -> list[Finding]:
    """Start one server, `docs`, and return what was found."""
    configure(machine, host, docs=make_entry(*words, **more))
    return look(machine)


@pytest.mark.parametrize(
    ("value", "why"),
    [("x" * 200_000, "Argument list too long: "), ("x\0y", "a variable holds a NUL")],
    ids=["too long", "a NUL"],
)
def test_what_no_process_can_be_given_is_said_in_plain_words(
    machine: FakeMachine, value: str, why: str
) -> None:
    (finding,) = look_at(machine, "claude", env={"ODD": value})

    assert finding.code == "ML301"
    assert f"cannot be started: {why}" in finding.message.replace("its command or ", "")
    assert "Errno" not in finding.message


@pytest.mark.parametrize("host", ["codex", "claude", "cursor"])
@pytest.mark.parametrize(
    "words",
    [
        pytest.param([], id="knows both eras"),
        pytest.param(["legacy"], id="knows the old era"),
        pytest.param(["curious"], id="asks for roots"),
        pytest.param(["toolless", "legacy"], id="has no tools"),
        pytest.param(["pages=3", "tools=7", "legacy"], id="has its tools on three pages"),
    ],
)
def test_nothing_is_found_about_a_healthy_server(
    machine: FakeMachine, host: str, words: list[str]
) -> None:
    told: list[str] = []
    configure(machine, host, docs=make_entry(*words))

    assert look(machine, told) == []

    count = 0 if "toolless" in words else 7 if "tools=7" in words else 2
    assert [re.sub(r"\d+\.\d", "0.1", line) for line in told] == [
        f"1 of 1  {HOSTS[host].title}: docs  ready in 0.1 s, {count} tools"
    ]


@pytest.mark.parametrize("host", ["codex", "claude"])
def test_policies_are_compared_with_the_tools_that_a_server_has_now(
    machine: FakeMachine, host: str
) -> None:
    words = ["pages=2", "legacy", "name=read"]
    configure(machine, host, docs=make_entry(*words, run=["--server", "docs"]))
    file = machine.write(
        "~/.config/mcp-launch/config.toml",
        '[servers.docs]\ntools = { allow = ["read*"], deny = ["read-1", "raed"] }\n',
    )
    file.chmod(0o600)

    [finding] = look(machine)

    assert (finding.code, finding.subject.file) == ("ML018", str(file))
    assert finding.message.startswith("`raed` in `deny` matches no tool of docs (2 remembered)")


def test_nothing_is_left_of_a_look(machine: FakeMachine, tmp_path: Path) -> None:
    configure(machine, "claude", docs=make_entry())
    before = {path for path in tmp_path.rglob("*") if "cache" not in str(path)}

    look(machine)

    assert {path for path in tmp_path.rglob("*") if "cache" not in str(path)} == before


def test_a_server_that_exits_at_once_is_reported_with_its_output_but_not_its_secrets(
    machine: FakeMachine,
) -> None:
    [finding] = look_at(machine, "codex", "dies", env={"API_TOKEN": "tango-foxtrot-17"})

    assert finding.code == "ML301"
    assert finding.subject.server == "docs"
    assert finding.subject.line == 1
    assert finding.message.startswith(
        "'docs' does not start: it ended with exit code 1 before it answered; its last lines"
    )
    assert "cannot log in with ***" in finding.details
    assert "tango" not in str(finding)
    assert "0123456789" not in str(finding.details)
    assert "run the command by itself" in finding.fix


def test_what_the_launcher_has_to_say_is_passed_on(machine: FakeMachine) -> None:
    told: list[str] = []
    entry = {"command": "no-such-server", "args": []}
    configure(machine, "claude", docs=entry, others=make_entry())

    [finding] = look(machine, told)

    assert finding.code == "ML301"
    assert finding.message.startswith(
        "'docs' does not start: the server's command no-such-server was not found on PATH"
    )
    assert finding.fix == "install it, or give its absolute path"
    assert [line for line in told if line.endswith("Claude Code: docs  does not start")]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["dying"], "ML301", "'docs' ended with exit code 1 on `tools/list`"),
        (["dying"], "ML301", "out of memory"),
        (["refusing"], "ML302", "'docs' refuses `tools/list`: the database is locked"),
    ],
)
@pytest.mark.parametrize("host", ["codex", "claude"])
def test_a_server_that_does_not_list_its_tools_is_found(
    machine: FakeMachine, host: str, words: list[str], code: str, message: str
) -> None:
    [finding] = look_at(machine, host, *words)

    assert finding.code == code
    assert message in " ".join((finding.message, *finding.details))


def test_a_server_that_says_nothing_is_found_in_bounded_time(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_LIMIT", 0.5)
    monkeypatch.setattr(client, "DISCOVER_GRACE", 0.1)

    monkeypatch.setattr(client, "SECOND_LIMIT", 0.2)

    [finding] = look_at(machine, "claude", "silent")

    assert finding.code == "ML302"
    assert finding.message == "'docs' did not answer `initialize` within 0.5 s"


def test_a_server_that_said_nothing_is_not_waited_for_as_long_again(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits_given: list[float] = []
    monkeypatch.setattr(client, "ANSWER_LIMIT", 0.5)
    monkeypatch.setattr(client, "SECOND_LIMIT", 0.2)
    talk = client.converse

    def note(*start: Any, limit: float, **more: Any) -> client.Talk:
        limits_given.append(limit)
        return talk(*start, limit=limit, **more)

    monkeypatch.setattr(client, "converse", note)

    look_at(machine, "codex", "silent")

    assert limits_given == [0.5, 0.2]


def test_a_server_that_was_silent_only_at_its_first_start_is_healthy(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[str] = []
    monkeypatch.setattr(client, "ANSWER_LIMIT", 3.0)
    configure(machine, "codex", docs=make_entry(f"shy={tmp_path / 'mark'}"))

    assert look(machine, told) == []

    assert re.fullmatch(
        r"again  Codex: docs  ready in .* tools \(its second start; the first: .*\)", told[-1]
    )


@pytest.mark.parametrize(
    ("entry", "environ", "message"),
    [
        ({}, {}, "Codex waits 0 s, then continues without them"),
        ({"required": True}, {}, ""),
        ({"required": True, "startup_timeout_sec": 0.001}, {}, "Codex gives up after 0.001 s"),
    ],
    ids=["left out", "waited for", "given up"],
)
def test_a_server_that_is_too_slow_for_codex_is_found(
    machine: FakeMachine,
    monkeypatch: pytest.MonkeyPatch,
    entry: dict[str, Any],
    environ: dict[str, str],
    message: str,
) -> None:
    monkeypatch.setattr(codex_config, "GRACE", 0.0)
    machine.environ |= environ

    findings = look_at(machine, "codex", "legacy", **entry)

    assert list_codes(findings) == (["ML303"] if message else [])
    assert all(message in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"CLAUDE_CODE_MCP_STARTUP_WAIT_MS": "1"}, "`claude -p` waits 0.001 s"),
        ({"MCP_TIMEOUT": "1"}, "Claude Code gives up after 0.001 s"),
    ],
    ids=["left out", "given up"],
)
def test_a_server_that_is_too_slow_for_claude_code_is_found(
    machine: FakeMachine, environ: dict[str, str], message: str
) -> None:
    machine.environ |= environ

    [finding] = look_at(machine, "claude")

    assert finding.code == "ML303"
    assert message in finding.message


def test_a_server_that_keeps_claude_code_waiting_for_an_answer_is_found(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "DISCOVER_GRACE", 0.2)
    monkeypatch.setattr(claude_config, "GRACE", 0.2)

    [finding] = look_at(machine, "claude", "mute", "legacy")

    assert finding.code == "ML303"
    assert "because it does not answer `server/discover`" in finding.message


@pytest.mark.parametrize(
    ("run", "codes"),
    [(None, ["ML304"]), ([], []), (["--direct"], ["ML304"])],
    ids=["bare", "wrapped", "wrapped on the direct wire"],
)
def test_noise_on_stdout_is_found_unless_the_launcher_moves_it(
    machine: FakeMachine, run: list[str] | None, codes: list[str]
) -> None:
    findings = look_at(machine, "claude", "noisy", run=run)

    assert list_codes(findings) == codes
    for finding in findings:
        assert finding.message == (
            "'docs' prints 2 lines that are not messages to stdout: Welcome to the server!"
        )


@pytest.mark.parametrize(
    ("host", "sizes", "codes"),
    [
        ("cursor", [81], ["ML305"]),
        ("cursor", [80], []),
        ("cursor", [41, 40], ["ML305"]),
        ("windsurf", [101], ["ML305"]),
        ("windsurf", [100], []),
        ("vscode", [129], ["ML305"]),
        ("vscode", [128], []),
        ("codex", [300], []),
        ("claude", [300], []),
    ],
)
def test_more_tools_than_a_host_takes_are_found(
    machine: FakeMachine, host: str, sizes: list[int], codes: list[str]
) -> None:
    entries = {f"server{size}": make_entry(f"tools={size}") for size in sizes}
    configure(machine, host, **entries)

    findings = look(machine)

    assert list_codes(findings) == codes
    for finding in findings:
        assert f"{sum(sizes)} tools in total (server{sizes[0]} {sizes[0]}" in finding.message


@pytest.mark.parametrize(
    ("host", "length", "codes"),
    [
        ("cursor", 56, ["ML306"]),  # "docs" has four
        ("cursor", 55, []),
        ("claude", 118, ["ML306"]),  # "mcp__docs__" has eleven
        ("claude", 117, []),
        ("codex", 300, []),
    ],
)
def test_names_that_are_too_long_for_a_host_are_found(
    machine: FakeMachine, host: str, length: int, codes: list[str]
) -> None:
    findings = look_at(machine, host, f"name={'n' * length}", "tools=1")

    assert list_codes(findings) == codes
    assert all("leaves out 1 tool of 'docs'" in finding.message for finding in findings)


@pytest.mark.parametrize(
    ("word", "code", "message"),
    [
        ("stubborn", "ML307", "'docs' keeps running after its input ends, so it outlives Codex"),
        ("littering", "ML308", "'docs' leaves a process behind when it ends"),
    ],
)
@pytest.mark.parametrize("run", [None, []], ids=["bare", "wrapped"])
def test_what_outlives_its_host_is_found_unless_the_launcher_ends_it(
    machine: FakeMachine, run: list[str] | None, word: str, code: str, message: str
) -> None:
    findings = look_at(machine, "codex", word, run=run)

    assert list_codes(findings) == ([code] if run is None else [])
    for finding in findings:
        assert finding.message == message
        assert finding.fix.endswith("mcp-launch wrap --host codex docs")


def test_no_finding_depends_on_how_the_launcher_words_what_it_says(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("dies", "dying", "littering", "noisy", "refusing", "stubborn")
    absent = {"command": "no-such-server", "args": []}
    configure(machine, "codex", absent=absent, **{word: make_entry(word) for word in words})
    found = look(machine)
    monkeypatch.setattr(
        prepare, "LAUNCHER", (sys.executable, "-P", str(HERE / "scripts" / "reworded_launcher.py"))
    )

    reworded = look(machine)

    assert [(one.subject.server, one.code) for one in found] == [
        ("absent", "ML301"),
        ("dies", "ML301"),
        ("dying", "ML301"),
        ("littering", "ML308"),
        ("noisy", "ML304"),
        ("refusing", "ML302"),
        ("stubborn", "ML307"),
    ]
    assert reworded == found


def test_a_server_that_talks_like_the_launcher_is_healthy(machine: FakeMachine) -> None:
    assert look_at(machine, "codex", "imitating") == []


@pytest.mark.parametrize(
    ("host", "words", "message"),
    [
        ("codex", ["modern"], "'docs' knows only `server/discover`"),
        ("claude", ["modern"], ""),
        ("claude", ["legacy", "version=1.0"], "'docs' uses protocol version 1.0"),
        ("codex", ["legacy", "version=1.0"], ""),
        ("claude", ["legacy", "unversioned"], "has no serverInfo.version"),
        ("codex", ["legacy", "unversioned"], "has no serverInfo.version"),
        ("cursor", ["legacy", "touchy"], ""),
    ],
)
def test_a_server_that_its_host_does_not_understand_is_found(
    machine: FakeMachine, host: str, words: list[str], message: str
) -> None:
    findings = look_at(machine, host, *words)

    assert list_codes(findings) == (["ML309"] if message else [])
    assert all(message in finding.message for finding in findings)


@pytest.mark.parametrize("run", [None, []], ids=["bare", "wrapped"])
def test_a_server_that_ends_over_what_it_does_not_know_is_started_again(
    machine: FakeMachine, run: list[str] | None
) -> None:
    assert look_at(machine, "claude", "legacy", "touchy", run=run) == []


def test_a_server_that_ends_over_what_it_does_not_know_and_stays_so_is_found(
    machine: FakeMachine,
) -> None:
    [finding] = look_at(machine, "claude", "legacy", "touchy", run=["--restart", "off"])

    assert finding.code == "ML309"
    assert "'docs' cannot handle `server/discover`" in finding.message


def test_a_server_that_falls_silent_over_what_it_does_not_know_is_found(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "ANSWER_LIMIT", 3.0)
    monkeypatch.setattr(client, "DISCOVER_GRACE", 0.1)

    [finding] = look_at(machine, "claude", "legacy", "stuck")

    assert finding.code == "ML309"
    assert "cannot handle `server/discover`, Claude Code's first request" in finding.message


def test_an_entry_that_no_process_can_be_made_of_hides_no_other(machine: FakeMachine) -> None:
    configure(machine, "claude", docs=make_entry("a\0b"), others=make_entry("noisy"))

    assert list_codes(look(machine)) == ["ML301", "ML304"]


def test_a_server_that_asks_something_before_the_end_does_not_seem_to_go_on(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "SETTLING", 3.0)

    assert look_at(machine, "claude", "anxious") == []


def test_a_server_that_two_hosts_start_alike_is_started_once_and_reported_for_both(
    machine: FakeMachine,
) -> None:
    told: list[str] = []
    configure(machine, "cursor", docs=make_entry("noisy"))
    configure(machine, "windsurf", docs=make_entry("noisy"))

    findings = look(machine, told)

    assert len(told) == 1
    assert [(one.code, one.subject.host) for one in findings] == [
        ("ML304", "cursor"),
        ("ML304", "windsurf"),
    ]


def test_a_launch_that_needs_its_host_is_started_without_one(machine: FakeMachine) -> None:
    options = ["--strict", "--when-unknown", "fail", "--env", "THREAD=thread"]

    assert look_at(machine, "codex", "needs=THREAD", run=options) == []


@pytest.mark.parametrize("setting", ["option", "profile", "variable"])
def test_a_server_that_is_remembered_is_started_all_the_same(
    setting: str, machine: FakeMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every server is too slow here, so it is started a second time in the same session."""
    monkeypatch.setattr(codex_config, "GRACE", 0.0)
    started = tmp_path / "started"
    count_starts = ["sh", "-c", f'echo once >> {started}; exec "$@"', "sh", *FAULTY_SERVER]
    run = ["run", "--server", "docs", *(["--start", "called"] if setting == "option" else [])]
    entry: dict[str, Any] = {"command": "/opt/mcp-launch", "args": [*run, "--", *count_starts]}
    if setting == "variable":
        entry["env"] = {"MCP_LAUNCH_START": "called", "MCP_LAUNCH_REST": "1s"}
    if setting == "profile":
        text = '[defaults]\nstart = "called"\nrest = "1s"\n'
        machine.write("~/.config/mcp-launch/config.toml", text).chmod(0o600)
    configure(machine, "codex", docs=entry)

    assert list_codes(look(machine)) == ["ML303"]

    assert started.read_text(encoding="utf-8") == "once\n" * 2


def test_a_server_is_started_where_its_host_would_start_it(machine: FakeMachine) -> None:
    (machine.project / "below").mkdir()
    place = str(machine.project / "below")

    assert look_at(machine, "codex", f"in={place}", cwd=place) == []
    assert look_at(machine, "codex", f"in={machine.project}") == []


def test_a_server_gets_what_its_host_would_give_it(machine: FakeMachine) -> None:
    machine.environ["GIVEN"] = "yes"

    assert look_at(machine, "claude", "needs=GIVEN") == []
    configure(machine, "claude")
    assert list_codes(look_at(machine, "codex", "needs=GIVEN")) == ["ML301"]


def test_a_command_in_a_profile_is_found(machine: FakeMachine) -> None:
    path = machine.write(
        "~/.config/mcp-launch/config.toml",
        f"""
[servers.docs]
command = {spell(FAULTY_SERVER[0])}
args = {spell(FAULTY_SERVER[1:])}
""",
    )
    path.chmod(0o600)
    entry = {"command": "/opt/mcp-launch", "args": ["run", "--server", "docs"]}
    configure(machine, "claude", docs=entry)

    assert look(machine) == []


@pytest.mark.parametrize(
    ("host", "entry", "why"),
    [
        ("vscode", {"env": {"KEY": "${input:key}"}}, "VS Code would ask for ${input:key}"),
        ("vscode", {"env": {"A": "${config:a.b}"}}, "only VS Code can fill in ${config:a.b}"),
        ("vscode", {"env": {"A": "${command:x}"}}, "only VS Code can fill in ${command:x}"),
        (
            "opencode",
            {"command": ["cat", "{file:~/x}"]},
            "only opencode can fill in {file:~/x}",
        ),
        (
            "goose",
            {"type": "stdio", "cmd": "cat", "env_keys": ["MY_TOKEN"]},
            "Goose would take MY_TOKEN from the system's keyring",
        ),
    ],
)
def test_a_server_that_needs_what_only_its_host_has_is_not_started(
    machine: FakeMachine, host: str, entry: dict[str, Any], why: str
) -> None:
    told: list[str] = []
    configure(
        machine,
        host,
        docs=entry if "command" in entry or "cmd" in entry else make_entry("dies", **entry),
    )

    assert look(machine, told) == []

    assert told == [f"not started  {HOSTS[host].title}: docs  {why}"]


def test_what_goose_would_take_from_the_keyring_may_be_in_the_environment(
    machine: FakeMachine,
) -> None:
    machine.environ["MY_TOKEN"] = "x"
    entry = {
        "type": "stdio",
        "cmd": FAULTY_SERVER[0],
        "args": FAULTY_SERVER[1:],
        "env_keys": ["MY_TOKEN"],
    }
    configure(machine, "goose", docs=entry)

    assert look(machine) == []


def test_what_a_project_brings_is_not_started_before_its_host_may(
    machine: FakeMachine, tmp_path: Path
) -> None:
    """A clone of a stranger's repository must not run anything because the doctor looks."""
    entry = {"command": "touch", "args": [str(tmp_path / "started")]}
    machine.write(".mcp.json", json.dumps({"mcpServers": {"docs": entry}}))
    machine.write(".vscode/mcp.json", json.dumps({"servers": {"docs": entry}}))
    spelled = "\n".join(f"{name} = {spell(value)}" for name, value in entry.items())
    machine.write(".codex/config.toml", f"[mcp_servers.docs]\n{spelled}\n")
    told: list[str] = []

    assert look(machine, told) == []

    names = [line.split("  ")[:2] for line in told]
    assert names == [
        ["not started", f"{title}: docs"] for title in ("Codex", "Claude Code", "VS Code")
    ]
    assert not (tmp_path / "started").exists()


def test_what_a_project_brings_is_started_once_its_host_may(machine: FakeMachine) -> None:
    machine.write(".mcp.json", json.dumps({"mcpServers": {"docs": make_entry("noisy")}}))
    machine.write("~/.claude/settings.json", '{"enabledMcpjsonServers": ["docs"]}')

    assert list_codes(look(machine)) == ["ML304"]


@pytest.mark.parametrize("name", ["CLAUDE_PROJECT_DIR", "CLAUDE_CODE_SESSION_ID", "CLAUDECODE"])
@pytest.mark.parametrize("run", [None, []], ids=["bare", "wrapped"])
def test_a_server_learns_which_host_starts_it(
    machine: FakeMachine, name: str, run: list[str] | None
) -> None:
    assert look_at(machine, "claude", f"needs={name}", run=run) == []
    configure(machine, "claude")
    assert list_codes(look_at(machine, "codex", f"needs={name}", run=run)) == ["ML301"]


def test_a_server_of_zeds_entries_of_old_gets_its_variables(machine: FakeMachine) -> None:
    [path, *args] = [*FAULTY_SERVER, "needs=GIVEN"]
    command = {"path": path, "args": args, "env": {"GIVEN": "yes"}}
    configure(machine, "zed", docs={"command": command, "settings": {}})

    assert look(machine) == []


SECRET = "tango-Foxtrot-17"


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (["--header", f"Authorization: Bearer {SECRET}"], {}),
        ([f"--header=X-API-Key: {SECRET}"], {}),
        ([f"https://x/?profile=p&api_key={SECRET}"], {}),
        ([f"server --key {SECRET}"], {}),
        ([f"postgres://me:{SECRET}@h/db"], {}),
        ([], {"env": {"DATABASE_URL": f"postgres://me:{SECRET}@h/db"}}),
        ([], {"run": ["--dotenv", "secrets.env"]}),
        ([], {"run": ["--server", "docs"]}),
    ],
    ids=["header", "option", "address", "script", "password", "variable", "dotenv", "profile"],
)
def test_no_secret_of_a_server_is_among_its_last_words(
    machine: FakeMachine, words: list[str], more: dict[str, Any]
) -> None:
    machine.write("secrets.env", f"DB_PASSWORD={SECRET}\n")
    profile = machine.write(
        "~/.config/mcp-launch/config.toml",
        f'[servers.docs]\nenv = {{ PASSWORD = "{SECRET}" }}\n',
    )
    profile.chmod(0o600)

    [finding] = look_at(machine, "claude", f"says={'x' * 290} {SECRET}", "dies", *words, **more)

    assert finding.code == "ML301"
    assert "xxx ***" in str(finding.details)
    assert "tango" not in str(finding)


def test_no_secret_is_in_the_progress_output(machine: FakeMachine) -> None:
    told: list[str] = []
    configure(machine, "claude", ghp_0123456789abcdefghij0123=make_entry())

    look(machine, told)

    assert told
    assert "0123456789" not in told[0]


def test_nothing_is_left_running_after_an_interrupt(
    machine: FakeMachine, liveness: LivenessSocket
) -> None:
    slow = make_entry("silent", "stubborn", f"liveness={liveness.path}")
    configure(machine, "claude", docs=make_entry(), slow=slow)

    def interrupt(_: str) -> None:
        liveness.wait_for("server")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        live.check(machine.survey(), Progress(interrupt))

    assert liveness.read_until_end("server") == b""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_nothing_is_left_after_a_signal(
    machine: FakeMachine,
    liveness: LivenessSocket,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
) -> None:
    place = machine.home / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    before = signal.getsignal(number)
    slow = make_entry("silent", "stubborn", f"liveness={liveness.path}")
    configure(machine, "claude", docs=make_entry(), slow=slow)

    def interrupt(_: str) -> None:
        liveness.wait_for("server")
        signal.raise_signal(number)

    with pytest.raises(SystemExit) as ended:
        live.check(machine.survey(), Progress(interrupt))

    assert ended.value.code == 128 + number
    assert liveness.read_until_end("server") == b""
    assert list(place.iterdir()) == []
    assert signal.getsignal(number) == before


# What runs is looked at afterwards.


def test_what_runs_is_shown_as_it_is_after_the_servers_were_started(
    machine: FakeMachine, fake_hosts: FakeHosts
) -> None:
    """That may take a minute, in which servers end and others begin."""
    machine.table = limit_to_subtree()
    configure(machine, "claude", docs=make_entry())
    ended = fake_hosts.start("claude", command=SERVER)
    begun: list[FakeHost] = []

    def go_on(_: str) -> None:
        if not begun:
            ended.end()
            wait_until_gone(ended.server)
            begun.append(fake_hosts.start("codex", command=SERVER))

    survey = machine.survey()
    registry.examine(survey, Progress(go_on))

    (host,) = survey.census.hosts
    assert host.pid == begun[0].pid
    (share,) = processes.list_memory(survey)
    assert share.server == f"mcp-docs (process {begun[0].server})"
    assert share.memory.amount > 0


# What a host offers, and how far the look has come.


@pytest.mark.parametrize(
    ("host", "offered"), [("codex", 1), ("claude", 2), ("cursor", 2), ("vscode", 5)]
)
@pytest.mark.parametrize("era", ["legacy", "both"])
def test_a_server_is_offered_what_its_host_offers(
    machine: FakeMachine, host: str, offered: int, era: str
) -> None:
    told: list[str] = []
    configure(machine, host, docs=make_entry("adapting", era))

    assert look(machine, told) == []

    assert told[-1].endswith(f", {2 + offered} tools")


def test_progress_counts_and_names_hosts_and_servers(machine: FakeMachine) -> None:
    told: list[str] = []
    status: list[str] = []
    configure(machine, "codex", docs=make_entry(), gone={"command": "no-such-server", "args": []})
    configure(machine, "cursor", docs=make_entry(env={"ONLY": "here"}))

    live.check(machine.survey(), Progress(told.append, status.append))

    assert [line.partition("  ")[0] for line in told] == ["1 of 3", "2 of 3", "3 of 3"]
    assert {line.split("  ")[1] for line in told} == {"Codex: docs", "Codex: gone", "Cursor: docs"}
    assert status[0].startswith("0 of 3 done, starting ")
    assert status[-1] == "3 of 3 done"


def test_the_cause_is_not_pushed_out_by_news_of_npm(machine: FakeMachine) -> None:
    [finding] = look_at(machine, "codex", "dies", "npm")

    assert finding.details == ("npm error could not determine executable to run",)


# An invalid profile


def test_an_invalid_profile_keeps_no_server_from_being_looked_at(machine: FakeMachine) -> None:
    told: list[str] = []
    profile = machine.write("~/.config/mcp-launch/config.toml", "[servers.docs]\ncwdd = 3\n")
    profile.chmod(0o600)
    home = "needs=HOME"
    configure(
        machine,
        "claude",
        bare=make_entry(home),
        noisy=make_entry("noisy", home),
        wrapped=make_entry(home, run=["--server", "docs"]),
        dies=make_entry("dies", run=["--server", "docs"]),
        of_profile={"command": "/opt/mcp-launch", "args": ["run", "--server", "docs"]},
    )

    found = [(one.code, one.subject.server) for one in look(machine, told)]

    assert found == [("ML304", "noisy"), ("ML301", "dies")]
    assert told[0] == (
        "not started  Claude Code: of_profile  its command is in a profile, which cannot be used "
        "(ML013)"
    )
    assert sum("ready in" in line for line in told) == 2  # two of them are started alike


def test_a_server_keeps_its_home_without_profiles(machine: FakeMachine) -> None:
    machine.write("~/.config/mcp-launch/config.toml", "[").chmod(0o600)
    script = f'test "$HOME" = {machine.home} || exit 7; exec {" ".join(FAULTY_SERVER)}'
    configure(machine, "claude", docs={"command": "sh", "args": ["-c", script]})

    assert look(machine) == []


def test_defaults_are_not_applied_to_a_server_without_a_launcher(machine: FakeMachine) -> None:
    text = '[defaults]\npass_env = ["PATH"]\n'
    machine.write("~/.config/mcp-launch/config.toml", text).chmod(0o600)
    machine.environ["GIVEN"] = "yes"
    configure(
        machine,
        "claude",
        bare=make_entry("needs=GIVEN"),
        wrapped=make_entry("needs=GIVEN", run=["--server", "wrapped"]),
    )

    assert [one.subject.server for one in look(machine)] == ["wrapped"]
