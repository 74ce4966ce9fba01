"""The options of `run`, and the environment variables that can replace them.

Parsed by hand: importing an argument parser would take as long as the rest of the launch, and
it must not touch what belongs to the server (everything from its command on).
"""

from __future__ import annotations

from itertools import pairwise

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
                      COMMAND), and in ~/.config/mcp-launch/config.toml
  --env NAME=SOURCE   set a variable for the server; SOURCE is one of thread,
                      session, project_root, cwd, host, host_pid, launch, local,
                      dotenv
  --set NAME=VALUE    give the server a variable with this value
  --dotenv FILE       read variables from this file: all of them, or only those
                      named by --env NAME=dotenv
  --pass-env WHICH    what the server inherits: all (default), safe (all but the
                      hosts' own secrets), or NAMES,AND*,PATTERNS
  --cwd WHERE         session (default), project_root, keep, or a directory
  --on-change ACTION  when a call comes from another session than the server's:
                      auto (default: isolate if --env asks for a session or
                      thread, else follow), follow (the server gets it), restart
                      (a new server gets it), isolate (each session gets a
                      server of its own), refuse (it gets an error)
  --max-servers N     with isolate, the most servers that one connection may
                      have (1 to 64, default: 8); beyond that, the one idle
                      longest is ended
  --share WHAT        which sessions share one server: off (default: none),
                      project (those of one project). Only for a server that
                      keeps no state per client
  --on-failure WHAT   what the host gets if the server cannot be started: error
                      (an error answer), tool (a server with one tool that gives
                      the reason); the default depends on the host
  --when-unknown WHAT the value of a requested session or thread that is not yet
                      known: placeholder (default: the launch's own id, until a
                      call names it), or fail
  --start WHEN        when the server is started: now, known (default: at once,
                      unless its session is only a guess and its answers are
                      remembered), called (by the first call)
  --rest TIME         end the server after this time without a call (90s, 10m,
                      2h; default: off); the next call starts it again. A server
                      that keeps state in memory loses it
  --rest-anyway       let it rest even if it shows signs of state
  --call-timeout TIME end a call without an answer or progress after this time
                      (90s, 10m, 2h; default: off): the server is told, and the
                      host gets an error
  --max-concurrent N  the most calls that the server works on at the same time
                      (1 to 1000; default: any number); others wait for their
                      turn, one session after the other
  --restart WHEN      when the server dies: on (default) starts a new one, off
                      ends the launch
  --runner WHAT       what to do with a command such as npx -y PACKAGE: auto
                      (default) starts the installed program without npx, if it
                      is certain which one npx would start; keep starts npx
  --no-meta           do not add to the _meta of calls
  --no-log            keep no log of this launch (see mcp-launch logs)
  --no-record         do not record the calls (see mcp-launch calls)
  --record-arguments  record the arguments of calls, too, with secrets masked
  --strict            refuse a launch whose lineage cannot be verified, whose
                      thread is only a guess, or whose directory is / or a home
                      that was not named with --cwd
  --direct            connect the server to the host itself: no byte passes
                      through mcp-launch
  --trace             print every decision to stderr

Each option can be set by a variable: MCP_LAUNCH_CWD, MCP_LAUNCH_STRICT=1...
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

# The values that an option accepts; the first is its default.
CHOICES = {
    "--on-change": ("auto", "follow", "restart", "isolate", "refuse"),
    "--share": ("off", "project"),
    "--on-failure": ("", "error", "tool"),
    "--when-unknown": ("placeholder", "fail"),
    "--start": ("known", "now", "called"),
    "--restart": ("on", "off"),
    "--runner": ("auto", "keep"),
}
TAKE_A_VALUE = (
    *("--server", "--env", "--set", "--dotenv", "--pass-env", "--cwd", "--rest"),
    *("--max-servers", "--call-timeout", "--max-concurrent"),
    *CHOICES,
)
SWITCHES = (
    *("--strict", "--direct", "--rest-anyway", "--no-meta", "--no-log", "--trace"),
    *("--no-record", "--record-arguments"),
)
MAY_REPEAT = ("--env", "--set", "--dotenv")

# How many servers one connection may have under `--on-change isolate`. Each is a whole process
# tree: eight is more than most people have open at once, and 64 is what a machine may survive.
MAX_SERVERS = "8"
ALLOWED_SERVERS = range(1, 65)

# How many calls a server may work on at the same time.
ALLOWED_CALLS = range(1, 1001)

# The units of a time, in seconds.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")

# The variables of one launch must not reach a launch below it (a host that is itself a server
# passes on its whole environment). These two are meant for every launch.
SHARED_VARIABLES = ("MCP_LAUNCH_TRACE", "MCP_LAUNCH_HOME")


def list_own_words(arguments: list[str]) -> list[str]:
    """Return the arguments before the server's command, valid or not."""
    own: list[str] = []
    for word in arguments:
        is_value = bool(own) and own[-1] in TAKE_A_VALUE
        if word == "--" or not (word.startswith("-") or is_value):
            break
        own.append(word)
    return own


def is_on(switch: str, arguments: list[str], environ: Mapping[str, str]) -> bool:
    """Return whether a switch is given, even if the other arguments are invalid."""
    is_given = environ.get(name_variable(switch), "").lower() in _YES
    return is_given or switch in list_own_words(arguments)


def peek(option: str, arguments: list[str], environ: Mapping[str, str]) -> str:
    """Return the word that is given for an option, even if the other arguments are invalid.

    Empty if there is none, or one that the option does not take.
    """
    own = list_own_words(arguments)
    given = [word[len(option) + 1 :] for word in own if word.startswith(f"{option}=")]
    given += [word for before, word in pairwise(own) if before == option]
    word = given[0] if given else environ.get(name_variable(option), "")
    return word if word in CHOICES[option] else ""


def is_own_variable(name: str) -> bool:
    """Return whether a variable is meant for this launch only, not for one below it."""
    return name.startswith("MCP_LAUNCH_") and name not in SHARED_VARIABLES


def split(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options with their values, and the server's command.

    Raises:
        UsageError: An option is unknown, lacks its value, or is given twice.

    """
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
            # Joined with "=", a value may look like anything, an option included.
            value = value if equals and value else _take_value(name, [] if equals else rest)
            _add(values, name, value)
        else:
            raise _unknown_option(word)
    return values, rest


def _take_value(name: str, rest: list[str]) -> str:
    if not rest or rest[0] in {"--", ""}:
        choices = [choice for choice in CHOICES.get(name, ()) if choice]
        known = f"its values are {', '.join(choices)}; " if choices else ""
        error = UsageError(
            f"{name} needs a value",
            fix=f"{known}write {name} VALUE before the server's command (mcp-launch run --help)",
        )
        error.suggestion = known
        raise error
    return rest.pop(0)


def _add(values: dict[str, list[str]], name: str, value: str) -> None:
    if name in values and name not in MAY_REPEAT:
        raise UsageError(f"{name} was given twice", fix=f"remove one {name}")
    values.setdefault(name, []).append(value)


def _unknown_option(word: str) -> UsageError:
    name = word.partition("=")[0]
    if name in SWITCHES:
        return UsageError(f"{name} takes no value", fix=f"write {name} without a value")
    near = suggest(name, (*TAKE_A_VALUE, *SWITCHES))
    error = UsageError(
        f"unknown option {name}",
        fix=f"{near}put the server's options after its command: mcp-launch run -- COMMAND {name}",
    )
    error.suggestion = near
    return error


def read_time(text: str) -> float | None:
    """Return the seconds of a time such as `90s`; 0 for `off`, None if it is not a time."""
    if text == "off":
        return 0.0
    number, unit = text[:-1], text[-1:]
    if not number.isascii() or not number.isdigit() or unit not in _UNITS:
        return None
    return float(number) * _UNITS[unit] or None


def split_variable(text: str) -> tuple[str, str]:
    """Return the name and the source in `--env`.

    Raises:
        UsageError: It is not NAME=SOURCE. The text after "=" is not repeated: it may be a secret.

    """
    name, equals, source = text.strip().partition("=")
    if not equals or not _is_name(name):
        raise UsageError(
            f"a variable (--env, MCP_LAUNCH_ENV) is not NAME=SOURCE: {name}",
            fix="write for example --env CODEX_THREAD_ID=thread",
        )
    if source not in SOURCES:
        raise UsageError(
            f"the variable {name} (--env, MCP_LAUNCH_ENV) asks for a source that does not exist",
            fix=f"{suggest(source, SOURCES)}the sources are {', '.join(SOURCES)}; "
            f"for a fixed value write --set {name}=VALUE",
        )
    return name, source


def split_fixed(text: str) -> tuple[str, str]:
    """Return the name and the value in `--set`.

    Raises:
        UsageError: It is not NAME=VALUE, or the name is ours. The value is not repeated.

    """
    name, equals, value = text.partition("=")
    if not equals or not _is_name(name):
        raise UsageError(
            "a variable (--set, MCP_LAUNCH_SET) is not NAME=VALUE" + f": {name}" * bool(equals),
            fix="write for example --set LOG_LEVEL=debug",
        )
    if is_own_variable(name) or name in SHARED_VARIABLES:
        raise UsageError(
            f"{name} (--set, MCP_LAUNCH_SET) is reserved for mcp-launch",
            fix="choose another name, or use the option itself (mcp-launch run --help)",
        )
    return name, value


def _is_name(name: str) -> bool:
    return name.replace("_", "a").isalnum() and not name[0].isdigit()


def split_passed(text: str) -> list[str]:
    """Return the names and patterns in `--pass-env`."""
    # A misspelt word would count as a variable name, and the server would get almost nothing.
    is_word = text not in {"all", "safe"} and text.islower()
    if is_word and (near := suggest(text, ("all", "safe"))):
        raise UsageError(
            f"--pass-env (or MCP_LAUNCH_PASS_ENV) does not take {text}",
            fix=f"{near}write all, safe, or names of variables",
        )
    return text.split(",")


def read_limit(option: str, text: str) -> float:
    """Return the time that an option names, in seconds; 0: no limit.

    Raises:
        UsageError: It is not a time.

    """
    seconds = read_time(text)
    if seconds is None:
        raise UsageError(
            f"{option} (or {name_variable(option)}) does not take {text}",
            fix="write a time such as 90s, 10m or 2h, or off",
        )
    return seconds


def read_number(option: str, text: str, allowed: range) -> int:
    """Return the number that an option names.

    Raises:
        UsageError: It is not a number, or not an allowed one.

    """
    if text not in map(str, allowed):
        raise UsageError(
            f"{option} (or {name_variable(option)}) does not take {text}",
            fix=f"write a number from {allowed[0]} to {allowed[-1]}",
        )
    return int(text)


def read_variables(environ: Mapping[str, str]) -> dict[str, list[str] | None]:
    """Return the options that the environment sets; None for a switch that it turns off.

    Raises:
        UsageError: The variable of a switch is neither a yes nor a no.

    """
    values: dict[str, list[str] | None] = {}
    for option in (*TAKE_A_VALUE, *SWITCHES):
        variable = name_variable(option)
        text = environ.get(variable, "")
        if option in SWITCHES and text.lower() not in (*_YES, *_NO):
            raise UsageError(
                f"{variable}={text}: neither yes nor no",
                fix=f"write {variable}=1 or {variable}=0",
            )
        if option == "--set":
            values[option] = [text] if text else []  # just one: its value may have a comma
        elif option in MAY_REPEAT:
            values[option] = [part for part in text.split(",") if part]
        elif text and option in SWITCHES and text.lower() in _NO:
            values[option] = None
        elif text:
            values[option] = [text]
    return values


def name_variable(option: str) -> str:
    """Return the name of the variable that sets an option."""
    return f"MCP_LAUNCH_{option[2:].replace('-', '_').upper()}"
