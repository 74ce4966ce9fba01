"""Which host a process is, by its name, program and script, and what only looks like one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import FakeProcessTable

from mcp_launch import hosts

if TYPE_CHECKING:
    from pathlib import Path

NODE = "/usr/bin/node"
PYTHON = "/usr/bin/python3.12"

Row = tuple[str, str, list[str]]


def node(*words: str, name: str = "node", program: str = NODE) -> Row:
    """Return a process that runs a script in Node, or with the main thread's name."""
    return (name, program, ["node", *words])


def shown(name: str, program: str = "", *words: str) -> Row:
    return (name, program, list(words))


# the kernel's name, the program, the command line, the host
HOSTS = {
    "Codex": (shown("codex"), "codex"),
    "Codex from a release archive": (shown("codex-x86_64-un"), "codex"),
    "Claude Code": (shown("claude"), "claude"),
    "a natively installed Claude Code": (
        shown("2.1.325", "/u/.local/share/claude/versions/2.1.325"),
        "claude",
    ),
    "Claude Code's script": (
        node("--max", "/u/node_modules/@anthropic-ai/claude-code/cli.js"),
        "claude",
    ),
    "Gemini CLI's script": (node("/usr/local/bin/gemini"), "gemini"),
    "Goose": (shown("goosed"), "goose"),
    "VS Code": (shown("code"), "vscode"),
    "VS Code as a server": (
        node(
            "--dns-result-order=ipv4first",
            "/u/node_modules/code-server/lib/vscode/out/bootstrap-fork",
            "--type=extensionHost",
            "--transformURIs",
            name="MainThread",
        ),
        "vscode",
    ),
    "Cursor": (shown("cursor"), "cursor"),
    "Cursor as a server": (
        node(
            "/h/.cursor-server/bin/1/out/bootstrap-fork",
            "--type=extensionHost",
            program="/h/.cursor-server/bin/1/node",
        ),
        "cursor",
    ),
    "Windsurf as a server": (
        node(
            "/h/.windsurf-server/bin/1/out/bootstrap-fork.js",
            "--type=extensionHost",
            program="/h/.windsurf-server/bin/1/node",
        ),
        "windsurf",
    ),
    "Zed": (shown("zed-editor"), "zed"),
    "Copilot's own program": (
        shown(
            "MainThread",
            "/u/node_modules/@github/copilot-linux-x64/copilot",
            "/u/node_modules/@github/copilot-linux-x64/copilot",
            "-p",
            "x",
        ),
        "copilot",
    ),
    "Copilot's loader": (
        node("/u/node_modules/@github/copilot/npm-loader.js", name="MainThread"),
        "copilot",
    ),
    "Qwen Code": (
        shown(
            "MainThread",
            NODE,
            NODE,
            "--expose-gc",
            "/u/node_modules/@qwen-code/qwen-code/cli.js",
            "--acp",
        ),
        "qwen",
    ),
    "Qwen Code from pnpm": (
        node("/u/node_modules/.pnpm/q@1/node_modules/@qwen-code/qwen-code/cli.js"),
        "qwen",
    ),
    "Kimi Code, which erases its command line": (shown("kimi-code", NODE, "kimi-code"), "kimi"),
    "Kimi Code before that": (node("/u/node_modules/@moonshot-ai/kimi-code/dist/main.mjs"), "kimi"),
    "Cline": (
        shown(
            "cline", "/u/node_modules/@cline/cli-linux-x64/bin/cline", "/u/node_modules/.bin/cline"
        ),
        "cline",
    ),
    "Cline's script": (node("/u/node_modules/cline/bin/cline"), "cline"),
    "Vibe's servers": (shown("vibe-app-server", PYTHON, "vibe-app-server"), "vibe"),
    "Vibe for editors": (shown("vibe-acp", PYTHON, "/v/bin/python", "/v/bin/vibe-acp"), "vibe"),
    "Vibe's script": (shown("python3.12", PYTHON, "python3.12", "/v/bin/vibe"), "vibe"),
    "Kilo Code": (shown(".kilo", "/u/node_modules/@kilocode/cli/bin/.kilo", ".kilo"), "kilo"),
    "opencode": (
        shown(
            "opencode",
            "/u/node_modules/opencode-ai/bin/opencode.exe",
            "/u/node_modules/.bin/opencode",
        ),
        "opencode",
    ),
    "Factory Droid's script": (node("/u/node_modules/droid/bin/droid"), "droid"),
    "Factory Droid": (shown("droid", "/h/.local/bin/droid", "droid"), "droid"),
    "Continue": (node("/u/node_modules/@continuedev/cli/dist/cn.js"), "continue"),
    "OpenHands": (shown("openhands", PYTHON, "/v/bin/python", "/v/bin/openhands"), "openhands"),
    "a link that leads nowhere": (node("/u/node_modules/.bin/qwen"), "qwen"),
}

