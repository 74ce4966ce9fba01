"""What `uvx` and `uv tool run` would start, if it is a tool that `uv tool install` installed.

uvx prefers an installed tool (uv/src/commands/tool/run.rs) if all of this is true:

* it has the version that was asked for, if one was;
* it was installed with the options that count now. We accept only a tool without any;
* its packages fit the interpreter that uvx would choose. It prefers uv's own interpreters: if there
  are any, we accept only a tool that uses one of these, if there is no other. Without them, uv
  has installed the tool with the Python of the system (or of pyenv), and would choose it again.

Everything else it resolves at every start: the name of the environment in its cache is a hash of
the result, which no file shows.
"""

from __future__ import annotations

import os

from mcp_launch.launch.runners.proof import (
    Doubt,
    Resolved,
    check_start,
    is_binary,
    is_program,
    read,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.launch.runners.proof import Request

# Options and variables that do not matter for an installed tool. Those that name an index do.
_HARMLESS = ("-q", "--quiet", "--no-progress", "--offline", "--no-config")
_HARMLESS_VARIABLES = (
    "UV UV_CACHE_DIR UV_NATIVE_TLS UV_NO_PROGRESS UV_OFFLINE UV_TOOL_BIN_DIR UV_TOOL_DIR"
)
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-")


def find(request: Request) -> Resolved:
    """Return the program that uvx would start.

    Raises:
        Doubt: That is not certain.

    """
    try:
        return _find(request)
    except Doubt as doubt:
        from mcp_launch.launch.runners import uvx_install

        doubt.kept.install = uvx_install.find(request)
        raise


def _find(request: Request) -> Resolved:
    name, version, command, rest = _read_words(request.argv)
    if not request.environ.get("PATH"):
        raise Doubt("there is no PATH")
    uv = os.path.join(os.path.dirname(os.path.realpath(request.program)), "uv")
    if not is_binary(os.path.realpath(request.program)) or not is_binary(uv):
        raise Doubt(f"{request.program} is not uv's own {os.path.basename(request.argv[0])}")
    data, tools = _find_data(request.environ)
    tool = f"{tools}/{name}"
    if not os.path.isdir(tool):
        raise Doubt(f"{name} is not installed with `uv tool install`")
    _check_interpreter(tool, f"{data}/uv/python")
    found = _check_tool(tool, name)
    if version not in {"", found}:
        raise Doubt(f"{tool} is {name} {found}")
    program = f"{tool}/bin/{command}"
    if not is_program(program):
        raise Doubt(f"{program} cannot be executed")
    check_start(program)
    variables = {"PATH": f"{tool}/bin:{request.environ['PATH']}", "UV": os.path.realpath(uv)}
    return Resolved(program, [command, *rest], variables, f"{name} {found} in {tool}")


def _read_words(argv: list[str]) -> tuple[str, str, str, list[str]]:
    """Return the package, its version, the program, and the program's arguments."""
    rest = list(argv[1 if os.path.basename(argv[0]) == "uvx" else 3 :])
    package = ""
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        if word == "--":
            break
        name, equals, value = word.partition("=")
        if name == "--from" and not package and (equals or rest):
            package = value if equals else rest.pop(0)
        elif word not in _HARMLESS:
            raise Doubt(f"the option {name} may change what is started")
    if not rest:
        raise Doubt("no package is named")
    first = rest.pop(0)
    name, version = _split(package or first)
    command = first if package else name
    is_plain = _is_name(name) and _LETTERS.issuperset(command.lower().replace("_", "-"))
    if not is_plain or command.startswith(("python", "-")):
        raise Doubt(f"{package or first} is not the plain name of a package")
    return name, version, command, rest


def _split(package: str) -> tuple[str, str]:
    for sign in ("==", "@"):
        name, found, version = package.partition(sign)
        if found:
            if not version or not all(part.isdigit() for part in version.split(".")):
                raise Doubt(f"{package} is not a plain version")
            return name, version
    return package, ""


def _is_name(name: str) -> bool:
    # uv's tools have normalised names. Another spelling may name another program.
    return bool(name) and _LETTERS.issuperset(name) and "--" not in name and name[0] != "-"


def _find_data(environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the directory of uv's data, and that of its tools."""
    home = environ.get("HOME", "")
    known = _HARMLESS_VARIABLES.split()
    unknown = [name for name in environ if name.startswith("UV") and name not in known]
    if not os.path.isabs(home) or unknown:
        raise Doubt(f"{(*unknown, 'HOME')[0]} may change what is started")
    settings = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    files = [f"{directory}/uv/uv.toml" for directory in (settings, *shared, "/etc")]
    for file in (*files, f"{settings}/uv/.python-version", f"{settings}/uv/.python-versions"):
        if os.path.exists(file):
            raise Doubt(f"{file} may change what is started")
    data = environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    tools = environ.get("UV_TOOL_DIR") or f"{data}/uv/tools"
    if not os.path.isabs(tools) or not os.path.isabs(data):
        raise Doubt("the directory of uv's tools is not absolute")
    return data, tools


def _check_interpreter(tool: str, interpreters: str) -> None:
    found = _list_interpreters(interpreters)
    if not found and os.path.exists(f"{tool}/bin/python"):
        return
    settings = read(f"{tool}/pyvenv.cfg").decode().splitlines()
    home = next((line[len("home = ") :] for line in settings if line.startswith("home = ")), "")
    if len(found) != 1 or os.path.realpath(home) != os.path.realpath(f"{found[0]}/bin"):
        raise Doubt("uvx may choose another interpreter than the tool's")


def _list_interpreters(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            # Links are other names: `cpython-3.12` for `cpython-3.12.9`.
            return [
                one.path
                for one in entries
                if one.name[0] != "." and one.is_dir(follow_symlinks=False)
            ]
    except FileNotFoundError:
        return []  # uv has never installed one


def _check_tool(tool: str, name: str) -> str:
    """Return the installed version; raise a doubt if the tool was changed after that."""
    receipt = f"{tool}/uv-receipt.toml"
    if not _is_plain(read(receipt).decode(), name):
        raise Doubt(f"{receipt} names more than {name}")
    written = os.stat(receipt).st_mtime
    version = ""
    for python in os.listdir(f"{tool}/lib"):
        packages = f"{tool}/lib/{python}/site-packages"
        for entry in os.listdir(packages):
            if entry.endswith(".dist-info"):
                if os.stat(f"{packages}/{entry}").st_mtime > written:
                    raise Doubt(f"{packages} was changed")
                package, _, found = entry.removesuffix(".dist-info").partition("-")
                version = found if package.replace("_", "-").lower() == name else version
    if not version:
        raise Doubt(f"{tool} has no {name}")
    return version


def _is_plain(receipt: str, name: str) -> bool:
    """Return whether a tool was installed by its name, without options, extras or others."""
    lines = [line for line in receipt.splitlines() if line[:1].isalpha() or line[:1] == "["]
    keys = [line.partition(" = ")[0] for line in lines]
    wanted = lines[1] if len(lines) > 1 else ""
    head, tail = f'requirements = [{{ name = "{name}"', " }]"
    facts = wanted[len(head) : -len(tail)]
    is_by_name = wanted.startswith(head) and wanted.endswith(tail) and "{" not in facts
    is_version = facts.startswith(', specifier = "') and facts.count('"') == 2  # noqa: PLR2004
    return (
        keys == ["[tool]", "requirements", "entrypoints"]
        and is_by_name
        and (not facts or is_version)
    )
