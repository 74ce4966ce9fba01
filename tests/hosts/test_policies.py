"""Profiles that limit what hosts may call, and the records of their calls."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hosts import claude, codex
from hosts.codex_and_claude import HOSTS
from hosts.fake_models import LIMIT
from hosts.isolation import wait_until_alone
from hosts.workspace import FAREWELL, LAUNCHED, SERVER, Observation, Workspace, promise

# Claude Code speaks both eras of the protocol, Codex one.
IN_EACH_ERA = pytest.mark.parametrize(
    ("host", "era", "version"),
    [("codex", [], "2025-06-18"), ("claude", ["--modern"], "2026-07-28")],
    ids=["codex", "claude-2026"],
)

CODEX = "mcp__codex__codex"
LOOK = "mcp__probe__look"
SHOUT = "mcp__probe__shout"

# What the inner Codex does: it calls a server of its own, and a shell leaves a file.
LEFT = "left-by-a-shell"
WORK = f'call {LOOK} {{}} call exec_command {{"cmd": "touch {LEFT}"}}'

STAY = 'cwd = { inside = "project_root" }'
NO_CONFIG = "config = { value = {} }"


def write_profile(workspace: Workspace, *lines: str) -> None:
    """Write the user's profiles."""
    path = ".config/mcp-launch/config.toml"
    workspace.write(path, "\n".join(lines) + "\n")
    (workspace.home / path).chmod(0o600)


def read_records(workspace: Workspace, server: str) -> list[dict[str, Any]]:
    """Return the records of a server's calls."""
    parts = sorted((workspace.home / ".local/state/mcp-launch/calls").glob("*.jsonl"))
    lines = [line for part in parts for line in part.read_text(encoding="utf-8").splitlines()]
    return [one for one in map(json.loads, lines) if one["server"] == server]


def wait_for_records(workspace: Workspace, server: str, count: int) -> list[dict[str, Any]]:
    """Return the records of a server's calls, once there are so many."""
    deadline = time.monotonic() + LIMIT
    while len(found := read_records(workspace, server)) < count:
        assert time.monotonic() < deadline, f"{len(found)} of {count} calls were recorded"
        time.sleep(0.02)
    return found


def have_codex_work(workspace: Workspace, project: str, *calls: dict[str, Any]) -> list[str]:
    """Have Claude Code call `codex mcp-server`; return the answers once everything has ended."""
    serving = [str(workspace.programs["old-codex"]), "mcp-server"]
    claude.configure(workspace, workspace.wrap(serving, "--server", "codex"), server="codex")
    codex.configure(workspace, workspace.wrap(SERVER))
    words = [f"call {CODEX} {json.dumps({'prompt': WORK, **call})}" for call in calls]
    claude.run(workspace, project, words=" ".join(words)).wait(LIMIT)
    assert not wait_until_alone(FAREWELL)
    answers = [one.text for one in workspace.models.answers if one.tool == CODEX]
    assert len(answers) == len(calls), workspace.read_output()
    return answers


def list_places(workspace: Workspace) -> list[str]:
    """Return the directories in which the inner Codex has started its server."""
    return [Observation(one).cwd for one in workspace.models.answers if one.tool == LOOK]


def is_untouched(project: str) -> bool:
    return os.listdir(project) == [".git"]


def test_a_codex_that_claude_code_calls(workspace: Workspace) -> None:
    project, other = workspace.make_project("project"), workspace.make_project("other")
    part, link = Path(project, "part"), Path(project, "link")
    part.mkdir()
    link.symlink_to(other)
    write_profile(workspace, "[servers.codex.arguments]", STAY)

    outside = [{"cwd": other}, {"cwd": "../other"}, {"cwd": str(link)}]
    inside = [{}, {"cwd": str(part)}]
    answers = have_codex_work(workspace, project, *outside, *inside)

    # A Codex that is called with the directory of another project stays out of it.
    promise(is_untouched(other), "it works in the other project")
    for answer in answers[: len(outside)]:
        assert f"cwd = {other}, which is outside {project} " in answer
    assert list_places(workspace) == [project, str(part)]
    # A Codex that is called without a directory works in the caller's project.
    assert list_places(workspace)[-2] == project
    assert Path(project, LEFT).exists()
    # A Codex that is called with a directory of the project works there.
    assert list_places(workspace)[-1] == str(part)
    assert Path(part, LEFT).exists()
    if workspace.launcher:
        records = read_records(workspace, "codex")
        outcomes = [one["outcome"] for one in records]
        assert outcomes == ["refused"] * len(outside) + ["ok"] * len(inside)
        # No server got what was refused.
        assert [bool(one["pid"]) for one in records] == [one == "ok" for one in outcomes]


