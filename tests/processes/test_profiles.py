"""Profiles in files: what they may say, who may use them, and what a launch makes of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_context, make_sighting
from launches import ENVIRONMENT_SERVER, LaunchRunner, python

from mcp_launch import hosts
from mcp_launch.errors import ProfileRefused, SourceMissing, UsageError
from mcp_launch.launch import environment, plan, profile, profile_file
from mcp_launch.launch.plan import Dotenv
from mcp_launch.values import Found

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def user_file(own_home: Path) -> Path:
    """Return the user's file, which is not there yet."""
    path = own_home / ".config" / "mcp-launch" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def project_file(project: Path) -> Path:
    """Return the project's file, which is not there yet."""
    return project / ".mcp-launch.toml"


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


def spell(command: list[str]) -> str:
    return f"command = {json.dumps(command[0])}\nargs = {json.dumps(command[1:])}\n"


BROKEN = {
    "no TOML": (
        "[servers.a]\ncommand = npx\n",
        "2:11: not valid TOML",
        "strings need quotes",
    ),
    "no end": (
        '[servers.a]\ncommand = "npx',
        "2:15: not valid TOML",
        "strings need quotes",
    ),
    "no TOML 1.1 either": (
        '[servers.a]\nenv = {\n  A = "b", # c\n}\ncommand = npx\n',
        "5:11: not valid TOML: Unexpected character: 'n'",
        "strings need quotes",
    ),
    "a number for a text, in TOML 1.1": (
        '[servers.a]\nenv = {\n  A = "b", # c\n  B = 1,\n}\n',
        "4:3: B must be a string",
        "quotes",
    ),
    "a strange table": ("[server.a]\n", "1:1: unknown key server", "did you mean servers?"),
    "servers is no table": ("servers = 1\n", "1:1: `servers` must be a table", "[servers.servers]"),
    "a server is no table": (
        "[servers]\n a = 1\n",
        "2:2: `a` must be a table",
        "write [servers.a]",
    ),
    "a near key": (
        '[servers.a]\n# it\n  comand = "x"\n',
        "3:3: unknown key comand in [servers.a]",
        "did you mean command?",
    ),
    "a number for a text": (
        "[servers.a]\ncommand = 1\n",
        "2:1: command must be a string",
        "quotes",
    ),
    "an empty command": ('[servers.a]\ncommand = ""\n', "2:1: command is empty", "write a value"),
    "args alone": ('[servers.a]\nargs = ["x"]\n', "2:1: args without a command", "add a command"),
    "an argument that is none": (
        '[servers.a]\ncommand = "x"\nargs = [\n  "y",\n  2,\n]\n',
        "5:3: an element of args must be",
        "string in quotes",
    ),
    "a near choice": (
        '[servers.a]\non_change = "restrat"\n',
        "2:1: on_change does not take restrat",
        "did you mean restart?",
    ),
    "a yes that is none": ('[servers.a]\nstrict = "yes"\n', "2:1: strict must be true", "true or"),
    "an unknown source": (
        '[servers.a]\nenv_vars = [\n  "A",\n  { name = "B", source = "thraed" },\n]\n',
        "4:17: unknown source",
        "did you mean thread?",
    ),
    "Codex's remote": (
        '[servers.a]\nenv_vars = [{ name = "B", source = "remote" }]\n',
        "2:27: unknown source",
        "the sources are",
    ),
    "a near key of a variable": (
        '[servers.a]\nenv_vars = [{ nam = "B" }]\n',
        "2:15: unknown key nam",
        "did you mean name?",
    ),
    "a variable without a name": (
        '[servers.a]\nenv_vars = [{ source = "thread" }]\n',
        "2:13: a variable has no name",
        "{ name =",
    ),
    "a name that is none": (
        '[servers.a]\nenv_vars = ["A-B"]\n',
        "2:13: this is not a valid variable name",
        "_",
    ),
    "a name for a fact": (
        '[servers.a]\nenv_vars = [{ name = "B", source = "thread", from = "C" }]\n',
        "2:46: `from` does not apply to the source thread",
        "remove `from`",
    ),
    "a variable twice": (
        '[servers.a]\nenv = { A = "x" }\nenv_vars = ["A"]\n',
        "3:13: A was given twice",
        "remove one",
    ),
    "a literal that is none": (
        "[servers.a]\nenv = { A = 1 }\n",
        "2:9: A must be a string",
        "quotes",
    ),
    "a pattern that is none": ('[servers.a]\npass_env = ["$A"]\n', "2:13: this is no", "names"),
    "all in a list": ('[servers.a]\npass_env = ["A", "safe"]\n', "2:1: all and safe", "write"),
    "our own variable": (
        '[servers.a]\nenv = { MCP_LAUNCH_ID = "x" }\n',
        "2:9: MCP_LAUNCH_ID is",
        "n",
    ),
    "a secret": (
        '[servers.a]\nenv_vars = ["K=sk-1"]\n',
        "2:13: this is not a valid variable name",
        "digits",
    ),
    "a number that is too long": (
        "x = " + "1" * 5000,
        "1:1: not valid TOML: it is too",
        "",
    ),
    "a word to pass": ('[servers.a]\npass_env = "most"\n', "2:1: pass_env must be", "safe"),
}