LOOK_ALIKES = {
    "a shell": shown("bash", "/bin/bash", "bash"),
    "somebody's script": node("/srv/app.js"),
    "a program whose name begins like a host's": shown(
        "cline-notes", "/home/me/bin/cline-notes", "cline-notes"
    ),
    "somebody's script with the name of a host": node("/srv/qwen.js"),
    "a script in Python": shown("python3", PYTHON, "python3", "/srv/vibe.py"),
    "a script in Python with the name of a host that is not": shown(
        "python3", PYTHON, "python3", "/home/me/bin/code"
    ),
    "a script whose name begins like a host's": node("/srv/copilot-something"),
    "a package whose name begins like a host's": node(
        "/u/node_modules/@github/copilot-language-server/dist/server.js"
    ),
    "a package whose name ends like a host's": node("/u/node_modules/my-opencode-ai/index.js"),
    "a package of another maker": node("/u/node_modules/@somebody/cline/index.js"),
    "a script of another package with the name of a host": node(
        "/u/node_modules/qwen-chat/bin/qwen"
    ),
    "a server inside a host's own package": node(
        "/u/node_modules/@github/copilot/node_modules/a-server/index.js"
    ),
    "a project that is called like a package": node("/home/me/@google/gemini-cli/scripts/notes.js"),
    "VS Code's terminal": node(
        "/h/.vscode-server/bin/1/out/bootstrap-fork",
        "--type=ptyHost",
        name="MainThread",
        program="/h/.vscode-server/bin/1/node",
    ),
    "VS Code's watcher": node("/h/.vscode-server/bin/1/out/bootstrap-fork", "--type=fileWatcher"),
    "a script that begins like VS Code's": node(
        "/srv/out/bootstrap-forklift.js", "--type=extensionHost"
    ),
    "an argument that is a host's script": node(
        "/srv/lint.js", "/u/node_modules/@qwen-code/qwen-code/cli.js"
    ),
    "somebody's own cn": shown("cn", "/home/me/bin/cn", "cn"),
}


def recognise(row: Row) -> str | None:
    name, executable, argv = row
    table = FakeProcessTable()
    process = table.add(5, name)
    table.executables[5] = executable
    table.argv[5] = argv
    host = hosts.recognise(table, process)
    return host.name if host else None


@pytest.mark.parametrize(("row", "expected"), HOSTS.values(), ids=list(HOSTS))
def test_a_host_is_recognised(row: Row, expected: str) -> None:
    assert recognise(row) == expected


@pytest.mark.parametrize("row", LOOK_ALIKES.values(), ids=list(LOOK_ALIKES))
def test_no_host_is(row: Row) -> None:
    assert recognise(row) is None


@pytest.mark.parametrize(
    ("link", "script", "expected"),
    [
        ("cn", "@continuedev/cli/dist/cn.js", "continue"),
        ("kimi", "@moonshot-ai/kimi-code/dist/main.mjs", "kimi"),
        ("qwen", "qwen-chat/cli.js", None),
    ],
)
def test_a_link_is_what_it_leads_to(
    link: str, script: str, expected: str | None, tmp_path: Path
) -> None:
    target = tmp_path / "node_modules" / script
    target.parent.mkdir(parents=True)
    target.touch()
    (tmp_path / "node_modules" / ".bin").mkdir()
    path = tmp_path / "node_modules" / ".bin" / link
    path.symlink_to(target)

    assert recognise(node(str(path))) == expected


def test_a_host_has_the_name_that_its_maker_gave_it() -> None:
    titles = {
        "cline": "Cline",
        "continue": "Continue",
        "copilot": "Copilot CLI",
        "droid": "Factory Droid",
        "kilo": "Kilo Code",
        "kimi": "Kimi Code",
        "openhands": "OpenHands",
        "qwen": "Qwen Code",
        "vibe": "Mistral Vibe",
    }
    assert {name: hosts.load(name).title for name in titles} == titles
