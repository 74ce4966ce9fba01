"""`mcp-launch list`: what the hosts' files configure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command
from fake_hosts import limit_to_subtree
from fake_output import FakeOutput
from git_repository import track

from mcp_launch import main, system

if TYPE_CHECKING:
    from pathlib import Path

FILES = ["npx", "-y", "@modelcontextprotocol/server-filesystem"]

# Every kind of entry.
CODEX = """
[mcp_servers.files]
command = "/opt/bin/mcp-launch"
args = ["run", "--server", "files", "--", "npx", "-y", "@modelcontextprotocol/server-filesystem"]

[mcp_servers.docs]
command = "uvx"
args = ["docs-mcp", "--api-key", "s3cret-key-of-mine"]

[mcp_servers.sentry]
url = "https://mcp.sentry.dev:8443/mcp?token=s3cret-key-of-mine"

[mcp_servers.old]
command = "old-server"
enabled = false

[mcp_servers.bad]
args = ["x"]
"""


@pytest.fixture(autouse=True)
def only_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the processes of the machine: some of them may be servers."""
    monkeypatch.setattr(system, "open_table", limit_to_subtree)


@pytest.fixture
def files(own_home: Path, project: Path) -> Path:
    """Write files of three hosts, and return the home."""
    (own_home / ".codex").mkdir()
    (own_home / ".codex" / "config.toml").write_text(CODEX.lstrip(), encoding="utf-8")
    private = {"db": {"command": "node", "args": ["tools/db.js"]}}
    claude = {
        "mcpServers": {"docs": {"command": "mcp-launch", "args": ["run", "--", "uvx", "docs-mcp"]}},
        "projects": {str(project): {"mcpServers": private}},
    }
    (own_home / ".claude.json").write_text(json.dumps(claude), encoding="utf-8")
    return own_home


def list_all(*words: str) -> dict[str, dict[str, Any]]:
    """Return what is listed as data, by host and name."""
    done = run_command("list", "--json", *words)
    assert done.returncode == 0
    servers = json.loads(done.stdout)["servers"]
    return {f"{one['host']} {one['server']}": one for one in servers}


@pytest.mark.usefixtures("files")
def test_every_server_of_every_host_has_a_row(project: Path) -> None:
    entry = {"mcpServers": {"team": {"command": "python3", "args": ["tools/team.py"]}}}
    (project / ".mcp.json").write_text(json.dumps(entry), encoding="utf-8")
    track(project, ".mcp.json")

    done = run_command("list")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "  SERVER  SCOPE    HOW          PROFILE  RUNS  COMMAND",
        "Codex  ~/.codex/config.toml",
        f"  files   user     wrapped      -           -  {' '.join(FILES)}",
        "  docs    user     not wrapped  -           -  uvx docs-mcp --api-key ***",
        "  sentry  user     remote       -           -  mcp.sentry.dev:8443",
        "  old     user     disabled     -           -  old-server",
        "  bad     user     invalid      -           -",
        "Claude Code  ~/.claude.json",
        "  docs    user     wrapped      -           -  uvx docs-mcp",
        f"Claude Code  ~/.claude.json  for {project}",
        "  db      local    not wrapped  -           -  node tools/db.js",
        f"Claude Code  {project}/.mcp.json  in Git",
        "  team    project  not wrapped  -           -  python3 tools/team.py",
        "8 servers of 2 hosts: 2 wrapped, 3 not wrapped, 1 remote, 1 disabled, 1 invalid",
    ]
    assert list_all()["claude team"]["is_tracked"] is True


