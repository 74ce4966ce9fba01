"""What `npx` and `npm exec` would start (npm 9, 10 and 11).

npx decides in this order (libnpmexec/lib/index.js). A package can be named with `--package`;
then the first three steps are left out, because the word after it is a program.

1. The project's own package has a program of this name: a doubt.
2. `node_modules/.bin/WORD` of the project, or of a directory above it: resolved.
3. `bin/WORD` of the global packages: a doubt.
4. The project has the package installed: a doubt.
5. The global packages have the program: a doubt.
6. `~/.npm/_npx/HASH`, where HASH is made of the package as it was written: resolved.

In step 6 an exact version needs no further check. For anything else npx asks the registry at
every start. We let it ask once a day: if nobody has asked for a day, npx itself is started, and
updates its cache. What we start is never older than that.

The program is started by a shell that finds it on PATH, so it gets the PATH that npx makes.
Of the other variables, it gets those that do not begin with `npm_`.
"""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.launch.runners import npm_settings
from mcp_launch.launch.runners.proof import (
    Doubt,
    Resolved,
    check_start,
    is_binary,
    is_program,
    read,
    search,
)
from mcp_launch.protocol import json_text
from mcp_launch.values import walk_upward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mcp_launch.launch.runners.npm_settings import NpmSettings
    from mcp_launch.launch.runners.proof import Request

_KNOWN_VERSIONS = ("9", "10", "11")

# How long an answer of the registry counts, in seconds.
_CHECKED_FOR = 86400.0

# How long a cache must be unchanged, in seconds: another npx may be at work on it, and not all
# versions lock it.
_SETTLED = 10.0

# How long npx may take to update its cache, in seconds.
_UPDATED_WITHIN = 120.0

# Options that do not change what is started, if it is installed.
_HARMLESS = ("-y", "--yes", "-q", "--quiet", "-s", "--silent", "--prefer-offline", "--offline")
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_IN_SPECS = _LETTERS | frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ^~<>=*")

# What npm's parser of options takes for the value of the option before it.
_VALUES = ("true", "false", "null")
_ARCHIVES = (".tgz", ".tar.gz", ".tar")


class _Wanted:
    """The package and the program that were asked for."""

    __slots__ = ("command", "is_pinned", "name", "raw", "rest", "spec")

    def __init__(self, package: str, words: list[str]) -> None:
        self.raw = package or words[0]
        self.command = words[0] if package else ""  # empty: the package's own
        self.rest = words[1:]
        name, _, spec = self.raw[1:].partition("@")
        self.name = self.raw[:1] + name
        self.spec = spec
        self.is_pinned = _is_version(spec)


class _Npm:
    """The npm that would run."""

    __slots__ = ("directory", "gyp", "locks_cache", "node")

    def __init__(self, request: Request) -> None:
        script = os.path.realpath(request.program)
        self.directory = os.path.dirname(os.path.dirname(script))
        name = os.path.basename(request.argv[0])
        if not script.endswith(f"/bin/{name}-cli.js"):
            raise Doubt(f"{request.program} is not npm's own {name}")
        facts = _read_json(f"{self.directory}/package.json")
        version = str(facts.get("version"))
        if facts.get("name") != "npm" or version.partition(".")[0] not in _KNOWN_VERSIONS:
            raise Doubt(f"npm {version} is not known to us")
        self.gyp = f"{self.directory}/node_modules/@npmcli/run-script/lib/node-gyp-bin"
        # npm before 11.3 does not, and two that install the same package break each other (npm
        # 10.9: "ENOTEMPTY", and a cache without its programs).
        self.locks_cache = os.path.exists(
            f"{self.directory}/node_modules/libnpmexec/lib/with-lock.js"
        )
        self.node = os.path.realpath(search("node", request))
        is_itself = os.path.basename(self.node) == "node" and is_binary(self.node)
        if not is_itself or not os.path.isdir(self.gyp):
            raise Doubt("node or npm is installed in a way that we do not know")


