"""Which reader of TOML a fresh interpreter imports."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("text", "is_needed"), [("a = {b = 1}", "False"), ("a = {b = 1,}", "True")]
)
def test_the_slow_reader_is_imported_only_where_the_other_gives_up(
    text: str, is_needed: str
) -> None:
    script = "import sys; from mcp_launch.documents import toml; toml.read(sys.argv[1])"
    script += "; print('tomlkit' in sys.modules)"

    said = subprocess.check_output([sys.executable, "-c", script, text], encoding="utf-8")

    assert said.strip() == is_needed
