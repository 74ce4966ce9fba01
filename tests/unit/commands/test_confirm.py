"""The question before a change, and its answer."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

from mcp_launch import cli
from mcp_launch.commands import confirm
from mcp_launch.commands.screen import Screen

if TYPE_CHECKING:
    import pytest


class Keyboard(io.BytesIO):
    def isatty(self) -> bool:
        return True


def type_in(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Keyboard(answer), encoding="utf-8"))


def test_the_name_of_a_file_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(b"y\n", monkeypatch)
    shown = io.StringIO()

    assert confirm.is_agreed(Screen(file=shown), "Add it to /a/[red]/[/b]\n/c?", is_sure=False)
    assert shown.getvalue() == r"Add it to /a/[red]/[/b]\n/c? [y/N] "


def test_an_answer_that_is_not_text_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    type_in(b"\xff\xfe\n", monkeypatch)
    cli.run(["--version"])  # every command begins by preparing the streams

    assert not confirm.is_agreed(Screen(file=io.StringIO()), "Really?", is_sure=False)
