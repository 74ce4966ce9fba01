"""`mcp-launch profile`: make a profile from an entry, and list those that apply."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from json_formats import check_format

from mcp_launch.launch import profile_file

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2-hunter2"

WRAPPED = f"""\
# my servers
[mcp_servers.audit]
command = "/opt/mcp-launch"
args = ["run", "--server", "audit", "--pass-env", "A,B*", "--strict", "--env", "T=thread", \
"--dotenv", ".env", "--rest", "10m", "--max-servers", "4", "--", "npx", "-y", "audit"]  # wrapped
env = {{ TOKEN = "{SECRET}", HASH = "a${{b}}" }}
env_vars = ["HTTPS_PROXY"]
cwd = "/srv"

[mcp_servers.docs]
command = "docs-server"
"""

SETTINGS = {
    "cwd": "/srv",
    "env_vars": [{"name": "T", "source": "thread"}, "HTTPS_PROXY"],
    "dotenv": ".env",
    "pass_env": ["A", "B*"],
    "rest": "10m",
    "max_servers": 4,
    "strict": True,
}


@pytest.fixture
def codex(own_home: Path) -> Path:
    """Return Codex's file, with a wrapped entry and another."""
    return write(own_home / ".codex/config.toml", WRAPPED)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="")
    path.chmod(0o600)
    return path


def find_users(home: Path) -> Path:
    return home / ".config/mcp-launch/config.toml"


def read_servers(path: Path) -> Any:
    profile_file.parse(path.read_bytes(), str(path), is_projects=path.name == ".mcp-launch.toml")
    return tomllib.loads(path.read_text(encoding="utf-8"))["servers"]


def add(*words: str) -> Done:
    return run_command("profile", "add", *words)


def test_a_profile_has_the_settings_of_the_entry_and_nothing_else(
    codex: Path, own_home: Path
) -> None:
    done = add("audit", "--yes")

    assert done.returncode == 0, done.stderr
    assert read_servers(find_users(own_home)) == {"audit": SETTINGS}
    assert SECRET not in find_users(own_home).read_text(encoding="utf-8")
    assert codex.read_text(encoding="utf-8") == WRAPPED
    assert "the options in the entry take precedence" in done.stdout


def test_a_new_file_and_its_directory_are_the_users_alone(codex: Path, own_home: Path) -> None:
    del codex
    add("audit", "--yes")

    file = find_users(own_home)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert "mcp-launch schema config" in file.read_text(encoding="utf-8")


def test_an_entry_without_settings_makes_a_profile_with_suggestions(
    codex: Path, own_home: Path
) -> None:
    del codex
    done = add("docs", "--yes")

    assert read_servers(find_users(own_home)) == {"docs": {}}
    text = find_users(own_home).read_text(encoding="utf-8")
    lines = [
        line.removeprefix("# ") for line in text.splitlines() if "# " in line and " = " in line
    ]
    assert len(lines) == 3
    suggested = "[servers.docs]\n" + "\n".join(lines)
    assert profile_file.parse(suggested.encode(), "/p.toml")["servers"]["docs"]["options"]
    assert "mcp-launch wrap docs --host codex" in done.stdout


def test_a_whole_profile_has_the_command_and_the_variables_as_they_are(
    codex: Path, own_home: Path
) -> None:
    done = add("audit", "--whole", "--yes")

    assert read_servers(find_users(own_home))["audit"] == {
        **SETTINGS,
        "command": "npx",
        "args": ["-y", "audit"],
        # Codex replaces nothing in a value, and a profile does.
        "env": {"TOKEN": SECRET, "HASH": "a$${b}"},
    }
    assert SECRET not in done.stdout
    assert codex.read_text(encoding="utf-8") == WRAPPED


def test_a_moved_command_leaves_the_entry_with_the_servers_name(
    codex: Path, own_home: Path
) -> None:
    done = add("audit", "--move", "--yes")

    assert done.returncode == 0, done.stderr
    server = read_servers(find_users(own_home))["audit"]
    assert server == {**SETTINGS, "command": "npx", "args": ["-y", "audit"]}
    begin, end = WRAPPED.index('["run"'), WRAPPED.index("  # wrapped")
    expected = f'{WRAPPED[:begin]}["run", "--server", "audit"]{WRAPPED[end:]}'
    assert codex.read_text(encoding="utf-8") == expected
    assert add("audit", "--move", "--yes").returncode != 0


