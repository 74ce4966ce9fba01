"""Trust belongs to a file, its content, and the directory in which it is used."""

from __future__ import annotations

import hashlib
import os
from binascii import crc32
from typing import TYPE_CHECKING

import pytest
from command_line import run_command

from mcp_launch import cli
from mcp_launch.commands import trust as trust_command
from mcp_launch.errors import LaunchError, ProfileRefused, ProfileUntrusted
from mcp_launch.launch import profile
from mcp_launch.state import profile_cache

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "[servers.it]\ncommand = './tools/server'\nenv = { A = 'b' }\n"


@pytest.fixture
def trusted(tmp_path: Path) -> Path:
    """Return another project whose file is trusted."""
    directory = tmp_path / "trusted"
    (directory / ".git").mkdir(parents=True)
    file = directory / ".mcp-launch.toml"
    file.write_text(TEXT, encoding="utf-8")
    trust(file)
    return file


def trust(file: Path) -> None:
    record = trust_command.read(trust_command.locate(str(file)), os.environ)
    trust_command.decide(record, os.environ, is_trusted=True)


def load(place: Path, *words: str) -> profile.Profile:
    return profile.load(["--server", "it", *words], os.environ, lambda: str(place))


def test_a_trusted_file_is_used_in_its_own_project(trusted: Path) -> None:
    assert load(trusted.parent).command == ["./tools/server"]


def test_a_link_to_a_trusted_file_of_another_project_is_not_trusted(
    trusted: Path, project: Path
) -> None:
    (project / ".mcp-launch.toml").symlink_to(trusted)

    with pytest.raises(ProfileUntrusted, match=r"is a link to .*outside of the project") as refused:
        load(project)

    assert refused.value.fix == "replace the link with a file in the project"
    with pytest.raises(ProfileRefused, match=r"is a link to .*outside of the project"):
        trust_command.locate(str(project))


def test_a_link_inside_of_the_project_may_be_trusted(project: Path) -> None:
    (project / "config").mkdir()
    file = project / "config" / "launch.toml"
    file.write_text(TEXT, encoding="utf-8")
    (project / ".mcp-launch.toml").symlink_to("config/launch.toml")

    trust(project / ".mcp-launch.toml")

    assert load(project).command == ["./tools/server"]
    file.write_text(TEXT + "strict = true\n", encoding="utf-8")
    with pytest.raises(ProfileRefused, match="since it was changed"):
        load(project)


def test_a_link_to_a_project_leads_to_that_project(trusted: Path, project: Path) -> None:
    (project / "way").symlink_to(trusted.parent)

    assert load(project / "way").command == ["./tools/server"]


def test_a_file_is_not_used_where_a_link_leads_out_of_its_project(
    trusted: Path, project: Path
) -> None:
    (trusted.parent / "way").symlink_to(project / "below")
    (project / "below").mkdir()

    with pytest.raises(ProfileRefused, match="a link led the session"):
        load(trusted.parent / "way")


def test_a_trusted_file_that_became_a_link_stops_the_launch(trusted: Path, tmp_path: Path) -> None:
    trusted.rename(tmp_path / "moved.toml")
    trusted.symlink_to(tmp_path / "moved.toml")

    with pytest.raises(ProfileRefused, match="is a link to"):
        load(trusted.parent, "--", "own")


def test_a_link_that_leads_nowhere_stops_nothing(project: Path) -> None:
    (project / ".mcp-launch.toml").symlink_to(".mcp-launch.toml")

    assert load(project, "--", "own").command == ["own"]


UNTRUSTED = {
    "sets up the server": TEXT,
    "makes no sense": "[servers",
    "speaks of every server": "[defaults]\nstrict = true\n",
}


@pytest.mark.parametrize("text", UNTRUSTED.values(), ids=list(UNTRUSTED))
def test_a_server_with_its_own_command_does_without_a_file_that_nobody_trusts(
    text: str, project: Path
) -> None:
    (project / ".mcp-launch.toml").write_text(text, encoding="utf-8")

    wanted = load(project, "--", "own")

    assert (wanted.command, wanted.literals) == (["own"], {})
    assert str(project) in wanted.passed_over
    with pytest.raises(ProfileUntrusted):
        load(project, "--strict", "--", "own")
    with pytest.raises(ProfileUntrusted):
        load(project)


