"""Ask Git whether it tracks a file, so that others who clone the repository get it too.

A repository may have come in an archive from anyone, and Git runs what its configuration names
(file system monitors, hooks, transports that fetch what a partial clone lacks). All of these are
switched off, and a `git` that lies in the repository itself is not run either.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from typing import Literal

from mcp_launch.values import walk_upward

Answer = Literal["yes", "no", "unknown"]

# Git takes milliseconds, and a second for the largest repositories. It hangs where its index is a
# named pipe.
_PATIENCE = 10.0

_SETTINGS = ("core.fsmonitor=false", "core.hooksPath=/dev/null", "safe.bareRepository=explicit")
_ENVIRONMENT = {
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",  # older releases do not know the variable above
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "LC_ALL": "C",  # its messages are read below
}

# Git says no if it reports only one of these. It also exits with 1 if it could not read a part.
_PROBLEMS = (b"error: ", b"fatal: ")
_SAYS_NO = (b"error: pathspec ", b"fatal: not a git repository (or any")


def is_tracked(path: str) -> bool:
    """Return whether Git tracks a file, or may: for callers that write the file."""
    return judge(path) != "no"


def judge(path: str) -> Answer:
    """Return whether Git tracks a file; of a link, whether it tracks the target.

    Unknown where Git is missing, refuses (a repository of another user) or reports damage.
    """
    path = os.path.realpath(path)
    tops = walk_upward(os.path.dirname(path))
    top = next((one for one in tops if _is_repository(os.path.join(one, ".git"))), None)
    return "no" if top is None else _ask(path, top)


def _is_repository(path: str) -> bool:
    """Return whether Git would look into a `.git`; a file leads a worktree to its repository."""
    return os.path.isfile(path) or os.path.lexists(os.path.join(path, "HEAD"))


# `doctor` asks several times for each of a file's entries.
@functools.cache
def _ask(path: str, top: str) -> Answer:
    own = os.path.join(top, "")
    places = [
        one
        for one in os.get_exec_path()
        if os.path.isabs(one) and not os.path.join(os.path.realpath(one), "").startswith(own)
    ]
    git = shutil.which("git", path=os.pathsep.join(places))
    directory, name = os.path.split(path)
    if git is None:
        return "unknown"
    around = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    words = [git, *(word for setting in _SETTINGS for word in ("-c", setting))]
    try:
        done = subprocess.run(
            [*words, "--no-pager", "ls-files", "--error-unmatch", "--", name],
            cwd=directory,
            env=around | _ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_PATIENCE,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    if not done.returncode:
        return "yes"
    problems = [line for line in done.stderr.splitlines() if line.startswith(_PROBLEMS)]
    return "no" if len(problems) == 1 and problems[0].startswith(_SAYS_NO) else "unknown"
