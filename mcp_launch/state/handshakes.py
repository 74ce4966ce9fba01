"""Handshakes on disk: what a server told a client, so that the next host need not wait for it.

One file for each server and kind of client, in the directory `handshakes`. Its first line is a
header, each other line is one answer as the server gave it. Files are replaced as a whole, so any
number of launches may read and write them at once.

The name of a file is made of two digests. The first covers everything that decides which server
this is and what it sees: the user, the command, the program's files, the environment without what
belongs to a session, and the directory. The second covers the client. What must not be kept is
decided in `runtime.private_values`.
"""

from __future__ import annotations

import os
import time
from stat import S_ISREG

from mcp_launch import state
from mcp_launch.protocol import json_text
from mcp_launch.protocol.memory import Remembered
from mcp_launch.state import digest
from mcp_launch.state.handshake_files import AGE_LIMIT, find_directory, read_age

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.protocol.json_text import Json
    from mcp_launch.system.spawn import ServerPlan

# The version of this format, and of what the digests cover; others are ignored.
_FORMAT = 2

# Larger answers are not kept.
_SIZE_LIMIT = 2 << 20

# No server uses as many bytes of memory; a larger number was not written by us.
_MEMORY_LIMIT = 1 << 50

# After this time, a memory is compared with the server for hosts that ignore changed lists.
_DUE_AFTER = 86_400.0

# Variables that differ between terminals, logins or sessions, and say nothing about a server.
_NAMES = """
_ COLORFGBG COLORTERM COLUMNS DBUS_SESSION_BUS_ADDRESS DESKTOP_STARTUP_ID DISPLAY GPG_TTY
FNM_MULTISHELL_PATH INVOCATION_ID JOURNAL_STREAM LC_TERMINAL LC_TERMINAL_VERSION LINES MANAGERPID
KITTY_PUBLIC_KEY OLDPWD PWD SECURITYSESSIONID SHELL_SESSION_ID SHLVL SSH_AGENT_PID SSH_AUTH_SOCK
SSH_CLIENT SSH_CONNECTION SSH_TTY STARSHIP_SESSION_KEY STY SYSTEMD_EXEC_PID TERM TERM_PROGRAM
TERM_PROGRAM_VERSION TERM_SESSION_ID TMUX TMUX_PANE TRACEPARENT TRACESTATE TTY VTE_VERSION
WAYLAND_DISPLAY WINDOW WINDOWID WSL_INTEROP WT_PROFILE_ID WT_SESSION XAUTHORITY
XDG_ACTIVATION_TOKEN __MISE_SESSION
"""
# The same by their beginnings, but for secrets: a server may well be given one of these.
_PREFIXES = """
ALACRITTY_ ATUIN_ BYOBU_ DIRENV_ GHOSTTY_ GNOME_TERMINAL_ ITERM_ KITTY_ KONSOLE_ MCP_LAUNCH_ P9K_
STARSHIP_ TERMINATOR_ TILIX_ VSCODE_ WARP_ WEZTERM_ XDG_SEAT XDG_SESSION ZELLIJ _P9K_
"""

# How many directories above a file may hold the `package.json` that names its version.
_PACKAGE_DEPTH = 5

# Parts of the names of variables that hold secrets. Rather one too many: what is not kept only
# costs time.
_SECRET = [
    "key",
    "token",
    "secret",
    "passw",
    "credential",
    "cookie",
    "dsn",
    "auth",
    "bearer",
    "jwt",
    "_pat",
    "_pw",
    "_pass",
]