def test_a_profile_may_be_written_in_toml_1_1() -> None:
    text = '[servers.a]\ncommand = "\\x78"\nenv = {\n  A = "b", # c\n  D = "\\e",\n}\n'

    server = profile_file.parse(text.encode(), "/p.toml")["servers"]["a"]

    assert server["command"] == ["x"]
    assert server["literals"] == {"A": "b", "D": "\x1b"}


@pytest.mark.parametrize(("text", "problem", "fix"), BROKEN.values(), ids=list(BROKEN))
def test_what_makes_no_sense_is_told_with_its_place(text: str, problem: str, fix: str) -> None:
    with pytest.raises(ProfileRefused) as refused:
        profile_file.parse(text.encode(), "/p.toml")

    assert refused.value.problem.startswith(f"/p.toml:{problem}")
    assert fix in refused.value.fix


def test_a_file_that_is_not_utf_8_is_told_with_its_line() -> None:
    with pytest.raises(ProfileRefused, match=r"^/p\.toml:2: not valid UTF-8"):
        profile_file.parse(b"# fine\n\xff\n", "/p.toml")


WHOLE = """
[servers.docs]
command = "npx"
args = ["-y", "docs"]
cwd = "project_root"
dotenv = [".env", "~/.env"]
pass_env = ["AWS_*"]
stdout = "strict"
on_change = "follow"
when_unknown = "fail"
restart = false
strict = true
direct = false
no_meta = true
trace = false
env = { A = "${B}" }
env_vars = [
  "PLAIN",
  { name = "LOCAL", source = "local", from = "THERE", required = true },
  { name = "THREAD", source = "thread_id" },
  { name = "KEY", source = "dotenv", default = "" },
]
"""


def test_every_key_is_understood(user_file: Path) -> None:
    write(user_file, WHOLE)

    wanted = profile.load(["--server", "docs"], os.environ)

    assert wanted.command == ["npx", "-y", "docs"]
    assert (wanted.cwd, wanted.dotenv) == ("project_root", [".env", "~/.env"])
    assert (wanted.stdout, wanted.on_change) == ("strict", "follow")
    assert (wanted.when_unknown, wanted.restart) == ("fail", "off")
    assert (wanted.strict, wanted.direct, wanted.no_meta, wanted.trace) == (
        True,
        False,
        True,
        False,
    )
    assert wanted.pass_env == ["AWS_*"]
    assert wanted.literals == {"A": "${B}"}
    facts = {
        name: (one.source, one.sought, one.default, one.is_required)
        for name, one in wanted.env.items()
    }
    assert facts == {
        "PLAIN": ("local", "PLAIN", None, False),
        "LOCAL": ("local", "THERE", None, True),
        "THREAD": ("thread", "THREAD", None, True),
        "KEY": ("dotenv", "KEY", "", True),
    }


