"""`mcp-launch list --profiles`: the user's profiles, what each sets, and what is wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from command_line import run_command

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-0123456789abcdef0123"

PROFILES = f"""\
[defaults]
pass_env = "safe"

[servers.audit]
command = "audit"
args = ["--token", "{SECRET}"]
restart = false
strict = true
env = {{ A = "{SECRET}" }}
env_vars = [{{ name = "T", source = "thread" }}]

[servers.files]
dotenv = ["a", "b"]
max_concurrent = 4

[servers.files.tools]
allow = ["read_*", "list_*"]
deny = []

[servers.files.tools.read_file.arguments]
path = {{ inside = "project_root" }}

[servers.files.arguments]
token = {{ value = "{SECRET}" }}
"""


def write(home: Path, text: str) -> Path:
    file = home / ".config/mcp-launch/config.toml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    file.chmod(0o600)
    return file


def configure(project: Path, *names: str) -> None:
    entries = {name: {"command": "x"} for name in names}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")


def list_data() -> dict[str, Any]:
    done = run_command("list", "--profiles", "--json")
    assert SECRET not in done.stdout
    data: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (1 if data["problems"] else 0)
    return data


def test_profiles_are_listed_with_what_they_set(own_home: Path, project: Path) -> None:
    write(own_home, PROFILES)
    configure(project, "audit", "filse")

    done = run_command("list", "--profiles")

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "~/.config/mcp-launch/config.toml",
        "  [defaults]  pass_env=safe",
        "  audit       audit --token '***', restart=off, strict, sets A T",
        (
            "  files       dotenv=a b, max_concurrent=4, tools allow read_* list_*, tools deny, "
            'argument token is "***", argument path of read_file inside project_root; '
            "applies to no server: did you mean filse?"
        ),
    ]


def test_a_program_gets_the_same_as_data(own_home: Path, project: Path) -> None:
    file = write(own_home, PROFILES)
    configure(project, "audit")

    data = list_data()

    assert (data["file"], data["exists"], data["problems"]) == (str(file), True, [])
    defaults, audit, files = data["profiles"]
    assert (defaults["server"], defaults["settings"]) == (None, {"pass_env": ["safe"]})
    assert audit["command"] == ["audit", "--token", "***"]
    assert audit["settings"] == {"restart": "off", "strict": True}
    assert audit["variables"] == [{"name": "A", "source": None}, {"name": "T", "source": "thread"}]
    assert [one["has_server"] for one in data["profiles"]] == [True, True, False]
    assert files["settings"] == {"dotenv": ["a", "b"], "max_concurrent": "4"}
    assert files["policies"]["arguments"] == {"token": {"value": "***"}}


def test_a_table_that_is_invalid_is_listed_beside_the_others(own_home: Path) -> None:
    name = '"docs\\n  ours  \\u001b[2J"'  # which makes no line of its own
    write(own_home, f"[servers.bad]\nx = 1\n[servers.{name}]\ncwd = '/y'\n")

    data = list_data()

    (problem,) = data["problems"]
    assert problem["server"] == "bad"
    assert "config.toml:2:1: unknown key `x`" in problem["problem"]
    assert "the keys are" in problem["fix"]
    assert [one["server"] for one in data["profiles"]] == ["docs\n  ours  \x1b[2J"]
    listed = run_command("list", "--profiles").stdout
    assert "unknown key `x`" in listed
    assert "\x1b" not in listed
    assert not any(line.startswith("  ours") for line in listed.splitlines())


@pytest.mark.parametrize(
    ("text", "mode", "problem"),
    [("[servers", 0o600, "not valid TOML"), ("", 0o666, "can be written by other users")],
    ids=["invalid", "open to others"],
)
def test_a_file_that_cannot_be_used_is_a_problem_with_its_fix(
    text: str, mode: int, problem: str, own_home: Path
) -> None:
    write(own_home, text).chmod(mode)

    data = list_data()

    (found,) = data["problems"]
    assert found["server"] is None
    assert problem in found["problem"]
    assert found["fix"]
    assert data["profiles"] == []


def test_without_a_file_its_place_is_named() -> None:
    done = run_command("list", "--profiles")

    assert (done.returncode, list_data()["exists"]) == (0, False)
    assert done.stdout.startswith("There is no ~/.config/mcp-launch/config.toml;")


def find_unused(*words: str) -> list[tuple[str, str]]:
    """Return the findings of doctor about profiles without a server: message and fix."""
    told = json.loads(run_command("doctor", "--json", *words).stdout)
    return [(one["message"], one["fix"]) for one in told["findings"] if one["code"] == "ML019"]


def write_json(path: Path, value: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


ENTRIES = {
    "not wrapped": {"files": {"command": "cat"}},
    "wrapped": {"it": {"command": "mcp-launch", "args": ["run", "--server", "files", "--", "cat"]}},
    "wrapped without a name": {"files": {"command": "mcp-launch", "args": ["run", "--", "cat"]}},
    "named by a variable": {
        "it": {
            "command": "mcp-launch",
            "args": ["run", "--", "cat"],
            "env": {"MCP_LAUNCH_SERVER": "files"},
        }
    },
}


@pytest.mark.parametrize("entries", ENTRIES.values(), ids=list(ENTRIES))
def test_a_profile_whose_name_no_entry_has_is_reported_with_the_nearest(
    entries: dict[str, object], own_home: Path, project: Path
) -> None:
    assert project
    write_json(own_home / ".claude.json", {"mcpServers": entries})
    write(
        own_home, "[servers.fils]\ntools = { deny = ['write_*'] }\n[servers.files]\nrest = '1m'\n"
    )

    for narrow in ([], ["--host", "codex"]):
        assert find_unused(*narrow) == [
            (
                "no entry is named fils: this profile applies to no server",
                "did you mean files? rename the table, or remove it",
            )
        ]
    listed = run_command("list", "--profiles").stdout.splitlines()
    assert "applies to no server: did you mean files?" in listed[1]
    assert "applies to no server" not in listed[2]
    assert [one["has_server"] for one in list_data()["profiles"]] == [False, True]


def test_a_profile_for_a_server_of_another_project_is_not_reported(
    own_home: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_json(project / ".mcp.json", {"mcpServers": {"files": {"command": "cat"}}})
    assert run_command("wrap", "--yes").returncode == 0
    other = project.parent / "other"
    (other / ".git").mkdir(parents=True)
    write_json(other / ".mcp.json", {"mcpServers": {"docs": {"command": "cat"}}})
    monkeypatch.chdir(other)
    write(own_home, "[servers.files]\nrest = '1m'\n")

    assert find_unused() == []


def test_nothing_is_said_of_profiles_while_a_file_cannot_be_read(
    own_home: Path, project: Path
) -> None:
    assert project
    write_json(own_home / ".claude.json", {"mcpServers": {"files": {"command": "cat"}}})
    (own_home / ".codex").mkdir()
    (own_home / ".codex" / "config.toml").write_text("[mcp_servers", encoding="utf-8")
    write(own_home, "[servers.other]\nrest = '1m'\n")

    assert find_unused() == []