def test_a_command_is_moved_out_of_json_and_yaml_too(own_home: Path, project: Path) -> None:
    write(
        project / ".cursor/mcp.json",
        '{"mcpServers": {"a": {"command": "mcp-launch",\n'
        '  "args": ["run", "--server", "a", "--", "x"]}}}',
    )
    goose = own_home / ".config/goose/config.yaml"
    write(
        goose,
        "extensions:\n  b:\n    type: stdio\n    cmd: mcp-launch\n    args:\n"
        "    - run\n    - --server=b\n    - x\n    - -v\n    timeout: 3\n",
    )

    assert add("a", "--move", "--yes").returncode == 0
    done = add("b", "--move", "--yes")

    assert done.returncode == 0, done.stderr
    moved = json.loads((project / ".cursor/mcp.json").read_text(encoding="utf-8"))
    assert moved["mcpServers"]["a"]["args"] == ["run", "--server", "a"]
    text = goose.read_text(encoding="utf-8")
    assert text.endswith('    - run\n    - "--server"\n    - "b"\n    timeout: 3\n')
    assert read_servers(find_users(own_home)) == {
        "a": {"command": "x"},
        "b": {"command": "x", "args": ["-v"]},
    }


@pytest.mark.usefixtures("codex")
def test_a_command_that_is_not_wrapped_is_not_moved(own_home: Path) -> None:
    done = add("docs", "--move", "--yes")

    assert done.returncode == 2
    assert "wrap it first: mcp-launch wrap docs --host codex" in done.stderr
    assert not find_users(own_home).exists()


def test_a_projects_file_gets_names_but_no_values(codex: Path, project: Path) -> None:
    del codex
    done = add("audit", "--project", "--whole", "--yes")

    file = project / ".mcp-launch.toml"
    text = file.read_text(encoding="utf-8")
    assert SECRET not in text
    assert read_servers(file)["audit"]["env_vars"] == [
        {"name": "T", "source": "thread"},
        "HTTPS_PROXY",
        {"name": "TOKEN", "required": True},
        {"name": "HASH", "required": True},
    ]
    assert f"mcp-launch trust {file}" in done.stdout
    assert stat.S_IMODE(file.stat().st_mode) & 0o022 == 0


def test_a_secret_in_a_command_is_not_put_into_a_projects_file(
    own_home: Path, project: Path
) -> None:
    text = f'[mcp_servers.a]\ncommand = "x"\nargs = ["--token", "{SECRET}"]\n'
    write(own_home / ".codex/config.toml", text)

    done = add("a", "--project", "--whole", "--yes")

    assert done.returncode == 2
    assert "has a secret in it" in done.stderr
    assert SECRET not in done.stderr + done.stdout
    assert not (project / ".mcp-launch.toml").exists()


@pytest.mark.parametrize(
    ("name", "is_secret"), [("LEVEL", False), ("API_KEY", True)], ids=["plain", "secret"]
)
def test_a_fixed_value_becomes_one_of_the_profile(
    name: str, is_secret: bool, own_home: Path, project: Path
) -> None:
    words = ["run", "--server", "a", "--set", f"{name}=v-${{X}}", "--", "x"]
    text = f'[mcp_servers.a]\ncommand = "mcp-launch"\nargs = {json.dumps(words)}\n'
    write(own_home / ".codex/config.toml", text)

    done = add("a", "--yes")

    assert read_servers(find_users(own_home)) == {"a": {"env": {name: "v-${X}"}}}
    assert "v-$" not in done.stdout
    assert add("a", "--project", "--yes").returncode == (2 if is_secret else 0)
    assert (project / ".mcp-launch.toml").exists() != is_secret