def test_settings_in_a_call_of_codex_start_nothing_in_another_project(
    workspace: Workspace,
) -> None:
    project, other = workspace.make_project("project"), workspace.make_project("other")
    write_profile(workspace, "[servers.codex.arguments]", STAY, NO_CONFIG)

    # `cwd` itself is no setting of Codex, but its settings name programs and their directories.
    touch = {"command": "touch", "args": ["left-by-a-server"], "cwd": other}
    settings: list[dict[str, Any]] = [
        {"cwd": other},
        {"mcp_servers.probe.cwd": other},
        {"mcp_servers": {"another": touch}},
        {"notify": ["touch", f"{other}/left-by-notify"]},
    ]
    have_codex_work(workspace, project, *[{"config": one} for one in settings])

    is_moved = other in list_places(workspace)
    promise(not is_moved and is_untouched(other), "Codex starts programs there")
    assert list_places(workspace) == [project] * len(settings)
    changed = [one["changed"] for one in read_records(workspace, "codex")]
    assert changed == [["config"]] * len(settings)


@pytest.mark.parametrize("host", list(HOSTS))
def test_a_hidden_tool_is_not_offered_to_the_model(workspace: Workspace, host: str) -> None:
    project = workspace.make_project("project")
    write_profile(workspace, "[servers.probe]", 'tools = { deny = ["sh*"] }')
    HOSTS[host].configure(workspace, workspace.wrap(SERVER, "--server", "probe"))

    HOSTS[host].run(workspace, project, words=f"call {LOOK} {{}} call {SHOUT} {{}}").wait(LIMIT)

    assert Observation(workspace.models.answers[0]).calls == 1
    hidden = [tool for _, tool in workspace.models.not_offered]
    promise(hidden == [SHOUT], "the model can call it")
    assert len(workspace.models.answers) == 1


def test_a_hidden_tool_that_codex_calls_by_its_name_is_refused(workspace: Workspace) -> None:
    project = workspace.make_project("project")
    write_profile(workspace, "[servers.probe]", 'tools = { deny = ["sh*"] }')
    codex.configure(workspace, workspace.wrap(SERVER, "--server", "probe"))
    host = codex.AppServer(workspace)
    [thread] = host.start_threads(project)

    # A client of Codex may call any tool, whether Codex has listed it or not.
    call = {"threadId": thread, "server": "probe", "arguments": {}}
    refused = host.ask("mcpServer/tool/call", tool="shout", **call)
    looked = host.ask("mcpServer/tool/call", tool="look", **call)

    promise(refused.get("isError"), "the server answers")
    assert "the tool shout of probe is hidden by the user's profile" in json.dumps(refused)
    assert "<<" in json.dumps(looked)
    records = wait_for_records(workspace, "probe", 2)
    told = [(one["tool"], one["outcome"], bool(one["pid"])) for one in records]
    assert told == [("shout", "refused", False), ("look", "ok", True)]


@LAUNCHED
@IN_EACH_ERA
def test_a_call_is_recorded_with_its_session(
    workspace: Workspace, host: str, era: list[str], version: str
) -> None:
    project = workspace.make_project("project")
    HOSTS[host].configure(workspace, workspace.wrap([*SERVER, *era], "--server", "probe"))
    words = f'call {LOOK} {{"mark": "not-to-be-recorded"}} call {SHOUT} {{}}'
    before = time.time()

    if host == "codex":
        codex.run(workspace, project, words=words).wait(LIMIT)
    else:
        claude.run(workspace, project, words=words).wait(LIMIT)

    records = wait_for_records(workspace, "probe", 2)
    sights = workspace.wait_for_observations(2)
    for number, (record, sight) in enumerate(zip(records, sights, strict=True), start=1):
        assert before <= record.pop("time") <= time.time()
        assert min(record.pop(name) for name in ("ms", "request", "response")) > 0
        assert record.pop("launch") == sight.context["launchId"]
        for name in ("id", "waited"):
            record.pop(name, None)
        assert record == {
            "outcome": "ok",
            "host": host,
            "session": sight.asker,
            **({"thread": sight.asker} if host == "codex" else {}),
            "project": project,
            "cwd": project,
            "server": "probe",
            "number": number,
            "pid": sight.pid,
            "tool": ["look", "shout"][number - 1],
            "protocol": version,
        }
