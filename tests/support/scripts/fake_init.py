"""A fake init: starts a command, and adopts its orphans.

    fake_init.py COMMAND...

Run with a Python that is linked under the name of an init. Exits when it has no children left.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(words: list[str]) -> None:
    # Leave the session of the shell that runs the tests, so that nothing below is its job.
    os.setsid()
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    if os.fork() == 0:
        os.execv(words[0], words)
    # Close our ends: we must not look like a process that can still talk to the orphans.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    main(sys.argv[1:])
