"""Profiles: what the user's file may say, and what follows from it."""

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


# What is wrong in the table of one server stops only this server.
REFUSED = {
    "no TOML": ("command = npx\n", "2:11: not valid TOML", "strings need quotes"),
    "a table twice": (
        "[servers.a]\n",
        "2:11: not valid TOML: Cannot declare [servers.a] twice",
        "strings need quotes",
    ),
    "no end": ('command = "npx', "2:15: not valid TOML", "strings need quotes"),
    "a key that is a table, too": (
        'tools = { deny = ["x"] }\n[servers.a.tools.y.arguments]\n',
        "3:29: not valid TOML",
        "write it once",
    ),
    "no TOML 1.1 either": (
        'env = {\n  A = "b", # c\n}\ncommand = npx\n',
        "5:11: not valid TOML: Unexpected character: 'n'",
        "strings need quotes",
    ),
    "a number for a text, in TOML 1.1": (
        'env = {\n  A = "b", # c\n  B = 1,\n}\n',
        "4:3: `B` must be a string",
        "quotes",
    ),
    "a near key": (
        '# it\n  comand = "x"\n',
        "3:3: unknown key `comand` in [servers.a]",
        "did you mean command?",
    ),
    "an empty text": ('command = ""\n', "2:1: `command` is empty", "write a value"),
    "a NUL": ('args = ["\\u0000"]\ncommand = "x"', "2:9: an element of `args` contains", "remove"),
    "args alone": ('args = ["x"]\n', "2:1: `args` without a `command`", "add a `command`"),
    "an argument that is none": (
        'command = "x"\nargs = [\n  "y",\n  2,\n]\n',
        "5:3: an element of `args` must be a string in quotes, not a number",
        "string in quotes",
    ),
    "a whole command line as a list": (
        'command = ["a", "b"]\n',
        "2:1: `command` must be a string in quotes, not a list",
        "put the rest in `args`",
    ),
    "a date": ("cwd = 2026-11-18\n", "2:1: `cwd` must be a string in quotes, not a date", "quotes"),
    "a near choice": (
        'on_change = "restrat"\n',
        '2:1: `on_change` does not take "restrat"',
        "did you mean restart?",
    ),
    "a choice that is a boolean": (
        "start = true\n",
        "2:1: `start` does not take true",
        'write one of "known", "now", "called"',
    ),
    "a yes that is none": ('strict = "yes"\n', "2:1: `strict` must be true", "true or"),
    "a time that is none": ("rest = true\n", "2:1: `rest` does not take true", '"90s"'),
    "a number out of range": (
        "max_servers = 65\n",
        "2:1: `max_servers` does not take 65",
        "write a number from 1 to 64",
    ),
    "a number in quotes": ('max_servers = "8"\n', '2:1: `max_servers` does not take "8"', "number"),
    "an unknown source": (
        'env_vars = [\n  "A",\n  { name = "B", source = "thraed" },\n]\n',
        '4:17: unknown source "thraed"',
        "did you mean thread?",
    ),
    "a secret for a source, which is not repeated": (
        'env_vars = [{ name = "B", source = "sk-0123456789" }]\n',
        "2:27: unknown source; ",
        "put a fixed value into `env`",
    ),
    "a near key of a variable": (
        'env_vars = [{ nam = "B" }]\n',
        "2:15: unknown key `nam` in an element of `env_vars`",
        "did you mean name?",
    ),
    "a variable without a name": (
        'env_vars = [{ source = "thread" }]\n',
        "2:13: a variable has no name",
        "{ name =",
    ),
    "a secret for a name, which is not repeated": (
        'env_vars = ["K=sk-1"]\n',
        "2:13: this is not a valid variable name; ",
        "digits",
    ),
    "a name for a fact": (
        'env_vars = [{ name = "B", source = "thread", from = "C" }]\n',
        '2:46: `from` does not apply to the source "thread"',
        "remove `from`",
    ),
    "a variable twice": (
        'env = { A = "x" }\nenv_vars = ["A"]\n',
        "3:13: `A` is set twice",
        "remove one",
    ),
    "our own variable": ('env = { MCP_LAUNCH_ID = "x" }\n', "2:9: `MCP_LAUNCH_ID` is", "another"),
    "a pattern that is none": ('pass_env = ["$A"]\n', "2:13: this is not a valid", "names"),
    "all in a list": ('pass_env = ["A", "safe"]\n', '2:1: "all" and "safe"', "write"),
    "a word to pass": ('pass_env = "most"\n', "2:1: `pass_env` must be", "safe"),
    "defaults with a command": (
        '[defaults]\ncommand = "x"\n',
        "3:1: `command` cannot be set for every server",
        "move `command`",
    ),
    "a slip in defaults": (
        '[defaults]\ncomand = "x"\n',
        "3:1: unknown key `comand` in [defaults]",
        "the keys are cwd, env_vars",
    ),
}


