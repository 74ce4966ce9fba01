"""`mcp-launch env`: what a server would get, from where, and what a launch really gives it."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from command_line import run_command
from fake_output import FakeOutput
from fakes import FakeProcessTable
from rich.cells import cell_len

from mcp_launch import main, system

if TYPE_CHECKING:
    from pathlib import Path

THREAD = "0199f3a1-0000-7000-8000-000000000001"


class EnvCommand:
    """Runs `mcp-launch env` in a project, below processes that a test makes up."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home = home
        self.project = project
        self.state = project.parent / "state"
        self.table: Any = FakeProcessTable()
        self.environ = {
            "HOME": str(home),
            "MCP_LAUNCH_HOME": str(self.state),
            "PATH": "/usr/bin:/bin",
        }
        self.code = 0
        self.said = ""

    def put_below_host(self, program: str) -> None:
        """Make a host the parent of our shell."""
        self.table.add(10, program, parent=0)
        self.table.add(20, "bash", parent=10)
        self.table.add(os.getpid(), "python", parent=20)

    def write(self, path: str, text: str) -> Path:
        """Write a file: `~/…` in the home, anything else in the project."""
        base = self.home if path.startswith("~/") else self.project
        file = base / path.removeprefix("~/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o600)
        return file

    def show(
        self,
        *words: str,
        server: str = "",
        explain: str = "",
        host: str = "",
        is_verbose: bool = False,
    ) -> str:
        """Return what a person sees."""
        return self._run(*words, server=server, explain=explain, host=host, v=is_verbose)

    def tell(self, *words: str, server: str = "", explain: str = "", host: str = "") -> Any:
        """Return what a program is told."""
        return json.loads(self._run(*words, server=server, explain=explain, host=host, json=True))

    def _run(self, *words: str, server: str = "", **options: str | bool) -> str:
        line = ["env", *([server] if server else [])]
        for name, value in options.items():
            if value:
                line.append(f"--{name}" if len(name) > 1 else f"-{name}")
                line += [value] if isinstance(value, str) else []
        with mock.patch.dict(os.environ, self.environ, clear=True):
            done = run_command(*line, "--", *words, table=self.table)
        self.code, self.said = done.returncode, done.stderr
        return done.stdout


@pytest.fixture
def command(own_home: Path, project: Path) -> EnvCommand:
    return EnvCommand(own_home, project)


def values(told: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in told["variables"]}


def origins(told: Any) -> dict[str, str]:
    return {one["name"]: one["origin"] for one in told["variables"]}


def removed(told: Any) -> dict[str, str]:
    return {one["name"]: one["why"] for one in told["removed"]}


def problems(told: Any) -> list[str]:
    return [one["problem"] for one in told["problems"]]


def test_in_a_terminal_there_is_no_host(command: EnvCommand) -> None:
    told = command.tell()

    assert command.code == 0
    assert told["frame"]["host"]["value"] == "unknown"
    assert told["frame"]["program"] == {"value": None, "origin": "no command was given"}
    assert values(told)["PWD"] == str(command.project)
    assert values(told)["MCP_LAUNCH_ID"] == "(new with each launch)"
    assert told["frame"]["session"] == {
        "value": None,
        "origin": "this host gives no session id",
    }
    assert "MCP_LAUNCH_SESSION_ID" not in values(told)
    assert origins(told)["PATH"] == "inherited"


def test_in_claudes_shell_the_session_is_claudes(command: EnvCommand) -> None:
    command.put_below_host("claude")
    command.environ |= {"CLAUDE_CODE_SESSION_ID": "s-1", "CODEX_THREAD_ID": "t-0"}

    told = command.tell()

    assert told["frame"]["host"]["value"] == "claude"
    assert told["frame"]["session"]["value"] == "s-1"
    assert told["frame"]["binding"]["value"] == "tentative"
    assert values(told)["MCP_LAUNCH_SESSION_ID"] == "s-1"
    assert removed(told)["CODEX_THREAD_ID"] == "not this session's"


def test_in_codexs_shell_there_is_no_thread(command: EnvCommand) -> None:
    """Its shells have the variable, but what is started there is no server of the thread."""
    command.put_below_host("codex")
    command.environ["CODEX_THREAD_ID"] = THREAD

    told = command.tell()

    assert told["frame"]["thread"] == {
        "value": None,
        "origin": "the Codex process above us did not start us directly",
    }
    assert removed(told) == {"CODEX_THREAD_ID": "not this session's"}


# words, name, value, origin
ORIGINS = {
    "passed on": ([], "A", "a", "inherited"),
    "our own": ([], "MCP_LAUNCH_HOST", "unknown", "no process above us is visible"),
    "a fact": (["--env", "X=project_root"], "X", "{project}", ".git in it"),
    "local": (["--env", "A=local"], "A", "a", "the launcher's environment"),
    "a whole dotenv": (["--dotenv", ".env"], "D", "d", "dotenv {project}/.env"),
    "one of a dotenv": (["--env", "D=dotenv"], "D", "d", "dotenv {project}/.env"),
    "a profile's text": (["--server", "it"], "F", "f-a", "the profile {home}/{file}"),
    "a profile's default": (
        ["--server", "it"],
        "G",
        "g",
        "its default (G is not in the launcher's environment)",
    ),
    "a directory": (["--cwd", "/"], "PWD", "/", "--cwd"),
}
USER_FILE = ".config/mcp-launch/config.toml"


@pytest.mark.parametrize(("words", "name", "value", "origin"), ORIGINS.values(), ids=list(ORIGINS))
def test_a_value_is_shown_with_its_origin(
    words: list[str], name: str, value: str, origin: str, command: EnvCommand
) -> None:
    command.environ["A"] = "a"
    command.write(".env", "D=d\n")
    command.write(
        f"~/{USER_FILE}",
        "[servers.it]\ncommand = 'cat'\nenv = { F = 'f-${A}' }\n"
        "env_vars = [{ name = 'G', default = 'g' }]\n",
    )

    told = command.tell(*words)

    places = {"project": command.project, "home": command.home, "file": USER_FILE}
    assert command.code == 0
    assert values(told)[name] == value.format(**places)
    assert origins(told)[name] == origin.format(**places)


# words, name, why
REMOVED = {
    "a stranger's": ([], "CODEX_SESSION_ID", "not this session's"),
    "an environment variable": ([], "MCP_LAUNCH_RESTART", "for the launcher, not for servers"),
    "the host's secret": (
        *(["--pass-env", "safe"], "OPENAI_API_KEY"),
        "withheld by --pass-env safe: the environment of this host cannot be read",
    ),
    "not among the named": (
        *(["--pass-env", "A,B*"], "C"),
        "withheld by --pass-env A,B*: it is not named there",
    ),
    "asked for elsewhere": (["--server", "it"], "C", "requested from dotenv, which has no value"),
}


@pytest.mark.parametrize(("words", "name", "why"), REMOVED.values(), ids=list(REMOVED))
def test_what_is_not_handed_on_is_reported_with_the_reason(
    words: list[str], name: str, why: str, command: EnvCommand
) -> None:
    command.environ |= {"C": "c", "OPENAI_API_KEY": "k", "CODEX_SESSION_ID": "s"}
    command.environ["MCP_LAUNCH_RESTART"] = "off"
    command.write(".env", "D=d\n")
    variable = "{ name = 'C', source = 'dotenv', required = false }"
    command.write(f"~/{USER_FILE}", f"[servers.it]\ncommand = 'cat'\nenv_vars = [{variable}]\n")

    told = command.tell(*words)

    assert removed(told)[name] == why
    assert name not in values(told)


# words, what is said of it
STOPS = {
    "no such option": (["--cdw", "keep"], ["unknown option --cdw"]),
    "no such directory": (["--cwd", "/no/such", "--", "cat"], ["/no/such"]),
    "no such command": (["--", "no-such-command"], ["no-such-command was not found on PATH"]),
    "no such file": (["--dotenv", "no.env", "--env", "A=dotenv"], ["no.env does not exist"]),
    "a device": (["--dotenv", "/dev/zero"], ["the dotenv file /dev/zero is not a regular file"]),
    "two sources without a value": (
        ["--env", "A=local", "--env", "B=local", "--env", "H=host"],
        ["no value for A", "no value for B"],
    ),
    "a profile without a command": (["--server", "bare"], ["the profile of bare has no command"]),
    "a profile that lacks something": (["--server", "lacks"], ["no value for L: NOWHERE"]),
    "nobody to verify": (["--strict"], ["--strict: cannot verify"]),
    "several at once": (["--cwd", "/no/such", "--", "no-such"], ["/no/such", "no-such was not"]),
}


@pytest.mark.parametrize(("words", "said"), STOPS.values(), ids=list(STOPS))
def test_what_would_stop_the_launch_hides_nothing_else(
    words: list[str], said: list[str], command: EnvCommand
) -> None:
    command.write(
        f"~/{USER_FILE}",
        "[servers.bare]\nenv = { F = 'f' }\n"
        "[servers.lacks]\ncommand = 'cat'\nenv = { L = '${NOWHERE}' }\n",
    )

    told = command.tell(*words)

    assert command.code == 1
    assert len(problems(told)) == len(said)
    for problem, text in zip(problems(told), said, strict=True):
        assert text in problem
    assert all(one["fix"] for one in told["problems"])
    assert {"PATH", "MCP_LAUNCH_ID", "MCP_LAUNCH_PROJECT_ROOT"} <= values(told).keys()
    shown = command.show(*words)
    assert "the launch would fail: " in shown
    assert "  fix: " in shown


def test_a_place_that_is_refused_leaves_the_variables(command: EnvCommand) -> None:
    words = ("--cwd", str(command.project / "gone"), "--env", "HERE=cwd", "--env", "WHO=host")

    told = command.tell(*words, "--", "cat")

    assert told["frame"]["cwd"]["value"] is None
    assert "does not exist" in told["frame"]["cwd"]["origin"]
    assert {"HERE", "PWD"}.isdisjoint(values(told))
    assert values(told)["WHO"] == "unknown"
    assert len(problems(told)) == 1


def test_a_home_is_noted_as_a_launch_would_note_it(command: EnvCommand) -> None:
    command.environ["HOME"] = str(command.project)

    told = command.tell("--env", "HERE=cwd", "--", "cat")

    assert (command.code, problems(told)) == (0, [])
    assert values(told)["HERE"] == values(told)["PWD"] == str(command.project)
    assert told["notes"] == ["the server's directory is the home directory, not a project"]
    assert f"Note: {told['notes'][0]}" in command.show("--", "cat")


def test_a_claude_code_that_runs_elsewhere_contradicts_nothing(command: EnvCommand) -> None:
    """The one that would start the server here is another."""
    command.environ["HOME"] = str(command.project)
    command.table.add(10, "claude", parent=1, start="ticks:7")
    record = {"sessionId": "s", "procStart": "7", "cwd": "/elsewhere"}
    command.write(".claude/sessions/10.json", json.dumps(record))
    entry = {"command": "mcp-launch", "args": ["run", "--", "cat"]}
    command.write(".claude.json", json.dumps({"mcpServers": {"docs": entry}}))

    told = command.tell(server="docs")

    assert problems(told) == []
    assert values(told)["PWD"] == str(command.project)


def test_no_secret_is_shown(command: EnvCommand) -> None:
    command.environ |= {
        "MY_TOKEN": "correct-horse",
        "PLAIN": "sk-0123456789abcdefghij",
        "URL": "https://x/?t=correct-horse",
        "SSH_AUTH_SOCK": "/run/agent",
        "EMPTY_KEY": "",
        "MY_PW": "abc",
        "HOOK": "https://hooks.slack.com/services/T0/B0/correct-horse",
        "BEEP": "\x1b[2J\x07",
    }
    words = ("--", "cat", "--api-key", "correct-horse", "TOKEN=correct-horse")

    everything = [
        command.show(*words),
        json.dumps(command.tell(*words)),
        *(command.show(explain=name) for name in ("MY_TOKEN", "PLAIN", "URL")),
        command.show("--env", "A=correct-horse", explain="A"),
    ]

    for shown in everything:
        assert "correct-horse" not in shown
        assert "sk-0123456789" not in shown
        assert "\x1b" not in shown
    told = values(command.tell(*words))
    assert (told["MY_TOKEN"], told["URL"]) == ("***", "https://x/?t=***")
    assert told["EMPTY_KEY"] == ""
    assert (told["MY_PW"], told["HOOK"]) == ("***", "https://hooks.slack.com/services/***")
    assert told["PWD"] != "***"


SECRET = "tango-Foxtrot-17"


@pytest.mark.parametrize(
    "words",
    [
        ["--", "cat", "--header", f"Authorization: Bearer {SECRET}"],
        ["--", "cat", f"https://x/?profile=p&api_key={SECRET}"],
        ["--", "sh", "-c", f"cat --token {SECRET}"],
        ["--", f"./{SECRET}", "--token", SECRET],
        ["--cwd", f"/no/{SECRET}", "--", "cat", "--token", SECRET],
        ["--env", f"KEY={SECRET}", "--", "cat"],
        ["--dotenv", f"{SECRET}.env", "--", "cat", f"--token={SECRET}"],
        ["--dotenv", "secrets.env", "--", "cat", SECRET],
        ["--server", "docs", "--", "cat", SECRET],
    ],
    ids=lambda words: " ".join(words).replace(SECRET, "…"),
)
def test_no_secret_is_in_anything_that_is_shown(command: EnvCommand, words: list[str]) -> None:
    """Origins, problems and fixes repeat what users wrote."""
    command.write("secrets.env", f"DB_PASSWORD={SECRET}\n")
    command.write(
        "~/.config/mcp-launch/config.toml",
        f'[servers.docs]\nenv = {{ PASSWORD = "{SECRET}", PLACE = "/x/{SECRET}" }}\n',
    )

    assert SECRET not in command.show(*words)
    assert SECRET not in json.dumps(command.tell(*words))
    assert SECRET not in command.show(*words, explain="PLACE")


CODEX = """
[mcp_servers.docs]
command = "cat"
args = ["-u"]
cwd = "{project}/sub"
env = {{ TOKEN = "t", OWN = "own" }}
env_vars = ["NAMED"]

[mcp_servers.wrapped]
command = "/somewhere/mcp-launch"
args = ["run", "--env", "WHO=host", "--", "cat"]

[mcp_servers.uvx]
command = "uvx"
args = ["mcp-launch@latest", "run", "--env", "WHO=host", "--", "cat"]

[mcp_servers.far]
url = "https://example.invalid/mcp"
"""


def configure_codex(command: EnvCommand) -> None:
    (command.project / "sub").mkdir()
    command.write("~/.codex/config.toml", CODEX.format(project=command.project))
    command.environ |= {"NAMED": "n", "UNNAMED": "u"}


def test_an_entry_gets_what_its_host_gives_and_its_own(command: EnvCommand) -> None:
    configure_codex(command)

    told = command.tell("--env", "ROOT=project_root", server="docs")

    assert told["entry"]["file"] == str(command.home / ".codex/config.toml")
    assert told["entry"]["is_wrapped"] is False
    assert values(told)["ROOT"] == str(command.project)  # options can be tried on an entry
    assert told["frame"]["host"]["value"] == "codex"
    assert told["frame"]["cwd"]["value"] == f"{command.project}/sub"
    assert told["frame"]["command"]["value"] == "cat -u"
    assert (values(told)["OWN"], origins(told)["OWN"]) == ("***", "the entry's env")
    assert (values(told)["NAMED"], origins(told)["NAMED"]) == ("n", "inherited from Codex")
    assert removed(told)["UNNAMED"] == "Codex does not pass it on to servers"
    # No value of its env is shown, as it is or under another name.
    text = (command.home / ".codex/config.toml").read_text(encoding="utf-8")
    command.write("~/.codex/config.toml", text.replace('"own"', '"LEAK31abc"'))
    for words in ([], ["--env", "COPY=local", "--env", "OWN=local"]):
        assert "LEAK31abc" not in command.show(*words, server="docs")
        explained = command.show(*words, server="docs", explain="OWN")
        assert "LEAK31abc" not in explained
        assert "***" in explained
    shown = command.show(server="docs")
    assert "docs is not wrapped: mcp-launch changes nothing in its environment" in shown
    assert "run: mcp-launch wrap docs --host codex" in shown


SAFE = """
[mcp_servers.safe]
command = "/somewhere/mcp-launch"
args = ["run", "--pass-env", "safe", "--", "cat"]
env = { OPENAI_API_KEY = "key-of-the-entry" }
env_vars = ["GEMINI_API_KEY"]
"""


def test_a_safe_server_gets_the_key_that_its_own_entry_gives(command: EnvCommand) -> None:
    command.write("~/.codex/config.toml", SAFE)
    command.environ |= {"OPENAI_API_KEY": "key-of-codex", "GEMINI_API_KEY": "other-key-of-codex"}

    told = command.tell(server="safe", explain="GEMINI_API_KEY")

    assert origins(told)["OPENAI_API_KEY"] == "the entry's env"
    assert removed(told)["GEMINI_API_KEY"] == "withheld by --pass-env safe: Codex has it itself"
    assert told["explained"]["fix"] == "ask for it by name: --env GEMINI_API_KEY=local"


def test_a_mistake_in_the_users_file_does_not_stop_an_entry_that_is_not_wrapped(
    command: EnvCommand,
) -> None:
    configure_codex(command)
    command.write(f"~/{USER_FILE}", "[defaults]\nstrict = 'yes'\n")

    shown = command.show(server="docs")

    assert command.code == 0
    assert "once wrapped, the launch would fail: " in shown
    assert "the launch would fail: " in command.show(server="wrapped")
    assert command.code == 1


@pytest.mark.parametrize("server", ["wrapped", "uvx"])
def test_a_wrapped_entry_is_taken_with_its_options(server: str, command: EnvCommand) -> None:
    configure_codex(command)

    told = command.tell(server=server)

    assert told["entry"]["is_wrapped"] is True
    assert not any("not wrapped" in note for note in told["notes"])
    assert values(told)["WHO"] == "codex"
    assert told["frame"]["command"]["value"] == "cat"
    assert "mcp-launch sets:" in command.show(server=server)


def test_a_running_host_is_asked(command: EnvCommand) -> None:
    """Its environment is what its servers get, not the shell's; its open thread is theirs."""
    configure_codex(command)
    command.table.add(30, "codex", parent=0)
    command.table.variables[30] = {"HOME": str(command.home), "PATH": "/bin", "NAMED": "the host's"}
    command.table.files[30] = [f"{command.home}/.codex/thread-writer-locks/{THREAD}.lock"]
    command.table.cwds[30] = str(command.project)

    told = command.tell(server="docs")

    assert values(told)["NAMED"] == "the host's"
    assert values(told)["CODEX_THREAD_ID"] == THREAD
    assert "process 30 (Codex) runs now" in told["frame"]["host"]["origin"]


def run_claude(command: EnvCommand, cwd: Path | str, **environ: str) -> None:
    """Let a Claude Code run somewhere, with a session that its record has."""
    command.write("~/.claude.json", '{"mcpServers": {"it": {"command": "cat"}}}')
    command.write("~/.claude/sessions/30.json", '{"sessionId": "s-1", "procStart": "5"}')
    command.table.add(30, "claude", parent=0)
    command.table.cwds[30] = str(cwd)
    command.table.variables[30] = {"HOME": str(command.home), "OWN": "its own", **environ}


NO_SESSION = "no Claude Code session is running here: the values are those of a new one"


@pytest.mark.parametrize("place", ["", "sub/deeper"], ids=["here", "the project's root"])
def test_a_session_that_works_here_is_taken(
    place: str, command: EnvCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_claude(command, command.project)
    (command.project / place).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(command.project / place)

    told = command.tell(server="it")

    assert told["frame"]["session"]["value"] == "s-1"
    assert values(told)["OWN"] == "its own"
    assert NO_SESSION not in told["notes"]


ELSEWHERE: dict[str, dict[str, Any]] = {
    "in a directory below": {"cwd": "{project}/blog"},
    "in a directory beside": {"cwd": "/srv"},
    "above the project": {"cwd": "{project}/.."},
    "with another home": {"cwd": "{project}", "HOME": "/srv/suite"},
    "with its files elsewhere": {"cwd": "{project}", "CLAUDE_CONFIG_DIR": "/srv/suite"},
}


@pytest.mark.parametrize("how", list(ELSEWHERE.values()), ids=list(ELSEWHERE))
def test_a_session_that_works_elsewhere_is_not_taken(
    how: dict[str, str], command: EnvCommand
) -> None:
    run_claude(
        command, **{name: text.format(project=command.project) for name, text in how.items()}
    )

    told = command.tell(server="it")

    assert told["frame"]["session"]["value"] is None
    assert NO_SESSION in told["notes"]
    assert "OWN" not in values(told)


def test_in_claudes_shell_its_session_is_taken_wherever_that_works(command: EnvCommand) -> None:
    run_claude(command, "/srv")
    command.table.add(40, "bash", parent=30)
    command.table.add(os.getpid(), "python", parent=40)

    assert command.tell(server="it")["frame"]["session"]["value"] == "s-1"


@pytest.mark.parametrize("is_here", [True, False], ids=["one is", "none is"])
def test_of_the_threads_of_codexs_daemon_only_those_that_work_here_are_taken(
    is_here: bool, command: EnvCommand
) -> None:
    configure_codex(command)
    command.table.add(30, "codex", parent=0)
    command.table.argv[30] = ["codex", "app-server"]
    command.table.variables[30] = {"HOME": str(command.home), "NAMED": "the daemon's"}
    command.table.cwds[30] = str(command.home)
    elsewhere, unknown = f"{THREAD[:-1]}2", f"{THREAD[:-1]}3"  # newer, and so what one would guess
    for thread, cwd in ((THREAD, command.project if is_here else "/srv"), (elsewhere, "/srv")):
        record = {"payload": {"session_id": thread, "cwd": str(cwd)}}
        rollout = command.write(f"~/.codex/sessions/rollout-x-{thread}.jsonl", json.dumps(record))
        command.table.files.setdefault(30, []).append(str(rollout))
    locks = f"{command.home}/.codex/thread-writer-locks"
    command.table.files[30] += [f"{locks}/{one}.lock" for one in (THREAD, elsewhere, unknown)]

    told = command.tell(server="wrapped")

    assert told["frame"]["thread"]["value"] == (THREAD if is_here else None)
    note = "no Codex session is running here: the values are those of a new one"
    assert (note in told["notes"]) is not is_here
    assert "NAMED" not in values(told)  # the entry does not name it
    assert told["frame"]["host"]["origin"].endswith("process 30 (Codex) runs now")


def test_of_several_processes_of_a_host_the_one_above_us_is_asked(command: EnvCommand) -> None:
    configure_codex(command)
    command.table.add(5, "codex", parent=0)
    command.put_below_host("codex")
    command.table.variables = {5: {"NAMED": "five"}, 10: {"NAMED": "ten"}}

    assert values(command.tell(server="docs"))["NAMED"] == "ten"


def test_claude_tells_the_project_itself(command: EnvCommand) -> None:
    """What stands in its environment is of the session in whose shell it was started."""
    command.write(".mcp.json", '{"mcpServers": {"it": {"command": "cat", "cwd": "/tmp"}}}')
    command.environ |= {"CLAUDE_PROJECT_DIR": "/else", "CLAUDE_CODE_SESSION_ID": "outer"}

    told = command.tell(server="it")

    assert values(told)["CLAUDE_PROJECT_DIR"] == str(command.project)
    assert origins(told)["CLAUDE_PROJECT_DIR"] == "Claude Code sets it for every server"
    assert told["frame"]["cwd"]["value"] == str(command.project)
    assert told["frame"]["session"]["value"] is None
    assert removed(told)["CLAUDE_CODE_SESSION_ID"].startswith("Claude Code sets its own")


def test_the_narrowest_scope_is_the_one_that_counts(command: EnvCommand) -> None:
    own = {"mcpServers": {"it": {"command": "user"}}}
    local = {"mcpServers": {"it": {"command": "local"}}}
    other = {"mcpServers": {"it": {"command": "other"}}}
    projects = {str(command.project): local, "/other": other}
    command.write("~/.claude.json", json.dumps(own | {"projects": projects}))
    command.write(".mcp.json", '{"mcpServers": {"it": {"command": "project"}}}')

    assert command.tell(server="it")["frame"]["command"]["value"] == "local"


def test_a_server_of_several_hosts_is_shown_for_each(command: EnvCommand) -> None:
    configure_codex(command)
    command.write(".mcp.json", '{"mcpServers": {"docs": {"command": "tac"}}}')

    told = command.tell(server="docs")

    (other,) = told["others"]
    commands = {one["entry"]["host"]: one["frame"]["command"]["value"] for one in (told, other)}
    assert commands.keys() == {"codex", "claude"}
    assert commands["claude"] == "tac"
    shown = command.show(server="docs")
    assert shown.index("In codex:") < shown.index("In claude:")
    assert command.tell(server="docs", host="claude")["frame"]["command"]["value"] == "tac"
    assert "others" not in command.tell(server="docs", host="claude")
    assert "In claude:" not in command.show(server="docs", host="claude")
    explained = command.show(server="docs", explain="--start")
    assert explained.count("the default") == 2


# server, host, what is said
UNKNOWN = {
    "a slip": ("dosc", "", 'no server named "dosc" in any host', "did you mean docs?"),
    "a slip in a profile's": ("mien", "", 'no server named "mien"', "did you mean mine?"),
    "another host's": (
        "docs",
        "claude",
        'no server named "docs" in the files of claude',
        "mcp-launch list shows all",
    ),
    "no such host": ("docs", "codx", "there is no host codx", "did you mean codex?"),
    "a host without a server": ("", "codex", "--host needs a server", ""),
    "one that is not started": ("far", "", "it is a remote server", "a command"),
}


@pytest.mark.parametrize(("server", "host", "problem", "fix"), UNKNOWN.values(), ids=list(UNKNOWN))
def test_a_name_that_means_nothing_is_reported_with_what_is_near(
    server: str, host: str, problem: str, fix: str, command: EnvCommand
) -> None:
    configure_codex(command)
    command.write(f"~/{USER_FILE}", "[servers.mine]\ncommand = 'cat'\n")

    command.show(server=server, host=host)

    assert command.code == 2
    assert problem in command.said
    assert fix in command.said


def test_a_file_that_cannot_be_read_does_not_hide_a_near_name(command: EnvCommand) -> None:
    configure_codex(command)
    command.write("~/.gemini/settings.json", "{")

    command.show(server="dosc")
    assert "did you mean docs? " in command.said
    command.show(server="entirely-different")
    assert "settings.json" in command.said


# words, name, the place that wins (none: nobody), why another was passed over
EXPLAINED = {
    "an option before its environment variable": (
        ["--env", "A=host"],
        "A",
        "the option --env",
        ("MCP_LAUNCH_ENV", "source cwd, but the option --env takes precedence"),
    ),
    "an environment variable before a profile": (
        ["--server", "it"],
        "A",
        "MCP_LAUNCH_ENV",
        ("{user}", "a fixed text, but MCP_LAUNCH_ENV takes precedence"),
    ),
    "a profile before a dotenv": (
        ["--server", "it", "--dotenv", ".env"],
        "F",
        "{user}",
        ("dotenv files, as a whole", "{user} takes precedence"),
    ),
    "a dotenv before the environment": (
        ["--dotenv", ".env"],
        "B",
        "dotenv files, as a whole",
        ("the launcher's environment", "dotenv files, as a whole takes precedence"),
    ),
    "what mcp-launch sets before a dotenv": (
        ["--dotenv", ".env"],
        "MCP_LAUNCH_HOST",
        "what mcp-launch sets for every server",
        ("dotenv files, as a whole", "what mcp-launch sets for every server takes precedence"),
    ),
    "a dotenv of which only a part is taken": (
        ["--dotenv", ".env", "--env", "D=dotenv"],
        "B",
        "the launcher's environment",
        (
            "dotenv files, as a whole",
            "only variables requested by name are taken from {project}/.env",
        ),
    ),
    "one that is not required": (
        ["--server", "it"],
        "N",
        None,
        ("{user}", "source dotenv, not required: N is not in {project}/.env"),
    ),
    "the directory": (["--env", "PWD=host"], "PWD", "the server's directory", ("profiles", "")),
}


@pytest.mark.parametrize(
    ("words", "name", "place", "over"), EXPLAINED.values(), ids=list(EXPLAINED)
)
def test_the_way_to_a_value_is_shown_step_by_step(
    words: list[str], name: str, place: str | None, over: tuple[str, str], command: EnvCommand
) -> None:
    user = command.write(
        f"~/{USER_FILE}",
        "[servers.it]\ncommand = 'cat'\nenv = { A = 'a', F = 'f' }\n"
        "env_vars = [{ name = 'N', source = 'dotenv', required = false }]\n",
    )
    if name == "F":
        text = user.read_text(encoding="utf-8")
        user.write_text(text.partition("env_vars")[0], encoding="utf-8")
    command.write(".env", "B=b\nD=d\nF=g\nMCP_LAUNCH_HOST=me\n")
    command.environ |= {"B": "bb", "CODEX_THREAD_ID": "t", "MCP_LAUNCH_ENV": "A=cwd"}
    places = {"user": str(user), "project": str(command.project)}

    explained = command.tell(*words, explain=name)["explained"]

    steps = explained["steps"]
    whys = {step["place"]: step["why"] for step in steps}
    used = None if explained["used"] is None else steps[explained["used"]]["place"]
    assert used == (place and place.format(**places))
    assert command.code == (0 if place else 1)
    assert over[1].format(**places) in whys[over[0].format(**places)]


def test_a_source_that_codex_refuses_comes_with_the_command_that_fixes_it(
    command: EnvCommand,
) -> None:
    asks = 'env_vars = [{ name = "CODEX_THREAD_ID", source = "thread" }]'
    command.write("~/.codex/config.toml", f'[mcp_servers.docs]\ncommand = "cat"\n{asks}\n')

    shown = command.show(server="docs", explain="CODEX_THREAD_ID")

    assert "the entry's env_vars" in shown
    assert "source thread: Codex refuses it, and everything else in that file" in shown
    assert "fix: let mcp-launch give it: mcp-launch wrap --host codex docs" in shown


WRAPPED = (
    '[mcp_servers.docs]\ncommand = "/x/mcp-launch"\nargs = ["run", "--server", "docs", "cat"]\n'
)


@pytest.mark.parametrize("entry", [WRAPPED, '[mcp_servers.docs]\ncommand = "cat"\n'])
def test_the_profile_of_an_entry_is_named(command: EnvCommand, entry: str) -> None:
    command.write("~/.codex/config.toml", entry)
    text = "[servers.docs]\nenv = { KEY_OF = 'own' }\n[defaults]\nenv = { ALL = 'all' }\n"
    user = command.write(f"~/{USER_FILE}", text + "[servers.alone]\ncommand = 'cat'\n")

    assert command.tell(server="alone")["frame"]["command"]["value"] == "cat"
    for name, place in (("KEY_OF", str(user)), ("ALL", f"[defaults] in {user}")):
        explained = command.tell(server="docs", explain=name)["explained"]
        assert explained["steps"][explained["used"]]["place"] == place


def test_every_value_is_explained_as_it_is_shown(command: EnvCommand) -> None:
    """One rule for what a server gets, not two."""
    configure_codex(command)
    command.write(".env", "D=d\nOWN=dotenv\nMCP_LAUNCH_HOST=me\n")
    command.environ |= {"A": "a", "D": "dd", "CODEX_THREAD_ID": "t", "MCP_LAUNCH_ENV": "E=host"}
    words = ("--dotenv", f"{command.project}/.env", "--env", "R=project_root")

    for server in ("", "docs", "wrapped"):
        told = command.tell(*words, server=server)
        for name, value in values(told).items():
            explained = command.tell(*words, server=server, explain=name)["explained"]
            assert explained["steps"][explained["used"]]["value"] == value, (server, name)
        for name in removed(told):
            explained = command.tell(*words, server=server, explain=name)["explained"]
            assert explained["used"] is None, (server, name)


def test_looking_leaves_nothing_behind(command: EnvCommand) -> None:
    command.write(f"~/{USER_FILE}", "[servers.it]\ncommand = 'cat'\n")
    before = sorted(command.project.parent.rglob("*"))

    command.tell(server="it")
    command.tell("--server", "it", explain="PATH")

    assert sorted(command.project.parent.rglob("*")) == before


def test_a_person_sees_first_what_mcp_launch_changes(command: EnvCommand) -> None:
    command.environ |= {"ODD": "1", "CODEX_THREAD_ID": "x", "MCP_LAUNCH_CWD": "keep"}
    text = 'command = "cat"\nenv = { OWN = "o" }\n'
    command.write("~/.codex/config.toml", f"[mcp_servers.docs]\n{text}")

    here = command.show("--", "cat")
    shown = command.show(server="docs")

    assert here.index("mcp-launch sets:") < here.index("mcp-launch removes:")
    assert "CODEX_THREAD_ID: not this session's\n" in here
    assert "MCP_LAUNCH_CWD: for the launcher, not for servers\n" in here
    assert "ODD" not in here
    assert "mcp-launch would set:" in shown
    assert "OWN   ***  the entry's env" in shown or "OWN  ***  the entry's env" in shown
    assert "also passed on unchanged: 2 variables inherited (-v lists them)\n" in shown
    assert "not passed on by the host: " in shown
    assert "ODD" not in shown
    everything = command.show("--", "cat", is_verbose=True)
    assert ["ODD", "1", "inherited"] in [line.split() for line in everything.splitlines()]
    everything += command.show(server="docs", is_verbose=True)
    assert "ODD: Codex does not pass it on to servers\n" in everything
    assert "-v" not in everything


def test_a_right_name_is_not_taken_for_a_slip(command: EnvCommand) -> None:
    command.write("~/.codex/config.toml", '[mcp_servers.docs]\ncommand = "cat"\n')
    command.environ["AUDIT_API_KEY"] = "x"

    thread = command.tell(server="docs", explain="CODEX_THREAD_ID")["explained"]["fix"]
    other = command.tell("--", "cat", explain="CODEX_SESSION_ID")["explained"]["fix"]
    near = command.tell("--", "cat", explain="GITHUB_API_KEY")["explained"]["fix"]
    assert command.code == 1
    slip = command.tell("--", "cat", explain="AUDIT_API_KYE")["explained"]["fix"]

    assert thread.startswith("mcp-launch sets it once the thread is known")
    assert "did you mean" not in other + near
    assert slip.startswith("did you mean AUDIT_API_KEY? give it with --env AUDIT_API_KYE=SOURCE")


def test_a_fixed_value_is_explained(command: EnvCommand) -> None:
    words = ("--set", "LEVEL=${BASE}/x", "--", "cat")
    command.environ |= {"BASE": "b", "MCP_LAUNCH_ENV": "LEVEL=host"}

    shown = command.show(*words, explain="LEVEL").splitlines()
    told = command.tell(*words)

    assert shown[0] == "> the option --set: b/x (a fixed text)"
    assert "  MCP_LAUNCH_ENV: source host, but the option --set takes precedence" in shown
    assert (values(told)["LEVEL"], origins(told)["LEVEL"]) == ("b/x", "--set")
    assert command.code == 0
    missing = command.tell("--set", "LEVEL=${NOPE}", "--", "cat", explain="LEVEL")
    assert missing["explained"]["used"] is None
    assert "NOPE is not set" in missing["problems"][0]["problem"]


@pytest.mark.parametrize("width", [60, 80, 100])
def test_no_line_is_wider_than_the_terminal(
    width: int, command: EnvCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    program = command.write(f"{'a-directory-with-a-long-name/' * 5}server", "#!/bin/sh\n")
    program.chmod(0o755)
    long = str(program.parent)
    command.write("~/.codex/config.toml", f"[mcp_servers.docs]\ncommand = '{program}'\n")
    command.environ |= {
        "PATH": f"{long}:/bin",
        "CLAUDE_CODE_A_LONG_NAME_OF_A_VARIABLE_INDEED": long,
    }
    screen = FakeOutput(is_terminal=True)
    monkeypatch.setattr(system, "open_table", lambda: command.table)
    for name, text in command.environ.items():
        monkeypatch.setenv(name, text)

    shown = screen.show(lambda: main(["env", "docs", "-v"]))

    # A fix is not broken, because people copy it; nor is a single word of a note.
    lines = [line for line in shown.splitlines() if not line.startswith(("  fix:", "  /"))]
    assert [line for line in lines if cell_len(line) > width] == []


POLICIES = """\
[defaults.tools]
deny = ["delete_*"]
[defaults.arguments]
cwd = { inside = "cwd" }
[servers.docs]
command = "sh"
call_timeout = "10m"
max_concurrent = 4
[servers.docs.tools]
allow = ["read_*"]
"""


def test_limits_and_policies_are_shown_with_the_file_that_sets_them(command: EnvCommand) -> None:
    file = command.write("~/.config/mcp-launch/config.toml", POLICIES)

    told, shown = command.tell(server="docs"), command.show(server="docs")

    frame = told["frame"]
    assert frame["call_timeout"] == {"value": "10m", "origin": str(file)}
    assert frame["max_concurrent"] == {"value": "4", "origin": str(file)}
    # The server's own table replaces that of all servers, key by key.
    assert [(one["origin"], one["tools"], one["arguments"]) for one in told["policies"]] == [
        (str(file), {"allow": ["read_*"]}, None),
        (f"[defaults] in {file}", None, {"cwd": {"inside": "cwd"}}),
    ]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    at = lines.index("mcp-launch checks:")
    assert lines[at + 1 : at + 3] == [
        f"tools allow read_* {file}",
        f"argument cwd inside cwd [defaults] in {file}",
    ]
