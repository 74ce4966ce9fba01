"""The script that wrapped entries start: it starts mcp-launch or, once that is gone, the server.

An entry is read by a host for months, and each server depends on what it names. So it names this
script, which stays in our state directory when the program is moved, upgraded or removed. And the
variables of an entry are meant for its server: PYTHONHOME alone keeps a console script's Python
from starting. The script's Python ignores them, and passes them on.

It is one file, so that it is replaced at once, whole. The shell runs what Python takes for a
string, and Python what follows it. `-I` is not enough: PYTHONEXECUTABLE still decides what Python
takes for its own program, and with it where it looks for its library and for packages. So the shell
hands it over under another name. `site` is left out, as it would take longer than the shell does.
"""

from __future__ import annotations

import os
import shlex
import site
import sys
from typing import NamedTuple

import mcp_launch
from mcp_launch import state
from mcp_launch.errors import FileRefused

# Entries and processes are recognised as ours by this name.
NAME = "mcp-launch"

# dash drops variables whose names are not names in a shell (`spring.datasource.url`); bash passes
# them on. With -p it reads no file and no function that a variable names.
_SHELLS = (("/bin/bash", "/bin/bash -p"), ("/bin/sh", "/bin/sh"))

_MARK = "# mcp-launch, for the entries of hosts"

_TEMPLATE = """\
#!{shell}
{mark}: starts it or, once it is gone, the server alone.
# Written by `mcp-launch wrap`, renewed by every command, removed by `mcp-launch uninstall`.
# The shell runs the first part, which is a string to Python; Python runs the rest.
''':'
if [ -x {python} ] && [ -f {package} ]; then
    if [ "${{PYTHONEXECUTABLE+set}}" ]; then
        export {handed_over}="$PYTHONEXECUTABLE"
        unset PYTHONEXECUTABLE
    fi
    exec {python} -I -S "$0" "$@"
fi
gone() {{
    printf '[mcp-launch] the mcp-launch of %s is gone, %s; ' {python} "$1" >&2
    printf 'fix: install mcp-launch again, then run: mcp-launch wrap\\n' >&2
}}
if [ "${{1-}}" != run ]; then
    gone "so there are no commands"
    exit 125
fi
shift
while [ $# -gt 0 ]; do
    case $1 in
        --) shift; break ;;
        --strict) gone "and this server has to be started by it (--strict)"; exit 125 ;;
        {switches} | --*=*) shift ;;
        -?*) shift; [ $# -eq 0 ] || shift ;;
        *) break ;;
    esac
done
if [ $# -eq 0 ]; then
    gone "and the command of this server is in a profile"
    exit 125
fi
gone "so this server runs without it"
exec "$@"
'''
import os
import sys

if {handed_over!r} in os.environ:
    os.environ["PYTHONEXECUTABLE"] = os.environ.pop({handed_over!r})
sys.executable = {executable!r}
sys.path += {path!r}
if sys.argv[1:2] != ["run"]:
    import site

    site.main()

from mcp_launch import main

sys.exit(main())
"""


class _Started(NamedTuple):
    """The installation that a script starts."""

    python: str
    package: str  # a file of it

    @property
    def is_there(self) -> bool:
        """Whether it can be started."""
        return os.access(self.python, os.X_OK) and os.path.isfile(self.package)


def locate(directory: str) -> str:
    """Return the path of the script; `directory` is that of our state."""
    return os.path.join(directory, NAME)


def is_script(path: str) -> bool:
    """Return whether a file is such a script, whichever installation it starts."""
    return _MARK.encode() in _read_start(path)


def install(directory: str) -> bool:
    """Write the script for the program that runs now; return whether that changed anything.

    Raises:
        FileRefused: It cannot be written, or not be executed there.

    """
    path = locate(directory)
    text = _compose().encode()
    try:
        state.make_directory(directory)
        is_new = state.read(path) != text or not os.access(path, os.X_OK)
        if is_new:
            state.write_whole(path, text, mode=0o700, is_lasting=True)
    except OSError as error:
        raise FileRefused(
            f"cannot write {path}, which wrapped entries start: {error.strerror}",
            fix="make its directory writable, or set MCP_LAUNCH_HOME to another one",
        ) from None
    if not os.access(path, os.X_OK):
        raise FileRefused(
            f"{path}, which wrapped entries start, cannot be executed: its file system is mounted "
            "noexec",
            fix="set MCP_LAUNCH_HOME to a directory elsewhere, then run the command again",
        )
    return is_new


def renew(directory: str) -> None:
    """Bring a script up to date that is of this installation, or of one that is gone.

    Raises:
        FileRefused: It cannot be written.

    """
    text = (state.read(locate(directory)) or b"").decode(errors="replace")
    program = _find_program(text)
    if program is None or not os.path.exists(os.path.join(os.path.dirname(sys.executable), NAME)):
        return
    if program.python == sys.executable or not program.is_there:
        install(directory)


def _find_program(text: str) -> _Started | None:
    """Return what a script starts; None if it is not one of ours."""
    if _MARK not in text:
        return None
    [line, *_] = [one for one in text.splitlines() if one.startswith("if [ -x ")] or [""]
    try:
        _, _, _, python, _, _, _, _, package, *_ = shlex.split(line)
    except ValueError:
        return None
    return _Started(python, package)


def list_path() -> list[str]:
    """Return where the program's own modules and the libraries are that it was installed with."""
    own = os.path.dirname(os.path.dirname(os.path.abspath(mcp_launch.__file__)))
    users = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found = dict.fromkeys([own, *site.getsitepackages(), *users])
    return [one for one in found if os.path.isdir(one)]


def _compose() -> str:
    from mcp_launch.launch import options

    python, package = sys.executable, os.path.abspath(mcp_launch.__file__)
    path = list_path()
    for one in (python, package):
        # Both parts have to read it alike; to Python it is in a string.
        if not one.isprintable() or "\\" in one:
            raise FileRefused(
                f"mcp-launch cannot be started from {one}: a script cannot name this path",
                fix="install it in a directory without backslashes and control characters",
            )
    return _TEMPLATE.format(
        shell=next(line for file, line in _SHELLS if os.access(file, os.X_OK) or file == "/bin/sh"),
        mark=_MARK,
        handed_over="_MCP_LAUNCH_PYTHONEXECUTABLE",
        python=shlex.quote(python),
        package=shlex.quote(package),
        switches=" | ".join(one for one in options.SWITCHES if one != "--strict"),
        executable=python,
        path=path,
    )


def _read_start(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(200)
    except OSError:
        return b""