@pytest.mark.parametrize(("text", "problem", "fix"), REFUSED.values(), ids=list(REFUSED))
def test_what_is_invalid_is_refused_with_its_place(
    text: str, problem: str, fix: str, user_file: Path
) -> None:
    write(user_file, f"[servers.a]\n{text}")

    with pytest.raises(ProfileRefused) as refused:
        profile.load(["--server", "a", "--", "x"], os.environ)

    assert f"{refused.value.problem}; ".startswith(f"{user_file}:{problem}")
    assert fix in refused.value.fix
    if "not valid TOML" not in problem and "[defaults]" not in text:
        write(user_file, f"[servers.a]\n{text}\n[servers.b]\nstrict = true\n")
        assert profile.load(["--server", "b", "--", "x"], os.environ).strict


OF_FILE = {
    "servers is no table": (b"servers = 1\n", "1:1: `servers` must be a table"),
    "defaults is no table": (b"defaults = 1\n", "1:1: `defaults` must be a table"),
    "a strange table": (b"[server.a]\n", "1:1: unknown key `server`"),
    "a number that is too long": (
        b"x = " + b"1" * 5000,
        "1:1: not valid TOML: it is nested too",
    ),
    "no TOML": (b"this is not valid TOML", "1:6: not valid TOML"),
    "not UTF-8": (b"# fine\n\xff\n", "2: not valid UTF-8"),
}


@pytest.mark.parametrize(("text", "problem"), OF_FILE.values(), ids=list(OF_FILE))
def test_what_is_invalid_outside_of_servers_stops_every_server(
    text: bytes, problem: str, user_file: Path
) -> None:
    user_file.write_bytes(text)
    user_file.chmod(0o600)

    with pytest.raises(ProfileRefused) as refused:
        profile.load(["--", "x"], os.environ)

    assert refused.value.problem.startswith(f"{user_file}:{problem}")


UNUSABLE = {
    "open to others": "can be written by other users",
    "too large": "larger than 256 KB",
    "a pipe": "is not a regular file",
    "a directory": "is not a regular file",
}


@pytest.mark.parametrize(("what", "problem"), UNUSABLE.items(), ids=list(UNUSABLE))
def test_a_file_that_cannot_be_used_stops_every_server(
    what: str, problem: str, user_file: Path
) -> None:
    if what == "a pipe":
        os.mkfifo(user_file)
    elif what == "a directory":
        user_file.mkdir()
    else:
        write(user_file, "#" * ((300 << 10) if what == "too large" else 1))
        user_file.chmod(0o600 if what == "too large" else 0o622)

    with pytest.raises(ProfileRefused, match=problem) as refused:
        profile.load(["--", "x"], os.environ)
    assert what != "open to others" or refused.value.fix == f"run: chmod go-w {user_file}"


