"""A stand-in for init: starts a command, and adopts whatever it leaves behind.

    fake_init.py COMMAND...

Run by a Python that is linked under the name of an init. Ends when it has no children left.
"""

from __future__ import annotations

import ctypes
import os
import sys

PR_SET_CHILD_SUBREAPER = 36


def main(words: list[str]) -> None:
    # Not in the session of the shell that runs the tests: nothing below is to be its job.
    os.setsid()
    assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    if os.fork() == 0:
        os.execv(words[0], words)
    # Nobody is to take us for one who could still talk to what we adopt.
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
