"""Scripts that the system can run, and executable files that it cannot."""

from __future__ import annotations

BROKEN = {
    "empty": (b"", "is empty"),
    "a byte order mark": (b"\xef\xbb\xbf#!/bin/sh\nexit 0\n", "byte order mark before its #!"),
    "line ends of Windows": (b"#!/bin/sh\r\nexit 0\r\n", "has a Windows line end"),
    "an interpreter that is gone": (b"#!/opt/gone/ruby\n", "/opt/gone/ruby, which does not exist"),
    "an environment that moved": (b"#!/opt/gone/bin/python3.11\n", "which does not exist"),
    "an interpreter that is a directory": (b"#!/usr\n", "/usr, which is not a program"),
    "an interpreter without a path": (b"#!sh\n", "no absolute path after its #!"),
    "nothing behind its #!": (b"#!\n", "no absolute path after its #!"),
    "a slip for env": (b"#!/usr/bin/env nodee\n", "is run by nodee, which is not on the PATH"),
    "a slip for env with options": (b"#!/usr/bin/env -S nodee --x\n", "is run by nodee"),
    "two words for env": (b"#!/usr/bin/env sh -e\n", 'env look for a single program "sh -e"'),
    "no #! at all": (b"exit 0\n", "does not begin with #!"),
}

SOUND = {
    "a shell's": "#!/bin/sh\nexit 0\n",
    "with a space and an option": "#! /bin/sh -e\nexit 0\n",
    "by env": "#!/usr/bin/env sh\nexit 0\n",
    "by env with options": "#!/usr/bin/env -S sh -e\nexit 0\n",
    "by env with a variable": "#!/usr/bin/env -S A=1 sh -e\nexit 0\n",
}
