"""Whether a file goes wherever its repository goes."""

from __future__ import annotations

import os
import subprocess

# How long Git may take; it only looks into its index.
_PATIENCE = 5.0


def is_tracked(path: str) -> bool:
    """Tell whether Git has a file; no without Git."""
    directory, name = os.path.split(os.path.realpath(path))
    # Git would start what the repository names to watch its files.
    words = ["git", "-c", "core.fsmonitor=false", "-C", directory]
    try:
        done = subprocess.run(
            [*words, "ls-files", "--error-unmatch", "--", name],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
