"""Leave out the runner: find the program that `npx` or `uvx` would start, without asking it.

A runner stays between the host and its server for as long as the server runs, and costs more
memory and time than many servers (measured: npm 48 MB and a second). If the package is there
already, all that it does is to start a program. `resolve` finds this program by reading files; it
runs nothing and asks no registry.

What worked with the runner must work without it. So every rule here is a copy of the runner's
own, and whatever is not covered by a rule is a `Doubt`: then the runner is started as given.
"""

from __future__ import annotations

import os

from mcp_launch import state
from mcp_launch.errors import name_reason
from mcp_launch.launch.runners.proof import Doubt, Kept

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mcp_launch.launch.runners.installing import Install
    from mcp_launch.launch.runners.proof import Request, Resolved


def resolve(request: Request, asked: Iterable[str]) -> Resolved | Kept | None:
    """Return what the runner would start, or why that is not certain; None: it is not a runner.

    `asked` are the names of variables that the profile mentions.
    """
    find = _choose(request.argv)
    if find is None:
        return None
    found: Resolved | Kept
    try:
        found = find(request)
    except Doubt as doubt:
        found = doubt.kept
    # A file that cannot be read, or is not what it should be: the runner may cope with it.
    except OSError as error:
        found = Kept(name_reason(error))
    except (ValueError, LookupError, RecursionError):
        found = Kept("a file of the package, or of the runner's settings, is not as expected")
    for name in asked:
        if name.startswith("npm_") and name not in request.environ:
            why = f"the profile asks for {name}, which only the runner sets"
            return Kept(why, install=find_install(found))
    return found


def find_install(runner: Resolved | Kept | None) -> Install | None:
    """Return the package that the runner has to install first; None if that is not certain."""
    return runner.install if isinstance(runner, Kept) else None


def note_check(runner: Resolved | Kept | None) -> None:
    """Record that a runner is started now that looks for updates, if it does."""
    stamp = runner.stamp if isinstance(runner, Kept) else ""
    try:
        if stamp:
            state.make_private(os.path.dirname(stamp))
            state.write_whole(stamp, b"")
    except OSError:
        pass  # then it looks for updates the next time, too


def _choose(argv: list[str]) -> Callable[[Request], Resolved] | None:
    name, second = os.path.basename(argv[0]), "".join(argv[1:2])
    if name == "npx" or (name == "npm" and second in {"exec", "x"}):
        from mcp_launch.launch.runners import npx

        return npx.find
    if name == "uvx" or (name == "uv" and argv[1:3] == ["tool", "run"]):
        from mcp_launch.launch.runners import uvx

        return uvx.find
    if name in {"bunx", "pnpx"} or (name, second) in {("bun", "x"), ("pnpm", "dlx")}:
        return _refuse
    return None


def _refuse(request: Request) -> Resolved:
    # pnpm names the directories of its cache after what the registry answered, and how bun
    # decides has not been established.
    name = os.path.basename(request.argv[0])
    raise Doubt(f"the files of {name} do not show what it would start")