def test_options_go_before_twins_and_twins_before_files(user_file: Path) -> None:
    write(user_file, WHOLE)
    twins = {"MCP_LAUNCH_STDOUT": "off", "MCP_LAUNCH_ON_CHANGE": "refuse"}

    words = ["--server", "docs", "--on-change", "restart", "--env", "A=host", "--dotenv", "x"]
    wanted = profile.load([*words, "--", "other", "-y"], dict(os.environ) | twins)

    assert wanted.command == ["other", "-y"]
    assert (wanted.stdout, wanted.on_change, wanted.when_unknown) == ("off", "restart", "fail")
    assert wanted.env["A"].source == "host"
    assert wanted.literals == {}
    assert wanted.dotenv == [".env", "~/.env", "x"]


def decide(text: str, environ: dict[str, str], **facts: Any) -> plan.Plan:
    """Return the plan that the server `a` of a profile gives."""
    told = profile_file.parse(f"[servers.a]\ncommand = 'x'\n{text}".encode(), "/p.toml")["servers"][
        "a"
    ]
    from mcp_launch.state.profile_cache import Record

    record = Record(told)
    values = {name: texts for name, texts in record.options.items() if texts is not None}
    wanted = profile.Profile(values, record.command, [record])
    dotenv = Dotenv({"KEY": "from the file"}, ".env")
    return plan.decide(wanted, make_context(**facts), environ, dotenv, lambda _: True)


VARIABLES = {
    "passed on": ('"A"', {"A": "a"}, "a"),
    "not there to be passed on": ('"A"', {}, None),
    "passed on under another name": ('{ name = "A", from = "B" }', {"A": "no", "B": "b"}, "b"),
    "a missing one with a default": ('{ name = "A", default = "d" }', {}, "d"),
    "from a dotenv file": ('{ name = "A", source = "dotenv", from = "KEY" }', {}, "from the file"),
    "a fact": ('{ name = "A", source = "project_root" }', {}, "/work/app"),
    "an optional fact": ('{ name = "A", source = "thread", required = false }', {"A": "old"}, None),
    "a fact with a default": ('{ name = "A", source = "thread", default = "none" }', {}, "none"),
    "a fact that a call will tell": ('{ name = "A", source = "session_id" }', {}, "launch-1"),
}


@pytest.mark.parametrize(("variable", "environ", "value"), VARIABLES.values(), ids=list(VARIABLES))
def test_a_variable_is(variable: str, environ: dict[str, str], value: str | None) -> None:
    decided = decide(f"env_vars = [{variable}]\n", environ)

    assert decided.environ.get("A") == value


def test_what_was_left_out_is_brought_by_a_call() -> None:
    decided = decide('env_vars = [{ name = "A", source = "thread", required = false }]\n', {})

    assert decided.held.find_wrong(None, "t-1") == "requested"


def test_what_every_server_gets_is_not_lost_by_asking_for_it() -> None:
    decided = decide('env_vars = ["CODEX_THREAD_ID"]\n', {}, thread=Found("t-1", "a test"))

    assert decided.environ["CODEX_THREAD_ID"] == "t-1"


def test_an_empty_list_passes_nothing_but_the_basics() -> None:
    decided = decide("pass_env = []\n", {"OPENAI_API_KEY": "secret", "PATH": "/bin"})

    assert "OPENAI_API_KEY" not in decided.environ
    assert decided.environ["PATH"] == "/bin"


def test_a_default_gives_way_to_what_a_call_tells() -> None:
    decided = decide('env_vars = [{ name = "A", source = "thread", default = "none" }]\n', {})

    assert decided.held.find_wrong(None, "t-1") == "requested"