def test_a_file_that_cannot_be_read_is_an_error_in_plain_words(codex: Path, own_home: Path) -> None:
    del codex
    find_users(own_home).mkdir(parents=True)
    done = add("audit", "--yes")
    assert done.returncode == 2
    assert f"cannot read {find_users(own_home)}: Is a directory\n" in done.stderr

    find_users(own_home).rmdir()
    find_users(own_home).write_bytes(b"# \xff\n")
    done = add("audit", "--yes")
    assert done.returncode == 2
    assert (
        f"{find_users(own_home)} is not UTF-8\n[mcp-launch]   fix: save it as UTF-8" in done.stderr
    )


def test_what_is_in_the_file_stays_byte_for_byte(codex: Path, own_home: Path) -> None:
    del codex
    before = "# mine\r\n[defaults]\r\nno_log = true # quiet\r\n\r\n[servers.x]\r\ncwd='/x'"
    file = write(find_users(own_home), before)
    file.chmod(0o640)

    done = add("audit", "--yes")

    assert done.returncode == 0, done.stderr
    after = file.read_bytes().decode()
    assert after.startswith(f"{before}\r\n\r\n[servers.audit]\r\n")
    assert "\n" not in after.replace("\r\n", "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert set(read_servers(file)) == {"x", "audit"}


def test_links_and_hard_links_stay(codex: Path, own_home: Path) -> None:
    del codex
    real = write(own_home / "dotfiles/config.toml", "[servers.x]\n")
    find_users(own_home).parent.mkdir(parents=True)
    find_users(own_home).symlink_to(real)
    os.link(real, own_home / "other-name.toml")

    assert add("audit", "--yes").returncode == 0

    assert find_users(own_home).is_symlink()
    assert set(read_servers(own_home / "other-name.toml")) == {"x", "audit"}


REFUSED = {
    "a profile of this name": (
        "\n[servers.audit]\n",
        "config.toml:2:1: there is a profile of audit",
    ),
    "an invalid file": ("[servers.x]\ncomand = 1\n", "config.toml:2:1: unknown key `comand`"),
    "servers on one line": ("servers = { x = {} }\n", "[servers.audit] cannot be added to"),
}


@pytest.mark.parametrize(("text", "problem"), REFUSED.values(), ids=list(REFUSED))
def test_a_file_that_cannot_take_the_profile_is_not_changed(
    text: str, problem: str, codex: Path, own_home: Path
) -> None:
    del codex
    file = write(find_users(own_home), text)

    done = add("audit", "--yes")

    assert done.returncode != 0
    assert problem in done.stderr
    assert file.read_text(encoding="utf-8") == text


def test_a_file_that_others_can_write_is_refused(codex: Path, own_home: Path) -> None:
    del codex
    file = write(find_users(own_home), "")
    file.chmod(0o666)

    done = add("audit", "--yes")

    assert "chmod go-w" in done.stderr
    assert file.read_text(encoding="utf-8") == ""


def test_hosts_that_disagree_are_named(codex: Path, own_home: Path, project: Path) -> None:
    del codex
    write(project / ".mcp.json", '{"mcpServers": {"docs": {"command": "other"}}}')

    done = add("docs", "--yes")

    assert done.returncode == 2
    assert "with different commands or options: codex, claude" in done.stderr
    assert "--host claude" in done.stderr
    assert add("docs", "--host", "codex", "--yes").returncode == 0
    assert set(read_servers(find_users(own_home))) == {"docs"}


def test_hosts_that_agree_need_not_be_named(codex: Path, project: Path) -> None:
    del codex
    write(project / ".mcp.json", '{"mcpServers": {"docs": {"command": "docs-server"}}}')

    assert add("docs", "--dry-run").returncode == 0


def test_what_a_host_expands_is_not_moved_into_a_profile(project: Path) -> None:
    text = '{"mcpServers": {"d": {"command": "x", "args": ["${HOME}/y"], "env": {"A": "${B}"}}}}'
    write(project / ".mcp.json", text)

    done = add("d", "--whole", "--yes")

    assert done.returncode == 2
    assert "Claude Code expands a variable in the command of d" in done.stderr
    assert add("d", "--yes").returncode == 0


ODD_ENTRIES = {
    "an option of a later version": (
        ["mcp-launch", "run", "--new", "--", "x"],
        "unknown option --new",
    ),
    "another program before us": (
        ["uvx", "mcp-launch", "run", "--", "x"],
        "through another program",
    ),
    "no command": (["mcp-launch", "run", "--server", "a"], "it is in a profile already"),
    "an invalid option": (
        ["mcp-launch", "run", "--start", "later", "--", "x"],
        'cannot become a profile: `start` does not take "later"',
    ),
    "an invalid number": (
        ["mcp-launch", "run", "--max-servers", "many", "--", "x"],
        'cannot become a profile: `max_servers` does not take "many"',
    ),
    "a NUL": (["x", "\0"], "cannot become a profile: an element of `args` contains a NUL"),
    "half a character": (["x", "\ud800"], "not valid Unicode"),
}


@pytest.mark.parametrize(("words", "problem"), ODD_ENTRIES.values(), ids=list(ODD_ENTRIES))
def test_an_odd_entry_is_refused_with_the_reason(
    words: list[str], problem: str, own_home: Path, project: Path
) -> None:
    entry = {"command": words[0], "args": words[1:]}
    write(project / ".mcp.json", json.dumps({"mcpServers": {"a": entry}}))

    done = add("a", "--whole", "--yes")

    assert done.returncode in {2, 125}
    assert problem in done.stderr
    assert "a bug in mcp-launch" not in done.stderr
    assert not find_users(own_home).exists()


@pytest.mark.parametrize("name", ["my.server", "a b", 'q"uote', "ünï", "esc\x1b[2J", "-x", "#"])
def test_a_strange_name_is_quoted(name: str, own_home: Path, project: Path) -> None:
    entry = {"command": "x\x1b\"'\\", "args": ["${", "$", "\t\n"][1:]}
    write(project / ".mcp.json", json.dumps({"mcpServers": {name: entry}}))

    done = add("--whole", "--yes", "--", name)

    assert done.returncode == 0, done.stderr
    assert read_servers(find_users(own_home)) == {name: entry}
    assert "\x1b" not in done.stdout


@pytest.mark.usefixtures("codex")
def test_an_unknown_server_is_refused_with_the_near_one() -> None:
    done = add("audt", "--yes")

    assert done.returncode == 2
    assert 'no host has a server named "audt"' in done.stderr
    assert "did you mean audit?" in done.stderr


def test_nothing_is_written_without_an_answer(codex: Path, own_home: Path) -> None:
    del codex

    assert add("audit").returncode == 2
    assert add("audit", "--dry-run").returncode == 0
    assert not find_users(own_home).exists()


@pytest.mark.usefixtures("codex")
@pytest.mark.parametrize("words", [["--dry-run"], ["--yes", "--move"], ["--yes", "--whole"]])
def test_a_program_is_told_what_was_added(words: list[str]) -> None:
    done = add("audit", "--json", *words)

    told = check_format("profile-add", done.stdout)
    assert told["is_written"] == ("--yes" in words)
    assert told["is_moved"] == ("--move" in words)
    assert told["text"].startswith("[servers.audit]\n")
    assert SECRET not in done.stdout


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
"""


def test_profiles_are_listed_by_file_with_what_they_set(own_home: Path, project: Path) -> None:
    write(find_users(own_home), PROFILES)
    file = write(project / ".mcp-launch.toml", '[servers.docs]\ncwd = "src"\n')

    done = run_command("profile", "list")

    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "~/.config/mcp-launch/config.toml",
        "  [defaults]  pass_env=safe",
        "  audit       audit --token '***', restart=off, strict, sets A T",
        str(file),
        f"  docs  cwd={project}/src",
        f"  not used, because you do not trust it: mcp-launch trust {file}",
    ]


POLICIES = f"""\
[servers.files]
call_timeout = "10m"
max_concurrent = 4
[servers.files.tools]
allow = ["read_*", "list_*"]
deny = ["read_secret"]
[servers.files.tools.read_file.arguments]
path = {{ inside = "project_root", default = "cwd" }}
[servers.files.arguments]
token = {{ value = "{SECRET}" }}
config = {{ remove = true }}
"""


def test_policies_are_listed_without_the_secrets_in_them(own_home: Path, project: Path) -> None:
    assert project.is_dir()
    write(find_users(own_home), POLICIES)

    listed = run_command("profile", "list").stdout.splitlines()[1]
    told = check_format("profile", run_command("profile", "list", "--json").stdout)

    assert listed.split(", ") == [
        "  files  call_timeout=10m",
        "max_concurrent=4",
        "tools allow read_* list_*",
        "tools deny read_secret",
        'argument token is "***"',
        "argument config is removed",
        "argument path of read_file inside project_root (default: cwd)",
    ]
    [files] = told["profiles"]
    assert files["policies"] == {
        "tools": {"allow": ["read_*", "list_*"], "deny": ["read_secret"]},
        "arguments": {"token": {"value": "***"}, "config": {"remove": True}},
        "arguments_of": {"read_file": {"path": {"inside": "project_root", "default": "cwd"}}},
    }


def test_a_trusted_file_is_used(project: Path) -> None:
    write(project / ".mcp-launch.toml", "[servers.docs]\n")
    run_command("trust", "--yes")

    assert "not used" not in run_command("profile", "list").stdout
    told = check_format("profile", run_command("profile", "list", "--json").stdout)
    assert [one["is_used"] for one in told["profiles"]] == [True]
    assert [one["is_trusted"] for one in told["files"]] == [None, True]


def test_a_program_is_told_all_profiles(own_home: Path, project: Path) -> None:
    write(find_users(own_home), PROFILES)
    write(project / ".mcp-launch.toml", "[servers.docs]\nx = 1\n")

    done = run_command("profile", "list", "--json")

    assert done.returncode == 1
    assert SECRET not in done.stdout
    told = check_format("profile", done.stdout)
    defaults, audit = told["profiles"]
    assert (defaults["server"], defaults["settings"]) == (None, {"pass_env": ["safe"]})
    assert audit["variables"] == [{"name": "A", "source": None}, {"name": "T", "source": "thread"}]
    assert "unknown key `x`" in told["files"][1]["problem"]


@pytest.mark.usefixtures("project")
def test_without_profiles_the_places_are_named() -> None:
    done = run_command("profile", "list")

    assert done.returncode == 0
    assert "Neither ~/.config/mcp-launch/config.toml nor " in done.stdout
    assert "mcp-launch profile add SERVER" in done.stdout


def test_what_a_foreign_file_says_makes_no_line_of_ours(own_home: Path, project: Path) -> None:
    """A project's file must not look as if other profiles applied."""
    odd = r"docs\n  ours  trusted"
    write(own_home / ".codex/config.toml", f'[mcp_servers."{odd}"]\ncommand = "x"\n')
    write(
        project / ".mcp-launch.toml",
        f'[servers."{odd}"]\ncommand = "x\\n  ours  trusted"\ncwd = "/y\\n  ours  trusted"\n',
    )
    name = odd.replace(r"\n", "\n")

    listed = run_command("profile", "list", cwd=project)
    added = run_command("profile", "add", name, "--whole", "--dry-run", cwd=project)
    shown = run_command("env", name, cwd=project)

    for done in (listed, added, shown):
        assert r"docs\n  ours  trusted" in done.stdout
        assert not any(line.startswith("  ours") for line in done.stdout.splitlines())


def test_a_file_that_others_can_read_is_noted_before_it_gets_secrets(
    codex: Path, own_home: Path
) -> None:
    assert codex.exists()
    path = write(find_users(own_home), "# mine\n")
    path.chmod(0o644)

    settings = run_command("profile", "add", "docs", "--dry-run")
    whole = run_command("profile", "add", "audit", "--whole", "--dry-run")
    path.chmod(0o600)
    private = run_command("profile", "add", "audit", "--whole", "--dry-run")

    assert f"other users can read it, with its secrets: chmod 600 {path}" in whole.stdout
    assert "chmod" not in settings.stdout + private.stdout
