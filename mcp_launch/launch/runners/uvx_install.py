"""Whether `uvx` has to install its tool first, as far as the files of uv show it.

Which of the environments in its cache uvx would choose is not known (see `uvx`). But if none of
them has the program, it has to make one. An environment is complete when it appears: uv builds it
elsewhere, and links to it.
"""

from __future__ import annotations

import os

from mcp_launch.launch.runners.installing import Install
from mcp_launch.launch.runners.proof import is_binary, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcp_launch.launch.runners.proof import Request

# Options after which the environment is in the cache all the same, with a value and without one.
_VALUED = (
    "--constraints --default-index --exclude-newer --extra-index-url --find-links --from --index "
    "--index-strategy --index-url --overrides --prerelease --python --refresh-package --resolution "
    "--with --with-editable --with-requirements -c -f -i -p -w"
)
_ALONE = (
    "--managed-python --native-tls --no-binary --no-build --no-config --no-index --no-progress "
    "--no-python-downloads --offline --quiet --refresh --system-certs --upgrade --verbose -U -q -v"
)

# Variables that change the place of the cache in a way that we do not follow.
_UNCLEAR = ("UV_NO_CACHE", "UV_ISOLATED", "UV_CONFIG_FILE")


def find(request: Request) -> Install | None:
    """Return what uvx may have to install; None if the files would not show when it is there."""
    named = _read_words(request.argv)
    environ = request.environ
    home = environ.get("HOME", "")
    if named is None or not os.path.isabs(home) or not is_binary(os.path.realpath(request.program)):
        return None
    package, command = named
    data = environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    tools = environ.get("UV_TOOL_DIR") or f"{data}/uv/tools"
    shared = environ.get("XDG_CACHE_HOME") or f"{home}/.cache"
    cache = environ.get("UV_CACHE_DIR") or f"{shared}/uv"
    if not os.path.isabs(cache) or _may_move_cache(environ, home):
        return None
    if any(os.path.lexists(f"{tools}/{name}") for name in (_cut(package), command)):
        return None  # it is installed, and perhaps used
    runner = os.path.basename(request.argv[0])
    return Install(package, runner, lambda: not _has_program(cache, command))


def _read_words(argv: list[str]) -> tuple[str, str] | None:
    """Return the package and the program; None if they are not certain."""
    rest = list(argv[1 if os.path.basename(argv[0]) == "uvx" else 3 :])
    valued, alone, package = _VALUED.split(), _ALONE.split(), ""
    while rest and rest[0].startswith("-") and rest[0] != "--":
        name, equals, value = rest.pop(0).partition("=")
        if name in valued and (equals or rest):
            text = value if equals else rest.pop(0)
            package = text if name == "--from" else package
        elif name not in alone or equals:
            return None
    words = [word for word in rest[:2] if word != "--"]
    if not words or "/" in words[0] or words[0].startswith("python"):
        return None
    return package or words[0], words[0] if package else _cut(words[0])


def _cut(package: str) -> str:
    """Return a package's name without its version and extras."""
    for sign in "@[=<>!~; ":
        package = package.partition(sign)[0]
    return package


def _may_move_cache(environ: Mapping[str, str], home: str) -> bool:
    settings = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    shared = (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":")
    files = [f"{directory}/uv/uv.toml" for directory in (settings, *shared, "/etc")]
    is_set = any(b"cache" in read(file) for file in files if os.path.exists(file))
    return is_set or any(environ.get(name) for name in _UNCLEAR)


def _has_program(cache: str, command: str) -> bool:
    """Return whether an environment in uv's cache has a program."""
    places = [f"{cache}/{one}" for one in _list(cache) if one.startswith("environments-v")]
    found = [f"{place}/{one}" for place in places for one in _list(place)]
    # Since uv 0.7 there is a directory for each interpreter.
    found += [f"{place}/{one}" for place in found for one in _list(place)]
    return any(os.path.lexists(f"{place}/bin/{command}") for place in found)


def _list(directory: str) -> list[str]:
    try:
        return os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []  # the cache is empty, or this is a lock