# Files that are programs by their suffixes, or by their first bytes: scripts, programs of Linux
# and macOS, WebAssembly. Permissions say nothing: on some file systems everything is executable.
_SUFFIXES = (
    *(".py", ".pyw", ".pyz", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"),
    *(".rb", ".php", ".phar", ".pl", ".lua", ".r", ".sh", ".bash", ".zsh", ".fish", ".ps1"),
    *(".jar", ".kts", ".groovy", ".clj", ".ex", ".exs", ".go", ".dll", ".exe", ".wasm"),
)
_BEGINNINGS = (
    *(b"#!", b"\x7fELF", b"\xca\xfe\xba\xbe", b"\xcf\xfa\xed\xfe", b"\xce\xfa\xed\xfe"),
    b"\0asm",
)


def name_server(argv: list[str], program: str, cwd: str, environ: Mapping[str, str]) -> str:
    """Return the part of a file's name that tells servers apart.

    `environ` is without what a host or a launch adds for one session.
    """
    variables = [f"{name}={value}" for name, value in _drop_unrelated(environ).items()]
    # The directory is empty if it was deleted.
    place = os.path.realpath(cwd) if cwd else ""
    facts = [_FORMAT, os.geteuid(), argv, place, variables]
    facts.append([_describe_file(file) for file in _list_files(argv, program, cwd)])
    return digest(json_text.encode(facts).encode())[:32]


def _drop_unrelated(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that say something about a server, in order."""
    unrelated, prefixes = _NAMES.split(), tuple(_PREFIXES.split())
    return {
        name: value
        for name, value in sorted(environ.items())
        if name not in unrelated and not (name.startswith(prefixes) and _is_of_terminal(name))
    }


def _list_files(argv: list[str], program: str, cwd: str) -> list[str]:
    """Return the files that make up the program, as far as its command shows them.

    Data is left out: a server writes to its database, and would never be remembered. If data
    decides what the server offers, the comparison with the started server shows it.
    """
    files = [os.path.realpath(program)]
    for word in argv[1:]:
        # `--import=FILE` names a file, too.
        path = os.path.join(cwd, word.rpartition("=")[2] if word.startswith("-") else word)
        if os.path.isabs(path) and _is_program(path):
            files.append(os.path.realpath(path))
    packages = [package for file in files if (package := _find_package(file))]
    return files + packages


def _is_program(path: str) -> bool:
    try:
        if not S_ISREG(os.stat(path).st_mode):
            return False
        if path.lower().endswith(_SUFFIXES):
            return True
        with open(path, "rb", buffering=0) as file:
            return file.read(4).startswith(_BEGINNINGS)
    except (OSError, ValueError):
        return False


def _find_package(file: str) -> str:
    """Return the `package.json` that belongs to a script: it changes with the version."""
    if "/node_modules/" not in file:
        return ""
    directory = os.path.dirname(file)
    for _ in range(_PACKAGE_DEPTH):
        if os.path.exists(f"{directory}/package.json"):
            return f"{directory}/package.json"
        directory = os.path.dirname(directory)
    return ""


def _describe_file(path: str) -> list[object]:
    try:
        status = os.stat(path)
    except OSError:
        return [path]
    return [path, status.st_size, status.st_mtime_ns, status.st_ino]


class Handshakes:
    """The files of one server."""

    __slots__ = ("_directory", "_profile", "_server", "variables")

    def __init__(
        self,
        environ: Mapping[str, str],
        server: str,
        profile: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = find_directory(environ)
        self._server = server
        self._profile = profile  # the server's name in profiles, for the doctor
        self.variables = variables or {}  # that the server's part of the name covers

    def has_any(self) -> bool:
        """Return whether anything is known of this server."""
        try:
            return any(name.startswith(self._server) for name in os.listdir(self._directory))
        except OSError:
            return False  # nothing was kept yet

    def _name(self, client: str) -> str:
        return f"{self._directory}/{self._server}-{digest(client.encode())[:16]}.jsonl"

    def read(self, client: str, now: float) -> Remembered | None:
        """Return what is known for a kind of client; `now` is the time by the caller's clock."""
        kept = read_file(self._name(client), now)
        return kept[1] if kept is not None and kept[1].client == client else None

    def claim_check(self, client: str) -> None:
        """Note that this memory is being compared with its server, so that only one launch does."""
        try:
            os.utime(self._name(client))
        except OSError:
            pass  # it was removed, or is not ours to change

    def write(self, memory: Remembered, now: float) -> None:
        """Keep a memory, unless it is too large; `now` as in `read`."""
        body = b"\n".join(memory.answers.values())
        questions = [[method, cursor.decode()] for method, cursor in memory.answers]
        header: dict[str, object] = {
            "format": _FORMAT,
            "client": memory.client,
            "server": self._profile,
            "written": time.time() - (now - memory.written),
            "memory": memory.size_of_server,
            "answers": questions,
            "digest": digest(body),
        }
        content = b"%b\n%b\n" % (json_text.encode(header).encode(), body)
        if len(content) > _SIZE_LIMIT:
            state.note("the handshake is not kept: it is too large")
        else:
            try:
                state.make_private(self._directory)
                state.write_whole(self._name(memory.client), content)
            except OSError as error:
                state.note(f"the handshake is not kept: {error.strerror}")

    def forget(self, client: str) -> None:
        """Remove what is known for a kind of client."""
        state.remove(self._name(client))


def read_file(path: str, now: float) -> tuple[str, Remembered] | None:
    """Return the memory in a file, with the server's name in profiles (empty if it has none)."""
    content = state.read(path)
    if content is None:
        return None
    first, *lines = content.split(b"\n")[:-1] or [b""]
    header = _parse_header(first)
    client, server = header.get("client"), header.get("server")
    written, questions = header.get("written"), header.get("answers")
    is_known = header.get("format") == _FORMAT and isinstance(client, str)
    if not is_known or not isinstance(written, float):
        return None
    if not isinstance(questions, list) or len(questions) != len(lines):
        return None  # another program has changed it
    if header.get("digest") != digest(b"\n".join(lines)):
        return None
    answers: dict[tuple[str, bytes], bytes] = {}
    for question, line in zip(questions, lines, strict=True):
        match question:
            case [str(method), str(cursor)]:
                answers[method, cursor.encode()] = line
    age = time.time() - written
    if not 0 <= age < AGE_LIMIT:
        return None
    memory = Remembered(str(client), now - age, answers)
    size = header.get("memory")
    is_size = isinstance(size, int) and 0 < size < _MEMORY_LIMIT
    memory.size_of_server = size if is_size else 0  # type: ignore[assignment]  # it is one
    memory.is_due = _is_old(path)
    return server if isinstance(server, str) else "", memory


def _parse_header(line: bytes) -> dict[str, Json]:
    try:
        header = json_text.parse(line)
    except (ValueError, RecursionError):
        return {}
    return header if isinstance(header, dict) else {}


def open_for(
    plan: ServerPlan, seen: Mapping[str, str], environ: Mapping[str, str], profile: str = ""
) -> Handshakes:
    """Return the files of the server that a plan starts.

    `seen` is the server's environment without what is only for one session, `profile` its name
    in profiles, which only what is written needs.
    """
    server = name_server(plan.argv, plan.program, plan.cwd.value, seen)
    return Handshakes(environ, server, profile, _drop_unrelated(seen))


def _is_of_terminal(name: str) -> bool:
    """Return whether a variable that begins like those of a terminal is one of them."""
    return name.endswith("_PATH") or not is_secret(name)


def is_secret(name: str) -> bool:
    """Return whether a variable with this name may hold a secret."""
    return any(part in name.lower() for part in _SECRET)


def _is_old(path: str) -> bool:
    return read_age(path) > _DUE_AFTER