def find(request: Request) -> Resolved:
    """Return the program that npx would start.

    Raises:
        Doubt: That is not certain.

    """
    wanted = _read_words(request.argv)
    if not request.cwd or [name for name in request.environ if name.lower() == "path"] != ["PATH"]:
        raise Doubt("there is no directory, or no PATH, to start in")
    cwd = os.path.realpath(request.cwd)
    npm = _Npm(request)
    project = _find_project(cwd)
    settings = npm_settings.load(request.environ, npm.directory, npm.node, project)
    if settings.prefix == project:
        raise Doubt("the project is the directory of npm's global packages")
    _check_project(project, wanted)
    directory, name, origin = _find_local(project, wanted) or _find_cached(
        request, wanted, project, settings, npm
    )
    program = f"{directory}/{name}"
    if not is_program(program):
        raise Doubt(f"{program} cannot be executed")
    check_start(program)
    variables = _list_variables(request, cwd, directory, npm)
    return Resolved(program, [name, *wanted.rest], variables, origin)


def _read_words(argv: list[str]) -> _Wanted:
    is_npx = os.path.basename(argv[0]) == "npx"
    package, words = _take_options(argv[1 if is_npx else 2 :], is_npx=is_npx)
    if not is_npx:
        words = _drop_dashes(words)
    if words[:1] == ["--"]:
        words = words[1:]
    if not words or "/" in (words[0] if package else ""):
        raise Doubt("no package is named")
    wanted = _Wanted(package, words)
    if not _is_package(wanted.name) or (wanted.spec and not _is_spec(wanted.spec)):
        raise Doubt(f"{wanted.raw} is not the plain name of a package")
    if wanted.raw.endswith("@") or wanted.raw in _VALUES:
        raise Doubt(f"npm may read {wanted.raw} in another way")
    return wanted


def _take_options(words: list[str], *, is_npx: bool) -> tuple[str, list[str]]:
    """Return the package that an option names, and the words after the options."""
    package, rest = "", list(words)
    named = ("-p", "--package") if is_npx else ("--package",)  # `npm -p` is another option
    while rest and rest[0] != "--" and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in named and not package and (equals or rest):
            package = value if equals else rest.pop(0)
        elif equals or not (name in _HARMLESS or (is_npx and name == "--no-install")):
            raise Doubt(f"the option {name} may change what is started")
    return package, rest


def _drop_dashes(words: list[str]) -> list[str]:
    """Return the words that `npm exec` passes on: it takes every option before `--` for itself."""
    at = words.index("--") if "--" in words else len(words)
    if any(word.startswith("-") for word in words[:at]):
        raise Doubt("npm exec takes options before -- for itself")
    return words[:at] + words[at + 1 :]


def _is_package(name: str) -> bool:
    scope, slash, own = name.rpartition("/")
    parts = [scope[1:], own] if slash else [own]
    is_scoped = scope.startswith("@") == bool(slash) and "@" not in own
    is_plain = all(part and _LETTERS.issuperset(part) and part[0] not in "._-" for part in parts)
    return is_scoped and is_plain and not own.endswith(_ARCHIVES)


def _is_spec(spec: str) -> bool:
    # "." begins a path.
    return _IN_SPECS.issuperset(spec) and spec[0] != "." and not spec.lower().endswith(_ARCHIVES)


def _is_version(spec: str) -> bool:
    numbers, _, before = spec.partition("-")
    parts = numbers.split(".")
    is_plain = all(part.isdigit() and (part == "0" or part[0] != "0") for part in parts)
    return len(parts) == 3 and is_plain and ("-" not in spec or bool(before))  # noqa: PLR2004


def _find_project(cwd: str) -> str:
    """Return npm's local prefix."""
    project = ""
    for directory in walk_upward(cwd):
        has_package = os.path.isfile(_join(directory, "package.json"))
        if has_package and b'"workspaces"' in read(_join(directory, "package.json")):
            raise Doubt(f"{directory} has workspaces")
        if has_package or os.path.isdir(_join(directory, "node_modules")):
            project = project or directory
    return project or cwd


