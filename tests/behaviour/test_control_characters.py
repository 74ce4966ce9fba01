"""Nothing that comes from a file, a project or a server reaches a terminal as more than text."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path

import pytest
from call_parts import CallParts
from command_line import run_command
from rich.table import Table
from rich.text import Text

from mcp_launch import main, state, system
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import LaunchError, tell
from mcp_launch.state import launch_log

EVIL = {
    "the clipboard (OSC 52)": "\x1b]52;c;ZXZpbA==\x07",
    "a colour (CSI)": "\x1b[2J",
    "a C1 control": "\x9b2J",
    "a bidirectional override": "\u202etxt.exe",
    "a delete": "\x7f",
    "a carriage return": "safe\revil",
    "a line separator": "a\u2028b",
    "a backspace": "a\x08b",
}
ALL = "".join(EVIL.values())


def is_tame(text: str) -> bool:
    return all(one.isprintable() or one == "\n" for one in text)


@pytest.mark.parametrize("evil", EVIL.values(), ids=list(EVIL))
def test_an_error_is_only_text(evil: str) -> None:
    stream = io.StringIO()
    error = LaunchError(f"no {evil}", fix=f"remove {evil}")

    tell(error, stream)

    assert is_tame(stream.getvalue())
    assert stream.getvalue().count("\n") == 2
    # The host is told the same, and shows it, too.
    assert is_tame(error.problem + error.fix + str(error))


@pytest.mark.parametrize("evil", EVIL.values(), ids=list(EVIL))
def test_a_screen_shows_only_text_whatever_it_is_given(evil: str) -> None:
    file = io.StringIO()
    table = Table(evil)
    table.add_row(Text(evil))

    screen = Screen(file=file, width=200)
    for one in (evil, Text(evil, "bold"), table):
        screen.print(one)

    assert is_tame(file.getvalue())


def test_a_screen_keeps_styles_on_a_terminal() -> None:
    file = io.StringIO()

    Screen(file=file, width=80, force_terminal=True).print(Text("a\x1b[2Jb", "bold"))

    assert file.getvalue() == "\x1b[1ma\\x1b[2Jb\x1b[0m\n"


@pytest.mark.parametrize(
    "words",
    [
        ["wrap", "--dry-run"],
        ["wrap", "--yes"],
        ["unwrap", "--dry-run"],
        ["doctor"],
        ["doctor", "--fix"],
        ["env", "it"],
        ["env", "--explain", "EVIL", "it"],
        ["list"],
        ["list", "-v"],
        ["ps"],
        ["logs"],
        ["list", "--profiles"],
        ["calls"],
        ["calls", "--stats"],
        ["restart", ALL],
        ["reap", "--dry-run"],
        ["explain", ALL],
        ["uninstall", "--dry-run"],
    ],
    ids=lambda words: ascii(" ".join(words))[:30],
)
def test_no_command_lets_a_file_speak_to_the_terminal(
    words: list[str], project: Path, own_home: Path, tmp_path: Path
) -> None:
    entry = {"command": f"x{ALL}", "args": [ALL, "mcp-launch", ALL], "env": {f"A{ALL}": ALL}}
    servers = {"it": entry, f"evil{ALL}": entry, "bad": {"command": 3, "cwd": ALL}}
    text = json.dumps({"mcpServers": servers}, ensure_ascii=False)
    (project / ".mcp.json").write_text(text, encoding="utf-8")
    (own_home / ".claude.json").write_text(text, encoding="utf-8")
    broken = own_home / ".cursor" / "mcp.json"
    broken.parent.mkdir()
    broken.write_text(f'{{"{ALL}" {ALL}', encoding="utf-8")
    profile = f'[servers."it{json.dumps(ALL)[1:-1]}"]\ncommand = {json.dumps(ALL)}\nzzz = 1\n'
    config = own_home / ".config" / "mcp-launch" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text(profile, encoding="utf-8")
    CallParts(tmp_path / "state").add({"tool": ALL, "server": ALL, "host": ALL, "project": ALL})
    logs = Path(launch_log.find_directory(os.environ))
    logs.mkdir(parents=True)
    line = f"1.0 e {ALL}".replace("\n", " ")
    head = json.dumps({"version": 1, "part": 1, "server": f"s{ALL}", "cwd": ALL})
    (logs / "0123456789abcdef.log").write_text(f"1.0 i {head}\n{line}\n1.0 t {ALL}\n", "utf-8")

    _, out, err = run_command(*words, EVIL=ALL)

    said = out + err
    assert said
    assert is_tame(said), ascii(said)


def test_a_trace_is_only_text(capfd: pytest.CaptureFixture[str]) -> None:
    state.show_trace()
    try:
        state.note(f"cwd {ALL}")
    finally:
        state._is_on = False  # noqa: SLF001
        state._kept.clear()  # noqa: SLF001

    assert is_tame(capfd.readouterr().err)


def test_a_fault_of_our_own_is_reported_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> int:
        raise ZeroDivisionError(ALL)

    monkeypatch.setattr(system, "open_table", fail)

    assert main(["ps"]) == 125

    said = capsys.readouterr().err
    assert "a bug in mcp-launch: ZeroDivisionError" in said
    assert "Traceback" not in said
    assert is_tame(said)