def test_a_variable_that_is_required_stops_the_launch() -> None:
    with pytest.raises(SourceMissing, match="no value for A"):
        decide('env_vars = [{ name = "A", from = "B", required = true }]\n', {"A": "a"})


LITERALS = {
    "plain": ("text $HOME", "text $HOME"),
    "a variable": ("<${B}>", "<b>"),
    "two": ("${B}${C}", "bc"),
    "a default": ("${NO:-d e}", "d e"),
    "a default for an empty one": ("${EMPTY:-d}", "d"),
    "an empty one": ("<${EMPTY}>", "<>"),
    "a default not needed": ("${B:-d}", "b"),
    "an empty default": ("<${NO:-}>", "<>"),
    "escaped": ("$${B} ${B}", "${B} b"),
    "no second look": ("${D}", "${B}"),
}


@pytest.mark.parametrize(("text", "value"), LITERALS.values(), ids=list(LITERALS))
def test_a_literal_is(text: str, value: str) -> None:
    environ = {"B": "b", "C": "c", "D": "${B}", "EMPTY": ""}

    assert environment.expand(text, "A", environ) == value


@pytest.mark.parametrize("text", ["${NO}", "${B", "x ${}", "${NO:-${B}}"])
def test_a_literal_without_a_value_stops_the_launch(text: str) -> None:
    with pytest.raises(SourceMissing, match="no value for A: "):
        environment.expand(text, "A", {"B": "b"})


ENVIRON = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_TIME": "C",
    "AWS_REGION": "x",
    "ANTHROPIC_API_KEY": "secret",
    "CLAUDE_CODE_MESSAGING_TOKEN": "secret",
    "CLAUDE_CODE_OAUTH_REFRESH_TOKEN": "secret",
    "OTHER": "y",
}


SECRETS = {name for name, text in ENVIRON.items() if text == "secret"}


def select(passed: str, **host: str) -> set[str]:
    """Return what a server gets of these below a host that has some of its own."""
    environ = decide(f"pass_env = {passed}\n", ENVIRON, host_environ=host).environ
    return ENVIRON.keys() & environ.keys()


def test_a_safe_environment_has_no_secret_of_a_host() -> None:
    assert select('"safe"', **ENVIRON) == ENVIRON.keys() - SECRETS


def test_a_safe_environment_has_the_secrets_that_the_host_does_not_have() -> None:
    """They are from the `env` of its entry, which the user wrote."""
    host = {"ANTHROPIC_API_KEY": "another", "CLAUDE_CODE_MESSAGING_TOKEN": "secret"}

    assert SECRETS - select('"safe"', **host) == {"CLAUDE_CODE_MESSAGING_TOKEN"}


def test_a_secret_is_kept_back_if_the_host_cannot_be_looked_at() -> None:
    decided = decide('pass_env = "safe"\n', ENVIRON, host_environ={})

    assert decided.kept_back == dict.fromkeys(SECRETS, "the environment of Codex cannot be read")


def test_a_named_environment_has_what_was_named_and_the_basics() -> None:
    assert select('["AWS_*"]') == {"PATH", "HOME", "LC_TIME", "AWS_REGION"}
    assert select('"all"') == ENVIRON.keys()


# The program above us, and whether its start tells what it has now.
READABLE = {"codex": True, "agent": True, "bash": False, "zed": False, "qwen": False}


@pytest.mark.parametrize(("program", "is_readable"), READABLE.items())
def test_the_hosts_environment_is_known_unless_it_adds_to_it(
    program: str, *, is_readable: bool
) -> None:
    table = FakeProcessTable()
    process = table.add(10, program)
    table.variables[10] = {"A": "a"}
    host = hosts.recognise(table, process) or hosts.UNKNOWN

    assert host.read_environ(make_sighting(table, 10)) == ({"A": "a"} if is_readable else {})


