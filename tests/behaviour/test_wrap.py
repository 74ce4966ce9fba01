"""`wrap` and `unwrap` as a user meets them: real files, real concurrent writers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import run_command
from git_repository import track
from secret_entries import SECRET, SECRETS
from wrap_requests import PROGRAM, TEXT, find_script, write

from mcp_launch.commands import output
from mcp_launch.config_files import replace_file
from mcp_launch.config_files.host_config import ANY_HOST, File
from mcp_launch.hosts.claude import settings
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.machine import installation

CODEX = """\
# mine
[mcp_servers.docs] # the docs
command = "npx"
args = ["-y", "docs"]

[mcp_servers.web]
url = "https://example.org"

[mcp_servers.off]
command = "off"
enabled = false
"""


@pytest.fixture
def codex_file(own_home: Path, project: Path) -> Path:
    """Return a Codex configuration of this user."""
    assert project.is_dir()
    return write(own_home / ".codex" / "config.toml", CODEX)


@pytest.mark.usefixtures("codex_file")
def test_a_second_run_counts_what_stays_in_one_line() -> None:
    assert run_command("wrap", "--yes").returncode == 0

    again = run_command("wrap", "-v")

    assert again.returncode == 0  # there is nothing to ask
    assert again.stdout.splitlines() == [
        "Nothing to change: 1 wrapped already, 1 remote, 1 disabled.",
        "  wrapped already: docs (Codex)",
        "  remote: web (Codex)",
        "  disabled: off (Codex)",
    ]
    assert run_command("wrap").stdout == again.stdout.splitlines(keepends=True)[0]


def test_what_needs_a_person_is_named_in_any_case(codex_file: Path) -> None:
    write(codex_file, CODEX + "[mcp_servers.'a b']\nargs = 3\n")

    said = run_command("wrap", "--dry-run").stdout.splitlines()

    assert "Skipped: 1 remote, 1 disabled, 1 invalid." in said
    assert f"Skipped 'a b' in {codex_file}: its command is missing or malformed" in said


@pytest.mark.usefixtures("own_home", "project")
@pytest.mark.parametrize("command", ["wrap", "unwrap"])
def test_where_servers_were_looked_for_is_said_if_there_are_none(
    command: str, own_home: Path, project: Path
) -> None:
    done = run_command(command)

    assert done.returncode == 0
    assert "No MCP servers were found." in done.stdout
    for host in HOSTS.values():
        assert f"  {host.title}: " in done.stdout
    assert f"  Claude Code: {own_home}/.claude.json, {project}/.mcp.json\n" in done.stdout
    only = run_command(command, "--host", "codex").stdout
    assert f"  Codex: {own_home}/.codex/config.toml, {project}/.codex/config.toml\n" in only
    assert "Cursor" not in only


def test_the_change_of_each_entry_is_shown(codex_file: Path) -> None:
    said = run_command("wrap", "--dry-run").stdout

    assert said.splitlines()[:5] == [
        f"{codex_file} (Codex, user)",
        "  docs",
        "    - npx -y docs",
        f"    + {find_script()} run --server docs npx -y docs",
        "",
    ]


def test_what_to_do_next_is_said_once(codex_file: Path, own_home: Path) -> None:
    write(own_home / ".cursor" / "mcp.json", '{"mcpServers": {"it": {"command": "x"}}}')
    copies = os.path.join(os.environ["MCP_LAUNCH_HOME"], "backups")

    wrapped = run_command("wrap", "--yes").stdout.splitlines()
    unwrapped = run_command("unwrap", "--yes").stdout.splitlines()

    assert wrapped[-5:] == [
        f"Changed {codex_file}",
        f"Changed {own_home}/.cursor/mcp.json",
        f"Copies of the originals are in {copies}",
        "Restart running sessions to pick this up.",
        "To check: mcp-launch doctor. To undo: mcp-launch unwrap.",
    ]
    assert unwrapped[-2:] == [
        f"Removed 2 copies in {copies}: no longer needed.",
        "Restart running sessions to pick this up.",
    ]


def test_any_file_can_be_named(tmp_path: Path) -> None:
    path = write(tmp_path / "some.json", '{"mcpServers": {"it": {"command": "x"}}}')

    assert run_command("wrap", "--file", str(path), "--yes").returncode == 0

    assert find_script() in path.read_text(encoding="utf-8")
    assert run_command("wrap", "--file", str(tmp_path / "none.json")).returncode == 2


def test_mode_and_link_stay_and_the_first_text_is_kept(codex_file: Path, tmp_path: Path) -> None:
    real = tmp_path / "dotfiles.toml"
    codex_file.rename(real)
    real.chmod(0o640)
    codex_file.symlink_to(real)

    assert run_command("wrap", "--yes").returncode == 0

    assert codex_file.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o640
    [copy] = Path(os.environ["MCP_LAUNCH_HOME"], "backups").iterdir()
    assert copy.read_text(encoding="utf-8") == CODEX


def test_managed_files_and_plugins_are_skipped(own_home: Path, project: Path) -> None:
    assert project.is_dir()
    entry = '{"mcpServers": {"it": {"command": "npx", "args": ["-y", "it"]}}}'
    plugin = write(own_home / ".claude" / "plugins" / "cache" / "m" / "p" / ".mcp.json", entry)
    own = write(own_home / ".claude.json", entry)

    said = run_command("wrap", "--yes", "-v").stdout

    assert "Skipped: 1 from plugins.\n  from plugins: it (Claude Code)\n" in said
    assert plugin.read_text(encoding="utf-8") == entry
    assert find_script() in own.read_text(encoding="utf-8")


def test_words_that_look_like_markup_or_secrets_are_shown_as_such(codex_file: Path) -> None:
    write(codex_file, '[mcp_servers.it]\ncommand = "x"\nargs = ["a[/b]", "--api-key", "sk-1"]\n')

    said = run_command("wrap", "--dry-run").stdout

    assert "a[/b]" in said
    assert "sk-1" not in said


@pytest.mark.parametrize("launcher", ["/gone/mcp-launch", PROGRAM], ids=["gone", "the program"])
def test_a_launcher_of_the_past_is_replaced(launcher: str, codex_file: Path) -> None:
    text = f'[mcp_servers.it]\ncommand = "{launcher}"\nargs = ["run", "--", "x"]\n'
    write(codex_file, text)
    assert "not found" not in run_command("wrap", "--dry-run").stdout

    assert run_command("wrap", "--yes").returncode == 0

    args = 'args = ["run", "--server", "it", "--", "x"]'
    expected = f'[mcp_servers.it]\ncommand = "{find_script()}"\n{args}\n'
    assert codex_file.read_text(encoding="utf-8") == expected


def test_a_launcher_that_something_else_starts_is_not_wrapped_again(codex_file: Path) -> None:
    text = '[mcp_servers.it]\ncommand = "uvx"\nargs = ["mcp-launch", "run", "--", "x"]\n'
    write(codex_file, text)

    assert "1 wrapped through another program" in run_command("wrap", "--yes").stdout
    assert "it starts mcp-launch through another program" in run_command("unwrap", "-y").stdout
    assert codex_file.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("kind", ["a pipe", "a directory"])
def test_what_is_not_a_file_is_reported_and_not_waited_for(
    kind: str, own_home: Path, project: Path
) -> None:
    assert project.is_dir()
    path = own_home / ".copilot" / "mcp-config.json"
    path.parent.mkdir()
    if kind == "a pipe":
        os.mkfifo(path)
    else:
        path.mkdir()

    done = run_command("wrap", "--yes")

    assert done.returncode == 1
    assert f"{path} is not a regular file" in done.stderr


def test_a_relative_cwd_under_codex_is_warned_of(codex_file: Path) -> None:
    write(codex_file, '[mcp_servers.it]\ncommand = "x"\ncwd = "below"\n')

    said = " ".join(run_command("wrap", "--dry-run").stdout.split())

    assert (
        "it: Codex resolves the relative cwd below against the directory in which its daemon"
        in said
    )


@pytest.mark.parametrize("is_installed", [True, False])
def test_the_shim_of_an_installer_is_preferred(is_installed: bool, tmp_path: Path) -> None:
    shim = tmp_path / ".local" / "bin" / "mcp-launch"
    shim.parent.mkdir(parents=True)
    if is_installed:
        shim.symlink_to(PROGRAM)

    assert installation.find({"PATH": ""}, str(tmp_path)) == str(shim if is_installed else PROGRAM)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/home/me/.cache/uv/archive-v0/abc/bin/mcp-launch", "is cleaned from time to time"),
        ("/tmp/x/bin/mcp-launch", "is cleaned from time to time"),  # noqa: S108
        ("/home/me/.local/bin/mcp-launch", ""),
    ],
    ids=["a cache", "a temporary directory", "a lasting place"],
)
def test_a_path_that_will_not_last_is_warned_of(path: str, why: str) -> None:
    warning = installation.warn(path)

    assert why in (warning.problem if warning else "")
    assert bool(warning) is bool(why)


def test_a_virtual_environment_is_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "_CACHES", ())  # tmp_path is below one
    write(tmp_path / "pyvenv.cfg", "")

    warning = installation.warn(str(tmp_path / "bin" / "mcp-launch"))

    assert warning
    assert "virtual environment" in warning.problem


@pytest.mark.usefixtures("project")
def test_an_allowlist_of_commands_is_warned_of(
    own_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(own_home / ".claude.json")
    allowed = {"allowedMcpServers": [{"serverCommand": ["x"]}]}
    managed = write(tmp_path / "managed-settings.json", json.dumps(allowed))
    monkeypatch.setattr(settings, "list_managed_settings", lambda _: [str(managed)])

    said = run_command("wrap", "--dry-run").stdout

    assert f"{managed} allows servers by exact command" in said


def test_in_a_package_the_files_of_its_repository_are_wrapped_too(
    project: Path, own_home: Path
) -> None:
    package = project / "package"
    write(package / "package.json", "{}")
    write(package / ".mcp.json", '{"mcpServers": {"near": {"command": "x"}}}')
    (package / "below").mkdir()
    write(project / ".mcp.json", '{"mcpServers": {"it": {"command": "x"}}}')
    write(package / ".cursor/mcp.json", '{"mcpServers": {"it": {"command": "x"}}}')
    write(package / ".vscode/mcp.json", '{"servers": {"it": {"command": "x"}}}')
    write(project / ".codex" / "config.toml", '[mcp_servers.it]\ncommand = "x"\n')
    before = write(project.parent / ".codex" / "config.toml", '[mcp_servers.it]\ncommand = "x"\n')
    above = write(project.parent / ".mcp.json", '{"mcpServers": {"it": {"command": "x"}}}')

    said = run_command("wrap", "--yes", cwd=package / "below").stdout

    assert own_home.is_dir()
    for name in (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json"):
        assert f"Changed {package / name}" in said
    for name in (".mcp.json", ".codex/config.toml"):
        assert f"Changed {project / name}" in said
    for path in (before, above):  # they are above the repository
        assert f"Changed {path}" not in said


def test_a_host_that_writes_while_we_do_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "file", "one")
    texts = ["two", "three"]

    def make(text: str) -> str:
        if texts:
            path.write_text(texts.pop(0), encoding="utf-8")  # the host, in the worst moment
        return text + "!"

    assert replace_file.replace(ANY_HOST, File(str(path), "user"), make, str(tmp_path / "state"))

    assert path.read_text(encoding="utf-8") == "three!"
    assert [one.name for one in tmp_path.glob(".mcp-launch-*")] == []


def test_a_lock_that_was_left_behind_is_broken_and_a_held_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replace_file, "_PATIENCE", 0.05)
    path = write(tmp_path / "file", "one")
    file = File(str(path), "user", lock=str(tmp_path / "lock"))
    (tmp_path / "lock").mkdir()

    with pytest.raises(Exception, match="a host holds"):
        replace_file.replace(ANY_HOST, file, str.upper, str(tmp_path / "state"))
    os.utime(tmp_path / "lock", (0, 0))
    assert replace_file.replace(ANY_HOST, file, str.upper, str(tmp_path / "state"))

    assert path.read_text(encoding="utf-8") == "ONE"


def test_a_server_that_was_added_after_the_question_is_not_wrapped(
    own_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(own_home / ".codex/config.toml", CODEX)

    def agree(*_: object, **__: object) -> bool:
        with path.open("a", encoding="utf-8") as file:
            file.write('[mcp_servers.later]\ncommand = "later"\n')
        return True

    monkeypatch.setattr(output, "is_agreed", agree)

    assert run_command("wrap").returncode == 0
    text = path.read_text(encoding="utf-8")
    assert '"docs", "npx"' in text
    assert text.endswith('[mcp_servers.later]\ncommand = "later"\n')


SHARING = '{"mcpServers": {"it": {"command": "mcp-launch", "args": ["run", %s"--", "x"]}}}'
PROFILE = "[servers.it]\nshare = 'project'\n"


@pytest.mark.parametrize(
    ("written", "profile", "wanted", "says"),
    [
        ('"--share", "project", ', "", "--on-change isolate", "combined with --on-change isolate"),
        ('"--on-change", "isolate", ', "", "--share project", "combined with --on-change isolate"),
        ('"--env", "T=thread", ', "", "--share project", "T (source thread)"),
        ('"--server", "it", ', PROFILE, "--on-change restart", "combined with --on-change restart"),
    ],
    ids=["isolate", "share", "variable", "profile"],
)
@pytest.mark.usefixtures("project")
def test_options_that_contradict_those_of_an_entry_are_refused_before_anything_is_written(
    written: str, profile: str, wanted: str, says: str, own_home: Path
) -> None:
    write(own_home / ".config" / "mcp-launch" / "config.toml", profile)
    text = SHARING % written
    cursor = write(own_home / ".cursor" / "mcp.json", text)
    other = write(own_home / ".kiro" / "settings" / "mcp.json")
    before = other.read_text(encoding="utf-8")

    done = run_command("wrap", "--yes", "--", *wanted.split())

    assert done.returncode == 2
    assert f"it in {cursor} would not start with these options: " in done.stderr
    assert says in done.stderr
    assert cursor.read_text(encoding="utf-8") == text
    assert other.read_text(encoding="utf-8") == before


@pytest.mark.usefixtures("project")
def test_an_entry_that_contradicts_itself_already_does_not_keep_options_from_the_others(
    own_home: Path,
) -> None:
    text = SHARING % '"--share", "project", "--on-change", "isolate", '
    cursor = write(own_home / ".cursor" / "mcp.json", text)

    assert run_command("wrap", "--yes", "--", "--trace").returncode == 0
    assert run_command("wrap", "--yes", "--", "--share", "off").returncode == 0

    assert '"--share", "off"' in cursor.read_text(encoding="utf-8")


def test_a_script_that_was_removed_is_written_again(codex_file: Path) -> None:
    assert run_command("wrap", "--yes").returncode == 0
    wrapped = codex_file.read_bytes()
    Path(find_script()).unlink()

    assert run_command("wrap", "--dry-run").returncode == 0
    assert not Path(find_script()).exists()
    done = run_command("wrap", "--yes")

    assert f"Wrote {find_script()}, which wrapped entries start" in done.stdout
    assert os.access(find_script(), os.X_OK)
    assert codex_file.read_bytes() == wrapped


@pytest.fixture
def cursor(own_home: Path, project: Path) -> Path:
    """Return a file of Cursor with one server."""
    assert project.is_dir()
    return write(own_home / ".cursor" / "mcp.json")


def read(command: str, *words: str, code: int = 0) -> Any:
    done = run_command(command, "--json", *words)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def test_the_json_lists_what_would_change(cursor: Path) -> None:
    document = read("wrap", "--dry-run")

    entry = {
        "server": "it",
        "scope": "user",
        "status": "would wrap",
        "reason": None,
        "before": ["x", "1"],
        "after": [find_script(), "run", "--server", "it", "x", "1"],
    }
    assert document["files"] == [
        {
            "host": "cursor",
            "scope": "user",
            "file": str(cursor),
            "is_tracked": False,
            "is_changed": False,
            "copy": None,
            "removed_copies": [],
            "entries": [entry],
        }
    ]
    assert (document["is_dry_run"], document["changed"]) == (True, False)
    assert cursor.read_text(encoding="utf-8") == TEXT


def test_the_json_lists_what_was_changed(cursor: Path) -> None:
    [wrapped] = read("wrap", "--yes")["files"]
    again = read("wrap", "--yes")
    [unwrapped] = read("unwrap", "--yes")["files"]

    assert wrapped["is_changed"]
    assert wrapped["entries"][0]["status"] == "wrapped"
    [skipped] = again["files"][0]["entries"]
    assert not again["changed"]
    assert (skipped["status"], skipped["reason"]) == ("skipped", "it is already wrapped")
    assert unwrapped["removed_copies"] == [wrapped["copy"]]
    assert unwrapped["entries"][0]["status"] == "unwrapped"
    assert unwrapped["entries"][0]["after"] == ["x", "1"]
    assert cursor.read_text(encoding="utf-8") == TEXT


def test_the_json_lists_errors_and_tracked_files(
    cursor: Path, own_home: Path, project: Path, tmp_path: Path
) -> None:
    broken = write(own_home / ".claude.json", '{"mcpServers": {')
    shared = write(project / ".mcp.json")
    track(project, ".mcp.json")

    document = read("wrap", "--yes", code=1)
    [of_no_host] = read("wrap", "--dry-run", "--file", str(write(tmp_path / "a.json")))["files"]

    [error] = document["errors"]
    assert error["message"].startswith(f"{broken}:1:17: this is not valid JSON: expected }}")
    assert broken.read_text(encoding="utf-8") == '{"mcpServers": {'
    files = {file["file"]: file for file in document["files"]}
    assert files[str(cursor)]["is_changed"]
    assert files[str(shared)]["is_tracked"]
    assert files[str(shared)]["entries"][0]["reason"] == "Git tracks its file"
    assert (of_no_host["host"], of_no_host["scope"]) == (None, None)


@pytest.mark.parametrize("command", ["wrap", "unwrap", "uninstall"])
def test_without_an_answer_no_json_is_printed_and_nothing_is_written(
    command: str, cursor: Path
) -> None:
    if command != "wrap":
        assert run_command("wrap", "--yes").returncode == 0
    before = cursor.read_text(encoding="utf-8")

    done = run_command(command, "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert "fix: add --yes" in done.stderr
    assert cursor.read_text(encoding="utf-8") == before


@pytest.mark.parametrize("entry", SECRETS.values(), ids=list(SECRETS))
def test_no_secret_is_printed(entry: dict[str, Any], cursor: Path) -> None:
    write(cursor, json.dumps({"mcpServers": {"it": entry}}))

    for command in ("wrap", "unwrap"):
        assert SECRET not in run_command(command, "--json", "--yes").stdout


@pytest.mark.parametrize(
    ("words", "problem", "fix"),
    [
        ("--bogus", "unknown option --bogus", "after -- write options of run"),
        ("--pass-env", "--pass-env needs a value", "after -- write options of run"),
        ("--share", "--share needs a value", "its values are off, project; after --"),
        ("--pass-envv x", "unknown option --pass-envv", "did you mean --pass-env? "),
        ("safe", "safe is not an option of run", ""),
        ("--pass-env safe -- npx", "npx is not an option of run", ""),
        ("--on-change x", "--on-change (or MCP_LAUNCH_ON_CHANGE) does", ""),
        ("--env A=x", "asks for a source that does not exist", ""),
        ("--server x", "wrap writes --server itself", ""),
    ],
)
def test_what_is_no_option_of_run_is_not_written(
    words: str, problem: str, fix: str, cursor: Path
) -> None:
    done = run_command("wrap", "--yes", "--", *words.split())

    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr
    assert fix in done.stderr
    assert "COMMAND" not in done.stderr
    assert cursor.read_text(encoding="utf-8") == TEXT


def test_an_entry_that_forgot_run_is_not_wrapped_again(own_home: Path, project: Path) -> None:
    assert project.is_dir()
    entries = {
        "it": {"command": "mcp-launch", "args": ["--start", "called", "cat"]},
        "fine": {"command": "cat"},
    }
    file = write(own_home / ".claude.json", json.dumps({"mcpServers": entries}))

    done = run_command("wrap", "--yes")

    assert done.returncode == 0, done.stderr
    after = json.loads(file.read_text(encoding="utf-8"))["mcpServers"]
    assert after["it"] == entries["it"]
    assert after["fine"]["command"] == find_script()
    said = " ".join(done.stdout.split())
    assert "Skipped it in" in said
    assert 'without the word run: write "args": ["run", "--start", "called", "cat"]' in said
    listed = json.loads(run_command("list", "it", "--json").stdout)["servers"][0]
    assert listed["kind"] == "invalid"
    assert listed["why_not"] == "the word run is missing after mcp-launch"


def test_a_lock_that_cannot_be_made_is_an_error_in_plain_words(
    codex_file: Path, tmp_path: Path
) -> None:
    lock = tmp_path / "state" / "wrap.lock"
    lock.mkdir(parents=True)

    done = run_command("wrap", "--yes")

    assert done.returncode == 1
    assert f"{codex_file} was not changed: Is a directory: {lock}\n" in done.stderr
    assert codex_file.read_text(encoding="utf-8") == CODEX


def test_a_fixed_value_is_written_replaced_and_not_shown(cursor: Path) -> None:
    shown = ""
    for value in ("first-value", "second-value"):
        shown += run_command(
            "wrap", "--yes", "--", "--set", f"LEVEL={value}", "--set", "B=b"
        ).stdout

    words = json.loads(cursor.read_text(encoding="utf-8"))["mcpServers"]["it"]["args"]
    own = ["--server", "it", "--set", "LEVEL=second-value", "--set", "B=b"]
    assert words == ["run", *own, "x", "1"]
    assert "LEVEL=***" in shown
    assert "-value" not in shown
    assert run_command("unwrap", "--yes").returncode == 0
    assert cursor.read_text(encoding="utf-8") == TEXT
