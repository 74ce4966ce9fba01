"""`mcp-launch trust` as a user meets it: what is shown, what has changed, and its JSON."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from json_formats import check_format

from mcp_launch.commands import own_state
from mcp_launch.commands import trust as trust_command

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
[servers.it]
command = "./tools/server"
args = ["--token", "hunter2"]
cwd = "/data"
env = { PLAIN = "text", API_KEY = "hunter2" }
env_vars = [{ name = "T", source = "thread", default = "none" }]

[servers."an odd; name"]
strict = true
"""


@pytest.fixture
def file(project: Path, own_home: Path) -> Path:
    """Return a project's profile file."""
    assert own_home.is_dir()
    path = project / ".mcp-launch.toml"
    path.write_text(TEXT, encoding="utf-8")
    return path


def trust(*words: str) -> Done:
    done = run_command("trust", *words)
    assert done.returncode == 0, done.stderr
    return done


def read(*words: str) -> Any:
    return check_format("trust", trust("--json", *words).stdout)


def test_everything_that_a_file_does_is_shown_without_secrets(file: Path) -> None:
    said = trust("--dry-run").stdout.splitlines()

    assert said == [
        str(file),
        "it: ./tools/server --token '***'",
        "  --cwd /data",
        "  PLAIN=text",
        "  API_KEY=***",
        "  T from thread, or 'none'",
        "'an odd; name': (no command of its own)",
        "  --strict",
        "It is not trusted. Nothing was changed (--dry-run).",
    ]
    assert not trust_command.read(str(file), os.environ)["trusted"]


def test_after_a_change_the_difference_is_marked(file: Path) -> None:
    trust("--yes")
    changed = TEXT.replace("text", "other").replace('KEY = "hunter2"', 'KEY = "hunter3"')
    file.write_text(changed.replace("strict = true\n", ""), encoding="utf-8")

    said = trust("--dry-run").stdout.splitlines()

    assert said[1:-1] == [
        "It has changed since you trusted it:",
        "  it: ./tools/server --token '***'",
        "    --cwd /data",
        "-   PLAIN=text",
        "-   API_KEY=***",
        "+   PLAIN=other",
        "+   API_KEY=***",
        "    T from thread, or 'none'",
        "  'an odd; name': (no command of its own)",
        "-   --strict",
    ]


def test_a_launch_in_between_does_not_hide_the_difference(file: Path) -> None:
    trust("--yes")
    for text in ("[servers.it]\ncommand = 'a'\n", "[servers.it]\ncommand = 'b'\n"):
        file.write_text(text, encoding="utf-8")
        trust_command.read(str(file), os.environ)  # as a launch does

    document = read("--dry-run")

    assert document["was_trusted"]
    assert "+ it: b" in document["differences"]
    assert "- it: ./tools/server --token '***'" in document["differences"]
    assert "+ it: a" not in document["differences"]


def test_a_comment_ends_trust_but_is_no_difference(file: Path) -> None:
    trust("--yes")
    file.write_text(f"# mine\n{TEXT}", encoding="utf-8")

    document = read("--dry-run")

    assert (document["trusted"], document["differences"]) == (False, [])
    assert "but sets the same as before:\n" in trust("--dry-run").stdout


def test_the_json_has_what_is_set_and_what_was_decided(file: Path) -> None:
    before = read("--dry-run")
    trusted = read("--yes")
    again = read()
    forgotten = read("--forget")
    never = read("--forget")

    facts = [
        (one["trusted"], one["was_trusted"], one["changed"])
        for one in (before, trusted, again, forgotten, never)
    ]
    assert facts == [
        (False, False, False),
        (True, False, True),
        (True, True, False),
        (False, True, True),
        (False, False, False),
    ]
    assert trusted["path"] == str(file)
    assert trusted["servers"]["it"] == {
        "command": ["./tools/server", "--token", "***"],
        "options": {"--cwd": ["/data"]},
        "literals": {"PLAIN": "text", "API_KEY": "***"},
        "variables": {
            "T": {"source": "thread", "name": "T", "default": "none", "is_required": True}
        },
    }


def test_without_an_answer_nothing_is_trusted(file: Path) -> None:
    done = run_command("trust", "--json")

    assert (done.returncode, done.stdout) == (2, "")
    assert not trust_command.read(str(file), os.environ)["trusted"]


def test_what_is_kept_of_a_trusted_file_goes_with_the_trust_and_with_uninstall(
    file: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "state" / "profiles"
    trust("--yes")
    assert len([*directory.glob("*.trusted")]) == 1
    trust("--forget")
    assert [*directory.glob("*.trusted")] == []
    trust("--yes")

    left = own_state.remove(str(directory.parent), own_state.Launches(set(), set()), is_clean=True)

    assert left == []
    assert file.exists()