def _check_project(project: str, wanted: _Wanted) -> None:
    """Raise a doubt if the project's own package may have what is asked for."""
    path = _join(project, "package.json")
    if not os.path.isfile(path):
        return
    facts = _read_json(path)
    programs, directories = facts.get("bin"), facts.get("directories")
    if isinstance(programs, str):
        programs = {str(facts.get("name")).rpartition("/")[2]: programs}
    has_program = isinstance(programs, dict) and wanted.raw in programs
    is_unclear = not programs and isinstance(directories, dict) and "bin" in directories
    if facts.get("name") == wanted.name or has_program or is_unclear:
        raise Doubt(f"{path} may have this program itself")


def _find_local(project: str, wanted: _Wanted) -> tuple[str, str, str] | None:
    for directory in walk_upward(project):
        programs = _join(directory, "node_modules/.bin")
        if not wanted.command and os.path.isfile(f"{programs}/{wanted.raw}"):
            if "/" in wanted.raw:
                raise Doubt(f"{programs} has {wanted.raw}")  # a path to the shell
            return programs, wanted.raw, f"{wanted.raw}, installed in {directory}"
    return None


def _find_cached(
    request: Request, wanted: _Wanted, project: str, settings: NpmSettings, npm: _Npm
) -> tuple[str, str, str]:
    """Return the directory and the name of the program in npx's cache, and what it is."""
    installed = f"{settings.cache}/_npx/{_hash(wanted.raw)}"
    packages = f"{installed}/node_modules"
    package = f"{packages}/{wanted.name}"
    if not _is_complete(packages, wanted.name):
        _check_installed(project, wanted.name)
        raise _expect_install(request, wanted, settings, installed, npm)
    facts = _read_json(f"{package}/package.json")
    name = wanted.command or _choose_program(facts, wanted.name)
    for program in (wanted.raw, name):
        if not wanted.command and os.path.isfile(f"{settings.prefix}/bin/{program}"):
            raise Doubt(f"{settings.prefix}/bin has {program}")
    _check_installed(project, wanted.name)
    version = str(facts.get("version"))
    if facts.get("name") != wanted.name or (wanted.is_pinned and version != wanted.spec):
        raise Doubt(f"{package} is {facts.get('name')} {version}")
    # npm writes this file at the end of an installation.
    if os.stat(f"{packages}/.package-lock.json").st_mtime < os.stat(package).st_mtime:
        raise Doubt(f"{installed} is incomplete, or was changed")
    changed = max(os.stat(installed).st_mtime, os.stat(packages).st_mtime)
    is_busy = os.path.exists(f"{installed}/concurrency.lock")
    if is_busy or abs(request.now - changed) < _SETTLED:
        raise Doubt(f"another npx may be at work on {installed}")
    if not wanted.command:
        _check_link(f"{packages}/.bin/{name}", f"{package}/{_list_programs(facts)[name]}")
    checked = "" if wanted.is_pinned else _check_age(request, installed, settings)
    return f"{packages}/.bin", name, f"{wanted.name} {version} in {installed}{checked}"


def _is_complete(packages: str, name: str) -> bool:
    """Return whether an installation has come to its end."""
    # npm makes the package's directory first, and writes this file last.
    return os.path.isdir(f"{packages}/{name}") and os.path.exists(f"{packages}/.package-lock.json")


def _expect_install(
    request: Request, wanted: _Wanted, settings: NpmSettings, installed: str, npm: _Npm
) -> Doubt:
    """Return the doubt about a package that npx has to install first, unless it has it elsewhere.

    The guardian lets an installation finish. So this must never be claimed of an npx that starts
    another copy of the package: its server would go on as if it were an installation.
    """
    packages, shared = f"{installed}/node_modules", settings.prefix
    why = f"npx has not installed {wanted.raw} yet"
    for path in (f"{shared}/bin/{wanted.raw}", f"{shared}/lib/node_modules/{wanted.name}"):
        if os.path.lexists(path):
            return Doubt(f"{why}, but there is {path}")
    from mcp_launch.launch.runners.installing import Install

    def is_missing() -> bool:
        # Without the lock, npm would find half an installation and wait a minute for its end.
        is_busy = os.path.exists(f"{installed}/concurrency.lock")
        return is_busy or not _is_complete(packages, wanted.name)

    lock = "" if npm.locks_cache else f"{request.stamps}/{_hash(installed)}.lock"
    runner = os.path.basename(request.argv[0])
    return Doubt(why, install=Install(wanted.raw, runner, is_missing, lock))