def test_what_claude_codes_settings_set_is_its_own(tmp_path: Path) -> None:
    table = FakeProcessTable()
    table.add(10, "claude")
    table.variables[10] = {"A": "a", "B": "b"}
    (tmp_path / ".claude").mkdir()
    settings = json.dumps({"env": {"B": "set", "C": 1}})
    (tmp_path / ".claude/settings.json").write_text(settings, encoding="utf-8")

    sighting = make_sighting(table, 10, environ={"HOME": str(tmp_path)})

    assert hosts.load("claude").read_environ(sighting) == {"A": "a", "B": "set", "C": "1"}


MATCHES = {
    ("A_*", "A_B"): True,
    ("A_*", "A_"): True,
    ("A_*", "AB"): False,
    ("*_KEY", "A_KEY"): True,
    ("*_KEY", "A_KEYS"): False,
    ("A*B*C", "AxByC"): True,
    ("A*B*C", "AC"): False,
    ("AB*BA", "ABA"): False,
    ("*", ""): True,
    ("A", "A"): True,
    ("A", "AB"): False,
}


@pytest.mark.parametrize(("pattern", "name"), list(MATCHES))
def test_a_pattern_matches(pattern: str, name: str) -> None:
    assert environment.matches(name, pattern) is MATCHES[pattern, name]


def test_what_was_not_passed_on_can_still_be_asked_for() -> None:
    text = 'pass_env = "safe"\nenv_vars = [{ name = "KEY", from = "ANTHROPIC_API_KEY" }]\n'

    decided = decide(text, {"ANTHROPIC_API_KEY": "mine", "PATH": "/bin"})

    assert decided.environ["KEY"] == "mine"
    assert "ANTHROPIC_API_KEY" not in decided.environ


def test_a_server_is_launched_by_its_name_alone(user_file: Path, runner: LaunchRunner) -> None:
    write(user_file, f'[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "b" }}\n')

    for _ in range(2):  # from the file, and from the record of it
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == "b"
        assert launch.finish()[0] == 0


def test_a_changed_file_is_read_again(user_file: Path, runner: LaunchRunner) -> None:
    for value in ("one", "two", "six"):
        write(user_file, f'[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "{value}" }}\n')
        launch = runner.launch("--server", "probe")
        assert launch.ask("look")["env"]["A"] == value


def test_an_unknown_server_needs_a_command(runner: LaunchRunner) -> None:
    launch = runner.launch("--server", "nobody")

    code, _, err = launch.finish()

    assert code == 125
    assert b"no profile defines the server nobody, and no command was given" in err
    assert b"fix: add [servers.nobody] to ~/.config/mcp-launch/config.toml" in err


def test_the_nearest_server_is_offered(user_file: Path) -> None:
    write(user_file, "[servers.hello]\ncommand = 'x'\n[servers.other]\n")

    with pytest.raises(UsageError) as refused:
        profile.load(["--server", "helo"], os.environ)
    with pytest.raises(UsageError, match="the profile of other has no command"):
        profile.load(["--server", "other"], os.environ)

    assert "did you mean hello?" in refused.value.fix


def test_a_name_without_a_profile_is_only_a_name(user_file: Path, runner: LaunchRunner) -> None:
    write(user_file, "[servers.other]\ncommand = 'x'\n")

    launch = runner.launch("--server", "probe", "--", *ENVIRONMENT_SERVER)

    assert launch.ask("look")["argv"] == []


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_user_file_that_others_can_write_is_refused(
    mode: int, user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    user_file.chmod(mode)

    code, _, err = runner.launch("--server", "probe").finish()

    assert code == 125
    assert f"{user_file} can be written by other users".encode() in err
    assert f"fix: run: chmod go-w {user_file}".encode() in err


def test_a_broken_file_stops_the_launch_and_the_host_is_told(
    user_file: Path, runner: LaunchRunner
) -> None:
    write(user_file, "[servers.probe]\ncomand = 'x'\n")
    launch = runner.launch("--server", "probe", "--", *ENVIRONMENT_SERVER)

    error = launch.initialize()["error"]["message"]

    assert f"{user_file}:2:1: unknown key comand" in error
    assert "did you mean command?" in error


def trust(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "mcp_launch", "trust", *words],
        check=False,
        capture_output=True,
        encoding="utf-8",
        stdin=subprocess.DEVNULL,
    )


