"""What the user wants for a server: the options of `run`, or their twins in the environment.

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

Start an MCP server in its session's directory, with its session's identity, and leave
nothing behind. Everything from COMMAND on belongs to the server.

  --server NAME       the server's name in messages and leases (default: COMMAND)
  --env NAME=SOURCE   give the server a variable; SOURCE is one of thread, session,
                      project_root, cwd, host, host_pid, launch, local, dotenv
  --dotenv FILE       read this file: all of it, or what --env NAME=dotenv names
  --cwd WHERE         session (default), project_root, keep, or a directory
  --stdout MODE       what is no JSON on the server's stdout: auto (default) moves it to
                      stderr, strict ends the launch, off lets it pass
  --on-change ACTION  when a call is of another session than the server's: follow (it gets
                      the call), restart (a fresh server gets it), refuse (nobody does);
                      by default what suits the host
  --when-unknown WHAT what an identity that is asked for holds until a call tells it:
                      placeholder (default, the launch's own id), or fail
  --restart WHEN      on (default): a server that dies is replaced; off: the launch ends
  --no-meta           leave the calls' _meta alone
  --strict            refuse a launch whose lineage cannot be verified, or whose thread
                      is only a guess
  --direct            let the server talk to the host itself: no byte passes through us
  --trace             tell every decision on stderr

Each option has a twin in the environment: MCP_LAUNCH_CWD, MCP_LAUNCH_STRICT=1, ...
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
_SPELLINGS = {"thread_id": "thread", "session_id": "session"}

# What an option takes; the first is its default.
_CHOICES = {
    "--stdout": ("auto", "strict", "off"),
    "--on-change": ("", "follow", "restart", "refuse"),
    "--when-unknown": ("placeholder", "fail"),
    "--restart": ("on", "off"),
}
_TAKE_A_VALUE = ("--server", "--env", "--dotenv", "--cwd", *_CHOICES)
_SWITCHES = ("--strict", "--direct", "--no-meta", "--trace")
_MAY_REPEAT = ("--env", "--dotenv")
_YES = ("1", "true", "yes", "on")
_NO = ("", "0", "false", "no", "off")

# The twins of one launch must not reach a launch below it (a host that is itself a
# server hands its whole environment on). These two are for every launch.
SHARED_TWINS = ("MCP_LAUNCH_TRACE", "MCP_LAUNCH_HOME")


class Profile:
    """What the user wants, every value checked."""

    __slots__ = (
        "command",
        "cwd",
        "direct",
        "dotenv",
        "env",
        "no_meta",
        "on_change",
        "restart",
        "server",
        "stdout",
        "strict",
        "when_unknown",
    )

    def __init__(self, values: Mapping[str, list[str]], command: list[str]) -> None:
        self.command = command
        self.server = _last(values, "--server") or command[0].rpartition("/")[2]
        self.env = dict(_split_variable(text) for text in values.get("--env", []))
        self.dotenv = list(values.get("--dotenv", []))
        self.cwd = _last(values, "--cwd") or "session"
        self.stdout = _choose(values, "--stdout")
        self.on_change = _choose(values, "--on-change")
        self.when_unknown = _choose(values, "--when-unknown")
        self.restart = _choose(values, "--restart")
        self.strict = "--strict" in values
        self.direct = "--direct" in values
        self.no_meta = "--no-meta" in values


def load(arguments: list[str], environ: Mapping[str, str]) -> Profile:
    """Return the profile that the words after `run` and the environment ask for.

    Raises:
        UsageError: A word makes no sense; the text says which and what would.

    """
    given, command = _split(arguments)
    if not command:
        raise UsageError(
            "no server command was given",
            fix="write the command after the options: mcp-launch run -- npx -y some-server",
        )
    values = _read_twins(environ)
    for name, texts in given.items():
        # Both count where several may be given; of one name, the option's is the last.
        values[name] = [*values.get(name, []), *texts] if name in _MAY_REPEAT else texts
    return Profile(values, command)


def list_own_words(arguments: list[str]) -> list[str]:
    """Return the words before the server's command, whether they make sense or not."""
    own: list[str] = []
    for word in arguments:
        is_value = bool(own) and own[-1] in _TAKE_A_VALUE
        if word == "--" or not (word.startswith("-") or is_value):
            break
        own.append(word)
    return own


