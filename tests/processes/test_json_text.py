"""JSON in an interpreter that has not imported json."""

from __future__ import annotations

import subprocess
import sys

BROKEN = ["", '"', "{", "[", '{"a', '{"a":', '"\\u12', "-", "nul", "{} {}", "'a'"]


def test_what_is_broken_is_a_value_error_though_nobody_imported_json() -> None:
    code = (
        "import sys\n"
        "from mcp_launch.protocol import json_text as jsontext\n"
        f"for text in {BROKEN!r}:\n"
        "    try: jsontext.parse(text.encode())\n"
        "    except ValueError: continue\n"
        "    sys.exit(text)\n"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