def test_what_was_read_is_kept_until_the_file_changes(user_file: Path, tmp_path: Path) -> None:
    """Whatever the times of the file say: some file systems store whole seconds."""
    write(user_file, "[defaults]\nstrict = true\n")
    words, kept = ["--", "x"], tmp_path / "state" / "config.json"
    assert profile.load(words, os.environ).strict
    assert not (tmp_path / "state").exists()  # before the first launch nothing is kept
    (tmp_path / "state").mkdir(mode=0o700)
    assert profile.load(words, os.environ).strict
    assert kept.is_file()

    before = user_file.stat()
    user_file.write_text("[defaults]\nstrict = true\ndirect = true\n", encoding="utf-8")
    os.utime(user_file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert profile.load(words, os.environ).direct

    forged = kept.read_text(encoding="utf-8").replace('"--strict": []', '"--no-log": []')
    kept.write_text(forged, encoding="utf-8")
    assert profile.load(words, os.environ).no_log
    kept.chmod(0o666)
    assert not profile.load(words, os.environ).no_log  # others may have written it
    kept.write_text("damaged", encoding="utf-8")
    assert profile.load(words, os.environ).strict


def test_a_profile_may_be_written_in_toml_1_1() -> None:
    text = '[servers.a]\ncommand = "\\x78"\nenv = {\n  A = "b", # c\n  D = "\\e",\n}\n'

    server = profile_file.parse(text.encode(), "/p.toml")["servers"]["a"]

    assert server["command"] == ["x"]
    assert server["literals"] == {"A": "b", "D": "\x1b"}


WHOLE = """
[servers.docs]
command = "npx"
args = ["-y", "docs"]
cwd = "project_root"
dotenv = [".env", "~/.env"]
pass_env = ["AWS_*"]
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
    assert wanted.on_change == "follow"
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


def test_options_go_before_variables_and_variables_before_the_file(user_file: Path) -> None:
    write(user_file, WHOLE)
    variables = {"MCP_LAUNCH_START": "now", "MCP_LAUNCH_ON_CHANGE": "refuse"}

    words = ["--server", "docs", "--on-change", "restart", "--env", "A=host", "--dotenv", "x"]
    wanted = profile.load([*words, "--", "other", "-y"], dict(os.environ) | variables)

    assert wanted.command == ["other", "-y"]
    assert (wanted.start, wanted.on_change, wanted.when_unknown) == ("now", "restart", "fail")
    assert wanted.env["A"].source == "host"
    assert wanted.literals == {}
    assert wanted.dotenv == [".env", "~/.env", "x"]
    environ = {**os.environ, "MCP_LAUNCH_STRICT": "0"}  # which says no
    wanted = profile.load(["--server", "docs", "--set", "A=a", "--set", "KEY=k"], environ)
    assert (wanted.strict, wanted.no_meta) == (False, True)
    assert wanted.literals == {"A": "a", "KEY": "k"}
    assert "KEY" not in wanted.env


DEFAULTS = """
[defaults]
pass_env = "safe"
start = "now"
strict = true
dotenv = "all.env"
env = { A = "all", B = "all", C = "all" }
env_vars = [{ name = "D", source = "host" }]

[servers.it]
start = "called"
strict = false
dotenv = "it.env"
env = { B = "it", D = "it" }
env_vars = [{ name = "C", source = "cwd" }]
"""


def test_defaults_apply_to_every_server(user_file: Path) -> None:
    write(user_file, DEFAULTS)

    for words in ([], ["--server", "other"]):
        wanted = profile.load([*words, "--", "x"], os.environ)
        assert (wanted.pass_env, wanted.start, wanted.strict) == (["safe"], "now", True)
        assert wanted.literals == {"A": "all", "B": "all", "C": "all"}
        assert (wanted.env["D"].source, wanted.dotenv) == ("host", ["all.env"])


def test_a_servers_own_table_goes_before_them(user_file: Path) -> None:
    write(user_file, DEFAULTS)

    wanted = profile.load(["--server", "it", "--", "x"], os.environ)

    assert (wanted.pass_env, wanted.start, wanted.strict) == (["safe"], "called", False)
    assert wanted.literals == {"A": "all", "B": "it", "D": "it"}
    assert {name: one.source for name, one in wanted.env.items()} == {"C": "cwd"}
    assert wanted.dotenv == ["all.env", "it.env"]


def test_defaults_are_no_profile_of_a_server(user_file: Path) -> None:
    write(user_file, DEFAULTS)

    with pytest.raises(UsageError, match="no profile defines the server other"):
        profile.load(["--server", "other"], os.environ)
    with pytest.raises(UsageError, match="the profile of it has no command"):
        profile.load(["--server", "it"], os.environ)
    with pytest.raises(UsageError) as refused:
        profile.load(["--server", "itt"], os.environ)
    assert "did you mean it?" in refused.value.fix


@pytest.mark.parametrize(
    ("words", "variables", "origin"),
    [
        ([], {}, "the profile"),
        ([], {"MCP_LAUNCH_CWD": "/"}, "MCP_LAUNCH_CWD"),
        (["--cwd", "/"], {"MCP_LAUNCH_CWD": "/"}, "--cwd"),
    ],
    ids=["a profile", "a variable", "an option"],
)
def test_the_servers_directory_is_reported_with_the_place_that_names_it(
    user_file: Path, words: list[str], variables: dict[str, str], origin: str
) -> None:
    write(user_file, "[servers.it]\ncwd = '/'\n")
    environ = {"HOME": str(user_file.parents[2]), **variables}
    wanted = profile.load(["--server", "it", *words, "--", "x"], environ)

    decided = plan.decide(wanted, make_context(), environ, plan.Dotenv({}, ""))

    assert (decided.cwd.value, decided.cwd.origin) == ("/", origin)


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


@pytest.mark.parametrize("how", ["required = false", 'default = "none"'])
def test_what_was_left_out_is_brought_by_a_call(how: str) -> None:
    decided = decide(f'env_vars = [{{ name = "A", source = "thread", {how} }}]\n', {})

    assert decided.held.find_wrong(None, "t-1") == "requested"


def test_what_every_server_gets_is_not_lost_by_asking_for_it() -> None:
    decided = decide('env_vars = ["CODEX_THREAD_ID"]\n', {}, thread=Found("t-1", "a test"))

    assert decided.environ["CODEX_THREAD_ID"] == "t-1"


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


def test_a_safe_environment_has_the_secrets_that_the_host_does_not_have() -> None:
    """They are from the `env` of its entry, which the user wrote."""
    assert select('"safe"', **ENVIRON) == ENVIRON.keys() - SECRETS
    host = {"ANTHROPIC_API_KEY": "another", "CLAUDE_CODE_MESSAGING_TOKEN": "secret"}

    assert SECRETS - select('"safe"', **host) == {"CLAUDE_CODE_MESSAGING_TOKEN"}


def test_a_secret_is_withheld_if_the_host_cannot_be_looked_at() -> None:
    decided = decide('pass_env = "safe"\n', ENVIRON, host_environ={})

    assert decided.kept_back == dict.fromkeys(SECRETS, "the environment of Codex cannot be read")
    asked = 'pass_env = "safe"\nenv_vars = [{ name = "KEY", from = "ANTHROPIC_API_KEY" }]\n'
    assert decide(asked, ENVIRON, host_environ={}).environ["KEY"] == "secret"


def test_a_named_environment_has_what_was_named_and_the_basics() -> None:
    assert select('["AWS_*"]') == {"PATH", "HOME", "LC_TIME", "AWS_REGION"}
    assert select("[]") == {"PATH", "HOME", "LC_TIME"}
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


def test_a_slip_in_what_is_passed_on_is_reported() -> None:
    with pytest.raises(UsageError) as refused:
        profile.load(["--pass-env", "saef", "cat"], {"HOME": "/nowhere"})

    assert "did you mean safe?" in refused.value.fix