def test_a_project_file_does_nothing_until_it_is_trusted(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    mark = tmp_path / "it ran"
    command = python(f"open({str(mark)!r}, 'w')")
    write(project_file, f"[servers.probe]\n{spell(command)}env = {{ A = 'b' }}\n")

    code, _, err = runner.launch("--server", "probe").finish()
    sight = runner.launch("--server", "probe", "--", *ENVIRONMENT_SERVER).ask("look")

    assert code == 125
    assert f"fix: read it, then run: mcp-launch trust {project_file}".encode() in err
    assert "A" not in sight["env"]
    assert not mark.exists()


def test_a_trusted_project_file_is_used_until_it_changes(
    project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, f'[servers.probe]\n{spell(ENVIRONMENT_SERVER)}env = {{ A = "one" }}\n')

    done = trust("--yes")

    assert done.returncode == 0
    assert "probe: " in done.stdout
    assert "A=one" in done.stdout
    assert runner.launch("--server", "probe").ask("look")["env"]["A"] == "one"
    os.utime(project_file)  # another time, the same words
    assert runner.launch("--server", "probe").ask("look")["env"]["A"] == "one"
    write(project_file, project_file.read_text(encoding="utf-8").replace("one", "two"))
    code, _, err = runner.launch("--server", "probe").finish()
    assert code == 125
    assert b"you have not trusted it since it was changed" in err


def test_trust_can_be_taken_back(project_file: Path, runner: LaunchRunner) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    assert trust(str(project_file), "--yes").returncode == 0

    assert trust("--forget").returncode == 0

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_trust_is_not_given_without_being_asked_for(
    project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")

    done = trust()

    assert done.returncode == 2
    assert "answer yes, or add --yes" in done.stderr
    assert runner.launch("--server", "probe").finish()[0] == 125


def test_trust_of_another_directory_is_none_of_this_one(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    text = f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}"
    write(project_file, text)
    other = tmp_path / "other"
    other.mkdir()
    write(other / ".mcp-launch.toml", text)

    assert trust(str(other), "--yes").returncode == 0

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_a_project_file_that_is_not_there_is_told(project: Path, user_file: Path) -> None:
    write(user_file, "")
    for path in (project, user_file):
        done = trust(str(path))

        assert done.returncode == 2
        assert "there is no .mcp-launch.toml at " in done.stderr


def test_trust_that_cannot_be_kept_is_not_given(project_file: Path, tmp_path: Path) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    (tmp_path / "state").write_text("in the way", encoding="utf-8")

    done = trust("--yes")

    assert done.returncode == 2
    assert "profiles is not writable" in done.stderr


def test_what_is_to_be_trusted_is_shown_whole_and_does_nothing(project_file: Path) -> None:
    text = """[servers.it]
command = "sh"
args = ["-c", "evil #\\u001b[2K\\r  it: nice"]
cwd = "/"
env = { LD_PRELOAD = "/x.so" }
env_vars = [{ name = "A", source = "local", from = "B" }]
"""
    write(project_file, text)

    said = trust("--yes").stdout

    assert "\x1b" not in said
    assert "evil #\\x1b[2K\\r" in said
    assert "LD_PRELOAD=/x.so" in said
    assert "--cwd /" in said
    assert "A from local (B)" in said


@pytest.mark.parametrize("text", ["this is not valid TOML", "x = " + "[" * 3000, "x" * 300_000])
def test_a_file_that_nobody_trusts_cannot_stop_other_servers(
    text: str, project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, text)

    assert runner.launch("--server", "other", "--", *ENVIRONMENT_SERVER).ask("look")["argv"] == []


def test_a_pipe_in_place_of_a_file_is_not_waited_for(
    project_file: Path, runner: LaunchRunner
) -> None:
    os.mkfifo(project_file)

    assert runner.launch("--server", "other", "--", *ENVIRONMENT_SERVER).ask("look")["argv"] == []


def test_a_record_behind_a_link_or_in_a_directory_of_others_is_not_believed(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    assert trust("--yes").returncode == 0
    directory = tmp_path / "state" / "profiles"
    directory.chmod(0o777)
    assert runner.launch("--server", "probe").finish()[0] == 125
    directory.chmod(0o700)
    assert trust("--yes").returncode == 0
    [record] = directory.glob("*.json")
    record.rename(tmp_path / "elsewhere.json")
    record.symlink_to(tmp_path / "elsewhere.json")

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_a_twin_that_says_no_goes_before_a_file(user_file: Path) -> None:
    write(user_file, "[servers.a]\ncommand = 'x'\nstrict = true\nno_meta = true\n")

    wanted = profile.load(["--server", "a"], {**os.environ, "MCP_LAUNCH_STRICT": "0"})

    assert (wanted.strict, wanted.no_meta) == (False, True)


def test_a_project_file_goes_before_the_users(
    user_file: Path, project_file: Path, runner: LaunchRunner
) -> None:
    write(
        user_file,
        f'[servers.probe]\n{spell(["nothing"])}strict = true\nenv = {{ A = "user", B = "user" }}\n',
    )
    keys = 'strict = false\ncwd = "below"\nenv = { A = "project" }\n'
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}{keys}")
    below = project_file.parent / "below"
    below.mkdir()
    assert trust("--yes").returncode == 0

    sight = runner.launch("--server", "probe", cwd=below).ask("look")

    assert (sight["env"]["A"], sight["env"]["B"]) == ("project", "user")
    assert sight["cwd"] == str(below)  # meant from the file, not from where the session works


def test_a_record_that_was_tampered_with_is_not_believed(
    project_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    write(project_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    assert trust("--yes").returncode == 0
    [record] = (tmp_path / "state" / "profiles").glob("*.json")
    record.chmod(0o666)

    assert runner.launch("--server", "probe").finish()[0] == 125


def test_a_slip_in_what_is_passed_on_is_told() -> None:
    with pytest.raises(UsageError) as refused:
        profile.load(["--pass-env", "saef", "cat"], {"HOME": "/nowhere"})

    assert "did you mean safe?" in refused.value.fix


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', None])
def test_a_broken_record_is_made_again(
    text: str | None, user_file: Path, runner: LaunchRunner, tmp_path: Path
) -> None:
    write(user_file, f"[servers.probe]\n{spell(ENVIRONMENT_SERVER)}")
    runner.launch("--server", "probe").finish()
    [record] = (tmp_path / "state" / "profiles").glob("*.json")
    if text is None:  # some of it is missing
        kept = json.loads(record.read_text(encoding="utf-8"))
        text = json.dumps({name: kept[name] for name in ("version", "path")})
    record.write_text(text, encoding="utf-8")

    assert runner.launch("--server", "probe").ask("look")["argv"] == []


def test_without_a_name_no_file_of_a_project_is_looked_at(
    project_file: Path, runner: LaunchRunner
) -> None:
    write(project_file, "this is not valid TOML")

    assert runner.launch("--strict", "--", *ENVIRONMENT_SERVER).ask("look")["argv"] == []


def test_a_users_file_that_makes_no_sense_stops_every_launch(
    user_file: Path, runner: LaunchRunner
) -> None:
    """It may say what a server is not to get; nobody can know."""
    write(user_file, "this is not valid TOML")

    code, _, err = runner.launch("--", *ENVIRONMENT_SERVER).finish()

    assert code == 125
    assert f"{user_file}:1:6: not valid TOML".encode() in err
