"""Profiles: what their files may say, and what follows from them."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_context, make_sighting

from mcp_launch import hosts
from mcp_launch.errors import ProfileRefused, SourceMissing, UsageError
from mcp_launch.launch import environment, plan, profile, profile_file
from mcp_launch.launch.plan import Dotenv
from mcp_launch.launch.profile_tables import Table
from mcp_launch.values import Found

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def user_file(own_home: Path) -> Path:
    """Return the user's file, which is not there yet."""
    path = own_home / ".config" / "mcp-launch" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)


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
    "a key that is a table, too": (
        '[servers.a]\ntools = { deny = ["x"] }\n[servers.a.tools.y.arguments]\n',
        "3:29: not valid TOML",
        "write it once",
    ),
    "no TOML 1.1 either": (
        '[servers.a]\nenv = {\n  A = "b", # c\n}\ncommand = npx\n',
        "5:11: not valid TOML: Unexpected character: 'n'",
        "strings need quotes",
    ),
    "a number for a text, in TOML 1.1": (
        '[servers.a]\nenv = {\n  A = "b", # c\n  B = 1,\n}\n',
        "4:3: `B` must be a string",
        "quotes",
    ),
    "a strange table": ("[server.a]\n", "1:1: unknown key `server`", "did you mean servers?"),
    "servers is no table": ("servers = 1\n", "1:1: `servers` must be a table", "[servers.NAME]"),
    "a server is no table": (
        "[servers]\n a = 1\n",
        "2:2: `a` must be a table",
        "write [servers.a]",
    ),
    "a near key": (
        '[servers.a]\n# it\n  comand = "x"\n',
        "3:3: unknown key `comand` in [servers.a]",
        "did you mean command?",
    ),
    "a number for a text": (
        "[servers.a]\ncommand = 1\n",
        "2:1: `command` must be a string in quotes, not a number",
        "quotes",
    ),
    "an empty command": ('[servers.a]\ncommand = ""\n', "2:1: `command` is empty", "write a value"),
    "a NUL in a directory": (
        '[servers.a]\ncommand = "x"\ncwd = "a\\u0000"\n',
        "3:1: `cwd` contains a NUL",
        "remove",
    ),
    "a NUL in an argument": (
        '[servers.a]\ncommand = "x"\nargs = ["\\u0000"]\n',
        "3:9: an element of `args` contains a NUL",
        "remove",
    ),
    "a NUL in a value": (
        '[servers.a]\ncommand = "x"\nenv = { A = "x\\u0000" }\n',
        "3:9: `A` contains a NUL",
        "remove",
    ),
    "args alone": (
        '[servers.a]\nargs = ["x"]\n',
        "2:1: `args` without a `command`",
        "add a `command`",
    ),
    "an argument that is none": (
        '[servers.a]\ncommand = "x"\nargs = [\n  "y",\n  2,\n]\n',
        "5:3: an element of `args` must be",
        "string in quotes",
    ),
    "a near choice": (
        '[servers.a]\non_change = "restrat"\n',
        '2:1: `on_change` does not take "restrat"',
        "did you mean restart?",
    ),
    "a yes that is none": (
        '[servers.a]\nstrict = "yes"\n',
        "2:1: `strict` must be true",
        "true or",
    ),
    "an unknown source": (
        '[servers.a]\nenv_vars = [\n  "A",\n  { name = "B", source = "thraed" },\n]\n',
        '4:17: unknown source "thraed"',
        "did you mean thread?",
    ),
    "Codex's remote": (
        '[servers.a]\nenv_vars = [{ name = "B", source = "remote" }]\n',
        "2:27: unknown source",
        "the sources are",
    ),
    "a near key of a variable": (
        '[servers.a]\nenv_vars = [{ nam = "B" }]\n',
        "2:15: unknown key `nam` in an element of `env_vars`",
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
        '2:46: `from` does not apply to the source "thread"',
        "remove `from`",
    ),
    "a variable twice": (
        '[servers.a]\nenv = { A = "x" }\nenv_vars = ["A"]\n',
        "3:13: `A` is set twice",
        "remove one",
    ),
    "a literal that is none": (
        "[servers.a]\nenv = { A = 1 }\n",
        "2:9: `A` must be a string",
        "quotes",
    ),
    "a pattern that is none": (
        '[servers.a]\npass_env = ["$A"]\n',
        "2:13: this is not a valid variable name",
        "names",
    ),
    "all in a list": ('[servers.a]\npass_env = ["A", "safe"]\n', '2:1: "all" and "safe"', "write"),
    "our own variable": (
        '[servers.a]\nenv = { MCP_LAUNCH_ID = "x" }\n',
        "2:9: `MCP_LAUNCH_ID` is",
        "n",
    ),
    "a secret": (
        '[servers.a]\nenv_vars = ["K=sk-1"]\n',
        "2:13: this is not a valid variable name",
        "digits",
    ),
    "a number that is too long": (
        "x = " + "1" * 5000,
        "1:1: not valid TOML: it is nested too deeply",
        "",
    ),
    "a whole command line as a list": (
        '[servers.a]\ncommand = ["a", "b"]\n',
        "2:1: `command` must be a string in quotes, not a list",
        "put the rest in `args`",
    ),
    "a choice that is a boolean": (
        "[servers.a]\nstart = true\n",
        "2:1: `start` does not take true",
        'write one of "known", "now", "called"',
    ),
    "a choice that is a list": (
        '[servers.a]\nstart = ["now"]\n',
        "2:1: `start` does not take a list",
        "write one of",
    ),
    "a time that is a boolean": (
        "[servers.a]\nrest = true\n",
        "2:1: `rest` does not take true",
        '"90s"',
    ),
    "no servers at all": (
        "[servers.a]\nmax_servers = 0\n",
        "2:1: `max_servers` does not take 0",
        "write a number from 1 to 64",
    ),
    "too many servers": (
        "[servers.a]\nmax_servers = 65\n",
        "2:1: `max_servers` does not take 65",
        "write a number from 1 to 64",
    ),
    "a part of a server": (
        "[servers.a]\nmax_servers = 1.5\n",
        "2:1: `max_servers` does not take 1.5",
        "write a number from 1 to 64",
    ),
    "a number that is a boolean": (
        "[defaults]\nmax_servers = true\n",
        "2:1: `max_servers` does not take true",
        "write a number from 1 to 64",
    ),
    "a number in quotes": (
        '[servers.a]\nmax_servers = "8"\n',
        '2:1: `max_servers` does not take "8"',
        "write a number from 1 to 64",
    ),
    "a way to share that is none": (
        '[servers.a]\nshare = "user"\n',
        '2:1: `share` does not take "user"',
        'write one of "off", "project"',
    ),
    "a date": (
        "[servers.a]\ncwd = 2026-11-18\n",
        "2:1: `cwd` must be a string in quotes, not a date or time",
        "quotes",
    ),
    "a NUL in a default": (
        '[servers.a]\nenv_vars = [{ name = "A", default = "\\u0000" }]\n',
        "2:27: `default` contains a NUL",
        "remove",
    ),
    "a secret for a source": (
        '[servers.a]\nenv_vars = [{ name = "B", source = "sk-0123456789" }]\n',
        "2:27: unknown source",
        "put a fixed value into `env`",
    ),
    "a word to pass": ('[servers.a]\npass_env = "most"\n', "2:1: `pass_env` must be", "safe"),
}


