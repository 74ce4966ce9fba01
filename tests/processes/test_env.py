"""`env` on real processes: a launch gives what it says, and its stdin is not touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from launches import ENVIRONMENT_SERVER, LIMIT, LaunchRunner, python

THREAD = "0199f3a1-0000-7000-8000-000000000001"


ENV = [sys.executable, "-m", "mcp_launch", "env", "--json", "--"]

# Asks what a launch would give, writes it to a file, and becomes that launch.
ASK_AND_LAUNCH = f"""
import os, subprocess, sys
with open(sys.argv[1], "wb") as file:
    subprocess.run([*{ENV}, *sys.argv[2:]], stdout=file, check=True)
os.execv(sys.executable, [sys.executable, "-m", "mcp_launch", "run", *sys.argv[2:]])
"""


def values(told: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in told["variables"]}


USER_FILE = ".config/mcp-launch/config.toml"


def ask(*words: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*ENV, *words], check=False, capture_output=True, timeout=LIMIT, **options
    )


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("kind", ["closed", "a terminal", "nothing", "somebody's"])
def test_stdin_may_be_anything_and_is_not_read(kind: str) -> None:
    ours, terminal = os.openpty()
    reading, writing = os.pipe()
    os.write(writing, b"for somebody else\n")
    os.close(writing)
    stdin = {"a terminal": terminal, "somebody's": reading}.get(kind, subprocess.DEVNULL)

    done = ask(stdin=stdin, preexec_fn=(lambda: os.close(0)) if kind == "closed" else None)

    assert (done.returncode, done.stderr) == (0, b"")
    assert os.read(reading, 100) == b"for somebody else\n"
    for one in (terminal, ours, reading):
        os.close(one)
    told = json.loads(done.stdout)["frame"]["stdin"]
    known = {"value": "unknown", "origin": "stdin is neither a pipe nor a socket"}
    assert (told == known) == (kind != "somebody's")


# options of `run`
LAUNCHES = {
    "by default": [],
    "on the direct wire": ["--direct"],
    "with facts": [
        *("--env", "S=session", "--env", "P=host_pid", "--env", "H=host", "--env", "W=cwd"),
        *("--env", "R=project_root", "--env", "A=local", "--cwd", "sub"),
    ],
    "with a dotenv": ["--dotenv", ".env"],
    "with a part of a dotenv": ["--env", "D=dotenv", "--pass-env", "safe"],
    "with a profile": ["--server", "it", "--pass-env", "A,PYTHON*"],
}


@pytest.mark.parametrize(
    ("program", "words"),
    [
        *(("codex", words) for words in LAUNCHES.values()),
        *((program, LAUNCHES["with facts"]) for program in ("claude", "nobody")),
    ],
    ids=[*LAUNCHES, "of Claude Code", "of nobody"],
)
def test_a_launch_gives_what_was_told(
    program: str, words: list[str], runner: LaunchRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same place, the same host, the same words: asked first, then launched."""
    above = runner.project.parent
    (runner.project / "sub").mkdir()
    (runner.project / ".env").write_text("D=d\nA=dotenv\nMCP_LAUNCH_HOST=me\n", encoding="utf-8")
    file = above / "home" / USER_FILE
    file.parent.mkdir(parents=True)
    text = "[servers.it]\nenv = { F = 'f-${A}' }\nenv_vars = ['A', 'GONE']\n"
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    leaked = {"CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PROJECT_DIR": str(runner.project)}
    leaked |= {"CODEX_THREAD_ID": "t-0", "AGENT_SESSION_ID": "g-0", "OPENAI_API_KEY": "k-0"}
    own = {"MCP_LAUNCH_ENV": "E=host", "MCP_LAUNCH_ID": "outer", "MCP_LAUNCH_RESTART": "off"}
    for name, text in {**leaked, **own, "A": "ä\tb", "GONE": "", "LC_ALL": "C.UTF-8"}.items():
        monkeypatch.setenv(name, text)
    locks = above / "home" / ".codex" / "thread-writer-locks"
    locks.mkdir(parents=True)
    out = above / "told.json"
    command = [*python(ASK_AND_LAUNCH), str(out), *words, "--", *ENVIRONMENT_SERVER]

    opened = ["--open", str(locks / f"{THREAD}.lock")]
    seen = runner.launch_below_host(program, *opened, command=command).ask("look")

    told = json.loads(out.read_text(encoding="utf-8"))
    assert told["frame"]["cwd"]["value"] == seen["cwd"]
    assert values(told).keys() == seen["env"].keys()
    unlike = {name for name, text in values(told).items() if seen["env"][name] != text}
    hidden = {name for name in unlike if values(told)[name] in {"***", "(new with each launch)"}}
    assert unlike == hidden
    assert {"MCP_LAUNCH_ID"} <= hidden
    assert values(told).get("CODEX_THREAD_ID") == (THREAD if program == "codex" else None)