@pytest.mark.usefixtures("files")
def test_programs_get_one_object_for_each_server(project: Path) -> None:
    listed = list_all()

    files = listed["codex files"]
    assert (files["line"], files["column"], files["scope"]) == (1, 1, "user")
    assert files["options"] == {"--server": ["files"]}
    assert files["command"] == FILES
    kinds = {name: one["kind"] for name, one in listed.items()}
    assert kinds == {
        "codex files": "wrapped",
        "codex docs": "not wrapped",
        "codex sentry": "remote",
        "codex old": "disabled",
        "codex bad": "invalid",
        "claude docs": "wrapped",
        "claude db": "not wrapped",
    }
    assert listed["codex sentry"]["address"] == "mcp.sentry.dev:8443"
    assert listed["codex bad"]["why_not"] == "its command is missing or malformed"
    assert listed["claude db"]["project"] == str(project)
    assert "s3cret" not in json.dumps(listed)


@pytest.mark.usefixtures("files")
def test_names_and_hosts_narrow_the_list() -> None:
    assert list(list_all("docs")) == ["codex docs", "claude docs"]
    assert list(list_all("docs", "--host", "claude")) == ["claude docs"]
    assert list(list_all("--host", "claude")) == ["claude docs", "claude db"]


@pytest.mark.usefixtures("files")
def test_verbose_shows_where_an_entry_is_and_why_it_is_not_started() -> None:
    lines = run_command("list", "-v").stdout.splitlines()

    at = lines.index("    ~/.codex/config.toml:9:1")
    assert lines[at + 1 : at + 3] == [
        "    not started: it is a remote server",
        "    at: mcp.sentry.dev:8443",
    ]
    assert "    options of run: --server files" in lines


def test_where_nothing_is_configured_the_files_are_named(project: Path) -> None:
    done = run_command("list")

    assert done.returncode == 0
    first, *lines = done.stdout.splitlines()
    assert first == "No MCP servers are configured. These files were looked for:"
    assert lines[0].split() == ["Codex", "~/.codex/config.toml"]
    assert any(line.strip() == f"{project}/.codex/config.toml" for line in lines)
    assert any(line.split()[0] == "Goose" for line in lines)
    assert list_all() == {}


def test_a_broken_file_is_named_and_does_not_stop_the_rest(files: Path) -> None:
    (files / ".cursor").mkdir()
    (files / ".cursor" / "mcp.json").write_text('{"mcpServers": {\n  3', encoding="utf-8")

    done = run_command("list")

    assert done.returncode == 1
    assert f"{files}/.cursor/mcp.json:2:3: " in done.stderr
    assert done.stdout.splitlines()[-1].endswith("; 1 file could not be read")
    as_data = run_command("list", "--json")
    assert as_data.returncode == 1
    (broken,) = json.loads(as_data.stdout)["unreadable"]
    assert (broken["host"], broken["line"], broken["column"]) == ("cursor", 2, 3)


@pytest.mark.usefixtures("files")
def test_profiles_are_shown_and_whether_they_are_used(own_home: Path) -> None:
    user = own_home / ".config" / "mcp-launch" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("[servers.files]\n[servers.docs]\n", encoding="utf-8")

    listed = list_all()

    # Without --server no profile applies.
    assert listed["claude docs"]["profile"]["is_used"] is False
    assert listed["codex docs"]["profile"]["is_used"] is True
    assert listed["codex old"]["profile"] is None
    assert "yes (not" in run_command("list").stdout


def test_entries_that_are_not_the_users_to_change_are_said_to_be_so(own_home: Path) -> None:
    entry = {"mcpServers": {"it": {"command": "it-server"}}}
    plugin = own_home / ".claude" / "plugins" / "one" / ".mcp.json"
    plugin.parent.mkdir(parents=True)
    plugin.write_text(json.dumps(entry), encoding="utf-8")
    gone = {"projects": {"/no/such/project": entry}}
    (own_home / ".claude.json").write_text(json.dumps(gone), encoding="utf-8")

    done = run_command("list", "--json")

    servers = json.loads(done.stdout)["servers"]
    assert [(one["scope"], one["kind"]) for one in servers] == [
        ("local", "not used"),
        ("plugin", "plugin"),
    ]
    assert servers[0]["why_not"] == "its project is gone"