def test_a_profile_may_be_written_in_toml_1_1() -> None:
    text = '[servers.a]\ncommand = "\\x78"\nenv = {\n  A = "b", # c\n  D = "\\e",\n}\n'

    server = profile_file.parse(text.encode(), "/p.toml")["servers"]["a"]

    assert server["command"] == ["x"]
    assert server["literals"] == {"A": "b", "D": "\x1b"}


@pytest.mark.parametrize(("text", "problem", "fix"), BROKEN.values(), ids=list(BROKEN))
def test_what_is_invalid_is_reported_with_its_place(text: str, problem: str, fix: str) -> None:
    with pytest.raises(ProfileRefused) as refused:
        profile_file.parse(text.encode(), "/p.toml")

    assert refused.value.problem.startswith(f"/p.toml:{problem}")
    assert fix in refused.value.fix


def test_a_file_that_is_not_utf_8_is_reported_with_its_line() -> None:
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
max_servers = 16
share = "project"
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
  { name = "THREAD", source = "thread" },
  { name = "KEY", source = "dotenv", default = "" },
]
"""


def test_every_key_is_understood(user_file: Path) -> None:
    write(user_file, WHOLE)

    wanted = profile.load(["--server", "docs"], os.environ)

    assert wanted.command == ["npx", "-y", "docs"]
    assert (wanted.cwd, wanted.dotenv) == ("project_root", [".env", "~/.env"])
    assert (wanted.stdout, wanted.on_change) == ("strict", "follow")
    assert (wanted.max_servers, wanted.share) == (16, "project")
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
    variables = {"MCP_LAUNCH_STDOUT": "off", "MCP_LAUNCH_ON_CHANGE": "refuse"}

    words = ["--server", "docs", "--on-change", "restart", "--env", "A=host", "--dotenv", "x"]
    wanted = profile.load([*words, "--", "other", "-y"], dict(os.environ) | variables)

    assert wanted.command == ["other", "-y"]
    assert (wanted.stdout, wanted.on_change, wanted.when_unknown) == ("off", "restart", "fail")
    assert wanted.env["A"].source == "host"
    assert wanted.literals == {}
    assert wanted.dotenv == [".env", "~/.env", "x"]


def test_a_fixed_value_of_an_option_takes_precedence_over_the_files(user_file: Path) -> None:
    write(user_file, WHOLE)

    wanted = profile.load(["--server", "docs", "--set", "A=a", "--set", "KEY=k"], os.environ)

    assert wanted.literals == {"A": "a", "KEY": "k"}
    assert "KEY" not in wanted.env


def decide(text: str, environ: dict[str, str], **facts: Any) -> plan.Plan:
    """Return the plan that the server `a` of a profile gives."""
    told = profile_file.parse(f"[servers.a]\ncommand = 'x'\n{text}".encode(), "/p.toml")["servers"][
        "a"
    ]
    table = Table(told)
    values = {name: texts for name, texts in table.options.items() if texts is not None}
    wanted = profile.Profile(values, table.command, [table])
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
    "a fact that a call will tell": ('{ name = "A", source = "session" }', {}, "launch-1"),
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


def test_a_secret_is_withheld_if_the_host_cannot_be_looked_at() -> None:
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


def test_the_nearest_server_is_offered(user_file: Path) -> None:
    write(user_file, "[servers.hello]\ncommand = 'x'\n[servers.other]\n")

    with pytest.raises(UsageError) as refused:
        profile.load(["--server", "helo"], os.environ)
    with pytest.raises(UsageError, match="the profile of other has no command"):
        profile.load(["--server", "other"], os.environ)

    assert "did you mean hello?" in refused.value.fix


def test_a_twin_that_says_no_goes_before_a_file(user_file: Path) -> None:
    write(user_file, "[servers.a]\ncommand = 'x'\nstrict = true\nno_meta = true\n")

    wanted = profile.load(["--server", "a"], {**os.environ, "MCP_LAUNCH_STRICT": "0"})

    assert (wanted.strict, wanted.no_meta) == (False, True)


def test_a_slip_in_what_is_passed_on_is_reported() -> None:
    with pytest.raises(UsageError) as refused:
        profile.load(["--pass-env", "saef", "cat"], {"HOME": "/nowhere"})

    assert "did you mean safe?" in refused.value.fix
