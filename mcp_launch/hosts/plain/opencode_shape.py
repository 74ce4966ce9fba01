"""opencode, and Kilo Code, which is made from it: a command is one list."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from mcp_launch.config_files.host_config import MANAGED, File, HostConfig
from mcp_launch.config_files.host_quirks import Environment, HostProgram, HostQuirks, Texts
from mcp_launch.config_files.knowledge import measure
from mcp_launch.config_files.wrap import Shape
from mcp_launch.hosts.plain.places import Place, list_at, wait

if TYPE_CHECKING:
    from mcp_launch.config_files.site import Site

# opencode's second version moved the servers one level down, among settings of `mcp` itself.
_SERVERS = (("mcp", "servers"), ("mcp",))

_ONE_LIST = (Shape(is_one_list=True),)  # the command and its arguments

_TEXTS = Texts(
    borrowing=re.compile(r"\{env:(\w+)\}"),
    borrow="{{env:{}}}",
    fills_in=re.compile(r"\{file:[^}]*\}"),
    table="environment",
)

_OPENCODE = ("opencode.json", "opencode.jsonc")
_KILO = ("kilo.json", "kilo.jsonc")

_OPENCODE_PLACES = list_at(
    Place(
        *(".config", (*_OPENCODE, "config.json")),
        variable="XDG_CONFIG_HOME",
        below="opencode",
        servers=_SERVERS,
    ),
    Place(".opencode", _OPENCODE, servers=_SERVERS),
    Place("", _OPENCODE, "project", servers=_SERVERS),
    Place(".opencode", _OPENCODE, "project", servers=_SERVERS),
)


def _list_opencode_files(site: Site) -> list[File]:
    """Return its files, and those that two variables name in addition."""
    more = [site.environ.get("OPENCODE_CONFIG", "")]
    if directory := site.environ.get("OPENCODE_CONFIG_DIR", ""):
        more += [os.path.join(directory, name) for name in _OPENCODE]
    named = [File(path, "user", servers=_SERVERS) for path in more if os.path.isabs(path)]
    return [*_OPENCODE_PLACES(site), *named]


OPENCODE_SHAPE = (
    HostConfig(
        "opencode",
        "opencode",
        _list_opencode_files,
        _ONE_LIST,
        knowledge=measure("1.18.34", "the instance's", "no", "no"),
        quirks=HostQuirks(
            program=HostProgram("opencode"),
            home_variable="XDG_CONFIG_HOME",
            environment=Environment(hands_all_on=True),
            texts=_TEXTS,
            list_waits=wait("opencode", 30, "timeout", 1000),
            cwd="honoured",
        ),
    ),
    HostConfig(
        "kilo",
        "Kilo Code",
        # A project's opencode.json, which it reads too, is listed as opencode's.
        list_at(
            Place(
                *(".config", (*_KILO, *_OPENCODE, "config.json")),
                variable="XDG_CONFIG_HOME",
                below="kilo",
                servers=_SERVERS,
            ),
            Place(".kilo", _KILO, servers=_SERVERS),
            Place("", _KILO, "project", servers=_SERVERS),
            Place(".kilo", _KILO, "project", servers=_SERVERS),
            Place(".kilocode", _KILO, "project", servers=_SERVERS),
            Place("/etc/kilo", _KILO, "managed", servers=_SERVERS, why_not=MANAGED),
        ),
        _ONE_LIST,
        knowledge=measure("7.7.7", "the instance's", "no", "no"),
        quirks=HostQuirks(
            program=HostProgram("kilo"),
            home_variable="XDG_CONFIG_HOME",
            environment=Environment(hands_all_on=True),
            texts=_TEXTS,
            list_waits=wait("Kilo Code", 30, "timeout", 1000),
            cwd="honoured",
        ),
    ),
)