def _check_installed(project: str, name: str) -> None:
    """Raise a doubt if the project has the package installed, at any depth."""
    packages = _join(project, "node_modules")
    if os.path.lexists(f"{packages}/{name}"):
        raise Doubt(f"{project} has {name} installed")
    try:
        lock = read(f"{packages}/.package-lock.json")
    except FileNotFoundError:
        return
    if f'node_modules/{name}"'.encode() in lock:
        raise Doubt(f"{project} has {name} installed")


def _list_programs(facts: dict[str, Any]) -> dict[str, str]:
    programs = facts.get("bin")
    if isinstance(programs, str):
        programs = {str(facts.get("name")).rpartition("/")[2]: programs}
    if not isinstance(programs, dict):
        raise Doubt("the package has no program")
    for name, path in programs.items():
        is_plain = _LETTERS.issuperset(name.lower()) and name[:1] not in {"", "."}
        # JavaScript puts numbers before other names, and npx takes the first.
        if not is_plain or name.isdigit() or not isinstance(path, str) or not path:
            raise Doubt("the package names its programs in an unusual way")
    return {name: os.path.normpath(f"/{path}")[1:] for name, path in programs.items()}


def _choose_program(facts: dict[str, Any], package: str) -> str:
    programs = _list_programs(facts)
    if len(set(programs.values())) == 1:
        return next(iter(programs))
    own = package.rpartition("/")[2]
    if own not in programs:
        raise Doubt(f"{package} has several programs")
    return own


def _check_link(link: str, file: str) -> None:
    if os.path.realpath(link) != os.path.realpath(file):
        raise Doubt(f"{link} is not the package's program")


def _check_age(request: Request, installed: str, settings: NpmSettings) -> str:
    """Raise a doubt unless npx has asked the registry lately; return when it has."""
    if settings.is_registry_own:
        raise Doubt("this project or environment has a registry of its own")
    stamp = f"{request.stamps}/{_hash(installed)}"
    noted = os.stat(stamp).st_mtime if os.path.exists(stamp) else 0.0
    if abs(request.now - noted) < _UPDATED_WITHIN:
        raise Doubt(f"the npx that was started lately may still update {installed}")
    # npm since 11.3 locks the cache at every start, which changes the time of the directory.
    checked = max(noted, os.stat(installed).st_mtime)
    age = request.now - checked
    if settings.changed > checked or not 0 <= age <= _CHECKED_FOR:
        raise Doubt("npx looks for a new version once a day, and does so now", stamp)
    hours, minutes = divmod(int(age) // 60, 60)
    return f", checked {f'{hours} h' if hours else f'{minutes} min'} ago"


def _list_variables(request: Request, cwd: str, programs: str, npm: _Npm) -> dict[str, str]:
    local = [_join(directory, "node_modules/.bin") for directory in walk_upward(cwd)]
    environ = request.environ
    return {
        "PATH": ":".join([programs, *local, npm.gyp, environ["PATH"]]),
        "NODE": npm.node,
        "INIT_CWD": cwd,
        "COLOR": "0",  # npm's stdout is not a terminal
        "EDITOR": environ.get("EDITOR") or environ.get("VISUAL") or "vi",
    }


def _join(directory: str, name: str) -> str:
    return os.path.join(directory, name)


def _read_json(path: str) -> dict[str, Any]:
    facts = json_text.parse(read(path))
    if not isinstance(facts, dict):
        raise Doubt(f"{path} is not an object")
    return facts


def _hash(text: str) -> str:
    return state.digest_512(text.encode())[:16]