def test_a_file_that_was_trusted_and_has_changed_stops_the_launch(trusted: Path) -> None:
    """It may say what a server is not to get, and somebody relies on it."""
    trusted.write_text(TEXT + "pass_env = 'safe'\n", encoding="utf-8")

    with pytest.raises(ProfileRefused, match="since it was changed"):
        load(trusted.parent, "--", "own")


def test_trust_belongs_to_the_content_whatever_the_files_times_say(
    trusted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where times have whole seconds, and a file of the same length is written in place."""
    load(trusted.parent)
    status = trusted.stat()
    trusted.write_text(TEXT.replace("tools", "fools"), encoding="utf-8")
    monkeypatch.setattr(profile, "_look", lambda path: status if path == str(trusted) else None)

    with pytest.raises(ProfileRefused, match="since it was changed"):
        load(trusted.parent)


def test_trust_that_was_taken_back_is_as_if_it_had_never_been(trusted: Path) -> None:
    record = trust_command.read(str(trusted), os.environ)
    trust_command.decide(record, os.environ, is_trusted=False)

    assert load(trusted.parent, "--", "own").command == ["own"]


def test_the_users_own_command_does_without_a_file_that_nobody_trusts(
    own_home: Path, project: Path
) -> None:
    (project / ".mcp-launch.toml").write_text(TEXT, encoding="utf-8")
    user = own_home / profile.USER_FILE
    user.parent.mkdir(parents=True)
    user.write_text("[servers.it]\ncommand = 'mine'\n", encoding="utf-8")
    user.chmod(0o600)

    assert load(project).command == ["mine"]


def find_colliding_projects(directory: Path) -> list[Path]:
    """Return two projects whose files have paths of one checksum."""
    seen: dict[int, str] = {}
    for at in range(1_000_000):
        name = hashlib.sha256(str(at).encode()).hexdigest()  # names in order have other checksums
        mark = crc32(f"{directory}/{name}/.mcp-launch.toml".encode())
        if mark in seen:
            return [directory / seen[mark], directory / name]
        seen[mark] = name
    raise AssertionError("there are no two")


def test_a_project_whose_path_has_the_same_checksum_takes_nothing_away(tmp_path: Path) -> None:
    files = []
    for project in find_colliding_projects(tmp_path):
        (project / ".git").mkdir(parents=True)
        files.append(project / ".mcp-launch.toml")
        files[-1].write_text(TEXT, encoding="utf-8")
    first, second = files
    trust(first)

    with pytest.raises(LaunchError, match="have not trusted it"):
        load(second.parent)

    assert load(first.parent).command == ["./tools/server"]


def test_trust_says_that_a_link_leads_out_of_the_project(trusted: Path, project: Path) -> None:
    (project / ".mcp-launch.toml").symlink_to(trusted)

    done = run_command("trust", "--yes")

    assert done.returncode == 2
    assert f"is a link to {trusted}, which is outside of the project" in done.stderr
    assert profile_cache.read(str(project / ".mcp-launch.toml"), os.environ) is None


def test_trust_in_a_file_that_is_gone_or_broken_can_be_taken_back(
    trusted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = trusted.read_bytes()
    trusted.write_text("broken =", encoding="utf-8")
    assert cli.run(["trust", "--forget", str(trusted)]) == 0
    assert "No longer trusted." in capsys.readouterr().out
    trusted.write_bytes(content)
    trust(trusted)
    trusted.unlink()

    assert cli.run(["trust", "--forget", str(trusted.parent)]) == 0

    assert "No longer trusted." in capsys.readouterr().out
    trusted.write_bytes(content)
    assert not trust_command.read(str(trusted), os.environ)["trusted"]


def test_a_file_that_was_not_trusted_is_not_said_to_have_been(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / profile.PROJECT_FILE).write_text("", encoding="utf-8")

    assert cli.run(["trust", "--forget"]) == 0

    said = capsys.readouterr().out
    assert "It was not trusted" in said
    assert "No longer trusted" not in said
