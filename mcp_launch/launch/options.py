"""The words after `run`, and their twins in the environment.

Read by hand: an argument parser would cost as much as the rest of the launch, and
must not touch what belongs to the server (everything from its command on).
"""

from __future__ import annotations

from mcp_launch.errors import UsageError, suggest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

USAGE = """\
Usage: mcp-launch run [OPTIONS] [--] COMMAND [ARGS...]
       mcp-launch run --server NAME [OPTIONS]

Start an MCP server in its session's directory, with its session's identity, and
leave nothing behind. Everything from COMMAND on belongs to the server.

  --server NAME       the server's name in messages and leases (default:
                      COMMAND), and in profiles: .mcp-launch.toml,
                      ~/.config/mcp-launch/config.toml
  --env NAME=SOURCE   give the server a variable; SOURCE is one of thread,
                      session, project_root, cwd, host, host_pid, launch, local,
                      dotenv
  --dotenv FILE       read this file: all of it, or what --env NAME=dotenv names
  --pass-env WHICH    what the server inherits: all (default), safe (all but the
                      hosts' own secrets), or NAMES,AND*,PATTERNS
  --cwd WHERE         session (default), project_root, keep, or a directory
  --stdout MODE       lines on the server's stdout that are not JSON: auto (default)
                      moves it to stderr, strict ends the launch, off lets it
                      pass
  --on-change ACTION  when a call is of another session than the server's:
                      follow (it gets the call), restart (a fresh server gets
                      it), refuse (nobody does); by default what suits the host
  --when-unknown WHAT what an identity that is asked for and not known holds,
                      until a call names it: placeholder (default, the launch's
                      own id), or fail
  --restart WHEN      on (default): a server that dies is replaced; off: the
                      launch ends
  --no-meta           leave the calls' _meta alone
  --no-log            keep no log of this launch (see mcp-launch logs)
  --strict            refuse a launch whose lineage cannot be verified, whose
                      thread is only a guess, or whose directory is / or a home
                      that was not named with --cwd
  --direct            let the server talk to the host itself: no byte passes
                      through us
  --trace             tell every decision on stderr

Each option has a twin in the environment: MCP_LAUNCH_CWD, MCP_LAUNCH_STRICT=1...
"""

SOURCES = (
    "thread",
    "session",
    "project_root",
    "cwd",
    "host",
    "host_pid",
    "launch",
    "local",
    "dotenv",
)
SPELLINGS = {"thread_id": "thread", "session_id": "session"}

# What an option takes; the first is its default.
CHOICES = {
    "--stdout": ("auto", "strict", "off"),
    "--on-change": ("", "follow", "restart", "refuse"),
    "--when-unknown": ("placeholder", "fail"),
    "--restart": ("on", "off"),
}
TAKE_A_VALUE = ("--server", "--env", "--dotenv", "--pass-env", "--cwd", *CHOICES)
SWITCHES = ("--strict", "--direct", "--no-meta", "--no-log", "--trace")
MAY_REPEAT = ("--env", "--dotenv")
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")

# The twins of one launch must not reach a launch below it (a host that is itself a
# server hands its whole environment on). These two are for every launch.
SHARED_TWINS = ("MCP_LAUNCH_TRACE", "MCP_LAUNCH_HOME")


def list_own_words(arguments: list[str]) -> list[str]:
    """Return the words before the server's command, whether they make sense or not."""
    own: list[str] = []
    for word in arguments:
        is_value = bool(own) and own[-1] in TAKE_A_VALUE
        if word == "--" or not (word.startswith("-") or is_value):
            break
        own.append(word)
    return own


def is_on(switch: str, arguments: list[str], environ: Mapping[str, str]) -> bool:
    """Tell whether a switch is given, even when the rest makes no sense."""
    is_given = environ.get(name_twin(switch), "").lower() in _YES
    return is_given or switch in list_own_words(arguments)


def is_own_variable(name: str) -> bool:
    """Tell whether a variable is meant for this launch, and for nobody below it."""
    return name.startswith("MCP_LAUNCH_") and name not in SHARED_TWINS


def split(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options with their values, and the server's command."""
    values: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in SWITCHES and not equals:
            values[name] = []
        elif name in TAKE_A_VALUE:
            # A value that is joined to its name may look like anything.
            value = value if equals and value else _take_value(name, [] if equals else rest)
            _add(values, name, value)
        else:
            raise _unknown_option(word)
    return values, rest


def _take_value(name: str, rest: list[str]) -> str:
    if not rest or rest[0] in {"--", ""}:
        raise UsageError(
            f"{name} needs a value",
            fix=f"write {name} VALUE before the server's command (see mcp-launch run --help)",
        )
    return rest.pop(0)


def _add(values: dict[str, list[str]], name: str, value: str) -> None:
    if name in values and name not in MAY_REPEAT:
        raise UsageError(f"{name} was given twice", fix=f"keep one {name}")
    values.setdefault(name, []).append(value)


def _unknown_option(word: str) -> UsageError:
    name = word.partition("=")[0]
    if name in SWITCHES:
        return UsageError(f"{name} takes no value", fix=f"write {name} alone")
    near = suggest(name, (*TAKE_A_VALUE, *SWITCHES))
    error = UsageError(
        f"unknown option {name}",
        fix=f"{near}options of the server go after its command: mcp-launch run -- COMMAND {name}",
    )
    error.suggestion = near
    return error


def read_twins(environ: Mapping[str, str]) -> dict[str, list[str] | None]:
    """Return the options that the environment has; None where it says no to one."""
    values: dict[str, list[str] | None] = {}
    for option in (*TAKE_A_VALUE, *SWITCHES):
        twin = name_twin(option)
        text = environ.get(twin, "")
        if option in SWITCHES and text.lower() not in (*_YES, *_NO):
            raise UsageError(
                f"{twin}={text}: neither yes nor no", fix=f"write {twin}=1 or {twin}=0"
            )
        if option in MAY_REPEAT:
            values[option] = [part for part in text.split(",") if part]
        elif text and option in SWITCHES and text.lower() in _NO:
            values[option] = None
        elif text:
            values[option] = [text]
    return values


def name_twin(option: str) -> str:
    """Return the variable that stands for an option."""
    return f"MCP_LAUNCH_{option[2:].replace('-', '_').upper()}"
