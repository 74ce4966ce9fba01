"""The launcher, recorded: `launcher.py RECORDING TEST run WORDS…` in place of `-m mcp_launch`."""

from __future__ import annotations

import os
import sys

sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from record_playbooks import hooks  # noqa: E402  # found only now

from mcp_launch.__main__ import main  # noqa: E402  # found only now

hooks.install(*sys.argv[1:3])
del sys.argv[1:3]
sys.exit(main())