@pytest.mark.parametrize(
    ("entry", "address"),
    [
        ({"url": "https://user:pass@example.com/mcp?key=1"}, "example.com"),
        ({"httpUrl": "http://localhost:8080/"}, "localhost:8080"),
        ({"url": "http://[::1"}, None),
        ({"type": "http"}, None),
    ],
    ids=["with a password", "with a port", "not a URL", "none"],
)
def test_of_a_remote_server_only_its_host_is_shown(
    entry: dict[str, str], address: str | None, own_home: Path
) -> None:
    file = own_home / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"far": entry}}), encoding="utf-8")

    far = list_all()["cursor far"]

    assert (far["kind"], far["is_remote"], far["address"]) == ("remote", True, address)


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["npx", "-y", f"@{'scope' * 20}/server-everything"], "npx …/server-everything"),
        (["npx", "-y", "docs", "--port", "1" * 100], "npx … docs --port 1"),
        ([f"/{'a' * 99}/node", "/opt/docs/server.js", "-v"], "…/node …/server.js -v"),
        ([f"/{'a b' * 33}/docs"], "…/docs"),
    ],
    ids=["scope", "option", "directories", "one word"],
)
def test_a_shortened_command_shows_where_something_is_left_out(
    command: list[str], shown: str, own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"command": command[0], "args": command[1:]}
    text = json.dumps({"mcpServers": {"it": entry}})
    (own_home / ".cursor").mkdir()
    (own_home / ".cursor" / "mcp.json").write_text(text, encoding="utf-8")
    monkeypatch.setenv("COLUMNS", "80")

    lines = FakeOutput(is_terminal=True).show(lambda: main(["list"])).splitlines()

    assert f"  {shown}" in lines[2]


def test_no_fixed_value_of_a_variable_is_shown(own_home: Path) -> None:
    run = ["run", "--server", "it", "--set", "PLAIN=tango17", "--set", "MORE=tango18", "--strict"]
    entry = {"command": "mcp-launch", "args": [*run, "--", "server"]}
    text = json.dumps({"mcpServers": {"it": entry}})
    (own_home / ".cursor").mkdir(exist_ok=True)
    (own_home / ".cursor" / "mcp.json").write_text(text, encoding="utf-8")

    shown = run_command("list", "-v", "--host", "cursor").stdout
    as_json = run_command("list", "--json", "--host", "cursor").stdout

    assert "--set 'PLAIN=***' --set 'MORE=***' --strict" in shown
    options = json.loads(as_json)["servers"][0]["options"]
    assert options == {"--server": ["it"], "--set": ["PLAIN=***", "MORE=***"], "--strict": []}
    assert "tango" not in shown + as_json


@pytest.mark.parametrize("command", ["list", "ps", "calls"])
def test_a_name_may_be_in_a_file_that_cannot_be_read(command: str, own_home: Path) -> None:
    path = own_home / ".claude.json"
    entry = {"command": "mcp-launch", "args": ["run", "--server", "vcs", "--", "git"]}
    path.write_text(json.dumps({"mcpServers": {"git": entry}}), encoding="utf-8")
    assert "there is no server docs" in run_command(command, "docs").stderr
    if command != "list":
        assert run_command(command, "vcs").returncode == 0, "its name for us"

    path.write_text('{"mcpServers": {"docs": ', encoding="utf-8")
    assert "there is no server" not in run_command(command, "docs").stderr


def test_a_server_that_is_not_found_hides_no_other(own_home: Path) -> None:
    (own_home / ".claude.json").write_text('{"mcpServers": {', encoding="utf-8")
    (own_home / ".codex").mkdir()
    path = own_home / ".codex" / "config.toml"
    path.write_text('[mcp_servers.git]\ncommand = "git"\n', encoding="utf-8")

    assert "No MCP servers are configured" not in run_command("list", "docs").stdout