def is_traced(arguments: list[str], environ: Mapping[str, str]) -> bool:
    """Tell whether to trace, even when the rest makes no sense."""
    is_on = environ.get("MCP_LAUNCH_TRACE", "").lower() in _YES
    return is_on or "--trace" in list_own_words(arguments)


def is_own_variable(name: str) -> bool:
    """Tell whether a variable is meant for this launch, and for nobody below it."""
    return name.startswith("MCP_LAUNCH_") and name not in SHARED_TWINS


def _split(arguments: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    values: dict[str, list[str]] = {}
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name in _SWITCHES and not equals:
            values[name] = []
        elif name in _TAKE_A_VALUE:
            value = _take_value(name, [value] if equals else rest)
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
    if name in values and name not in _MAY_REPEAT:
        raise UsageError(f"{name} was given twice", fix=f"keep one {name}")
    values.setdefault(name, []).append(value)


def _unknown_option(word: str) -> UsageError:
    name = word.partition("=")[0]
    if name in _SWITCHES:
        return UsageError(f"{name} takes no value", fix=f"write {name} alone")
    near = suggest(name, (*_TAKE_A_VALUE, *_SWITCHES))
    return UsageError(
        f"unknown option {name}",
        fix=f"{near}options of the server go after its command: mcp-launch run -- COMMAND {name}",
    )


def _read_twins(environ: Mapping[str, str]) -> dict[str, list[str]]:
    values: dict[str, list[str]] = {}
    for option in (*_TAKE_A_VALUE, *_SWITCHES):
        twin = _name_twin(option)
        text = environ.get(twin, "")
        if option in _SWITCHES and text.lower() not in (*_YES, *_NO):
            raise UsageError(
                f"{twin}={text}: neither yes nor no", fix=f"write {twin}=1 or {twin}=0"
            )
        if option in _MAY_REPEAT:
            values[option] = [part for part in text.split(",") if part]
        elif text and text.lower() not in (_NO if option in _SWITCHES else ()):
            values[option] = [text]
    return values


def _name_twin(option: str) -> str:
    return f"MCP_LAUNCH_{option[2:].replace('-', '_').upper()}"


def _last(values: Mapping[str, list[str]], name: str) -> str:
    return values[name][-1] if values.get(name) else ""


def _split_variable(text: str) -> tuple[str, str]:
    # What stands behind "=" is not repeated: somebody may have put a secret there.
    name, equals, source = text.strip().partition("=")
    if not equals or not name or not name.replace("_", "a").isalnum() or name[0].isdigit():
        raise UsageError(
            f"a variable (--env, MCP_LAUNCH_ENV) is not NAME=SOURCE: {name}",
            fix="write for example --env CODEX_THREAD_ID=thread",
        )
    source = _SPELLINGS.get(source, source)
    if source not in SOURCES:
        raise UsageError(
            f"the variable {name} (--env, MCP_LAUNCH_ENV) asks for a source that does not exist",
            fix=f"{suggest(source, SOURCES)}the sources are {', '.join(SOURCES)}; "
            "a fixed value belongs into the `env` of the host's own entry",
        )
    return name, source


def _choose(values: Mapping[str, list[str]], option: str) -> str:
    known = _CHOICES[option]
    word = _last(values, option) or known[0]
    if word not in known:
        choices = [choice for choice in known if choice]
        raise UsageError(
            f"{option} (or {_name_twin(option)}) does not take {word}",
            fix=f"{suggest(word, choices)}it takes {', '.join(choices)}",
        )
    return word
