"""What a server prints does not reach a terminal as more than text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launches import LaunchRunner


def is_tame(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in text)


def test_what_we_say_of_a_servers_noise_is_only_text(runner: LaunchRunner) -> None:
    noise = "\x1b]52;c;ZXZpbA==\x07\x9b2Jready\tnow"
    code = f"import sys; print({noise!r}, flush=True); sys.stdin.read()"

    launch = runner.launch("--server", "noisy\x1b[2J", "--", sys.executable, "-c", code)

    said = launch.finish()[2].decode()
    assert "ready" in said
    assert is_tame(said), ascii(said)
