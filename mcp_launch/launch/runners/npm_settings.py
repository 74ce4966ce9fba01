"""The settings of npm that decide what `npx` starts: where its cache and its global packages are.

npm has more than a hundred settings, and any of them may be set by a variable or by one of four
files. Those that change what is started, and those that we do not know, raise a `Doubt`.
"""

from __future__ import annotations

import os

from mcp_launch.launch.runners.proof import Doubt, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

# Settings that concern the network, the installation of packages, or what npm prints. None of
# them changes which of the installed programs is started. npm itself exports some of them to
# everything that it starts, such as a host.
_HARMLESS = (
    "allow-scripts always-auth audit audit-level ca cafile cert email engine-strict fetch-retries "
    "fetch-retry-factor fetch-retry-maxtimeout fetch-retry-mintimeout fetch-timeout fund "
    "global-prefix http-proxy https-proxy ignore-scripts init-author-email init-author-name "
    "init-author-url init-license init-module init-version key legacy-peer-deps local-address "
    "local-prefix loglevel maxsockets min-release-age node-gyp nodedir noproxy npm-version "
    "omit-lockfile-registry-resolved package-lock prefer-offline progress proxy python registry "
    "save save-exact save-prefix strict-peer-deps strict-ssl update-notifier user-agent yes"
)
_PATHS = ("cache", "prefix", "userconfig", "globalconfig")
_DEFAULT_REGISTRY = "https://registry.npmjs.org"


class NpmSettings:
    """The settings that count."""

    __slots__ = ("cache", "changed", "is_registry_own", "prefix")

    def __init__(self, cache: str, prefix: str, changed: float, *, is_registry_own: bool) -> None:
        self.cache = cache
        self.prefix = prefix  # of global packages
        self.changed = changed  # when one of the files changed last
        self.is_registry_own = is_registry_own  # this project or environment has its own registry


def load(environ: Mapping[str, str], npm: str, node: str, project: str) -> NpmSettings:
    """Return npm's settings; `npm` is its directory, and `project` the root of the project."""
    home = environ.get("HOME", "")
    if not os.path.isabs(home) or environ.get("PREFIX") or environ.get("DESTDIR"):
        raise Doubt("HOME, PREFIX or DESTDIR moves npm's files")
    given = _check(_read_variables(environ), "the environment")
    users_file = _find_path("userconfig", [given], home) or f"{home}/.npmrc"
    own_file = f"{project}/.npmrc"
    own = {} if own_file == users_file else _check(_read_file(own_file), own_file)
    if not own.keys().isdisjoint(_PATHS):
        raise Doubt(f"{own_file} moves npm's files")
    users = _check(_read_file(users_file), users_file)
    built_in = _check(_read_file(f"{npm}/npmrc"), f"{npm}/npmrc")
    default = os.path.dirname(os.path.dirname(node))
    early = _find_path("prefix", [given, users, built_in], home) or default
    shared_file = _find_path("globalconfig", [given, users, built_in], home) or f"{early}/etc/npmrc"
    shared = _check(_read_file(shared_file), shared_file)
    layers = [given, users, shared, built_in]
    return NpmSettings(
        _find_path("cache", layers, home) or f"{home}/.npm",
        _find_path("prefix", layers, home) or default,
        max(map(_read_time, (own_file, users_file, shared_file, f"{npm}/npmrc"))),
        is_registry_own=_has_own_registry(given, own, [users, shared, built_in]),
    )


def _read_variables(environ: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in environ.items():
        if text and name.lower().startswith("npm_config_"):
            key = name[len("npm_config_") :]
            if not key.startswith("//"):
                key = (key[:1] + key[1:].replace("_", "-")).lower()
            if found.setdefault(key, text) != text:
                raise Doubt(f"the environment sets npm's {key} twice")
    return found


def _read_file(path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    try:
        content = read(path).decode()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    for line in content.splitlines():
        text = line.strip()
        if not text or text[0] in "#;":
            continue
        if text[0] == "[":
            raise Doubt(f"{path} has sections")
        key, _, value = text.partition("=")
        found[key.strip().removesuffix("[]")] = value.strip()
    return found


def _check(found: dict[str, str], where: str) -> dict[str, str]:
    known = {*_HARMLESS.split(), *_PATHS}
    for key in found:
        is_of_registry = key.startswith(("//", "_")) or (key[:1] == "@" and ":registry" in key)
        if key not in known and not is_of_registry:
            raise Doubt(f"npm's setting {key} in {where} may change what is started")
    return found


def _find_path(key: str, layers: list[dict[str, str]], home: str) -> str:
    for layer in layers:
        if text := layer.get(key):
            path = home + text[1:] if text.startswith("~/") else text
            if not os.path.isabs(path) or not {"$", '"', "'", "\\", ";", "#"}.isdisjoint(path):
                raise Doubt(f"npm's {key} is not a plain path")
            return os.path.normpath(path)
    return ""


def _has_own_registry(
    given: dict[str, str], own: dict[str, str], others: list[dict[str, str]]
) -> bool:
    texts = [layer["registry"] for layer in others if "registry" in layer]
    usual = (*texts, _DEFAULT_REGISTRY)[0].rstrip("/")
    scoped = any(key[:1] == "@" for key in (*given, *own))
    here = own.get("registry", usual), given.get("registry", usual)
    return scoped or any(text.rstrip("/") != usual for text in here)


def _read_time(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0  # there is no such file
