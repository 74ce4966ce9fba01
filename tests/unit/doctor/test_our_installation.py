"""The launcher itself: where it is, where it keeps its files, and what its profiles say."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING

import pytest
from fake_machine import list_codes
from mcp_launch.doctor.checks import our_installation
from privileges import run_unprivileged

from mcp_launch.commands import trust as trust_command
from mcp_launch.launch import profile

if TYPE_CHECKING:
    from pathlib import Path

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding


def check(machine: FakeMachine) -> list[Finding]:
    survey = machine.survey()
    return [finding for check in our_installation.OF_ALL for finding in check(survey)]


def only(machine: FakeMachine) -> Finding:
    [finding] = check(machine)
    return finding


@pytest.fixture(autouse=True)
def installed(machine: FakeMachine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a launcher where it lasts, whatever runs these tests."""
    launcher = machine.write("~/opt/mcp-launch/bin/mcp-launch", "#!/bin/sh\n")
    launcher.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(launcher.with_name("python3")))
    monkeypatch.setattr(
        "mcp_launch.machine.installation._CACHES", ("/.cache/",)
    )  # not where tests are
    return launcher


@pytest.fixture
def state(machine: FakeMachine) -> Path:
    """Return the state's directory, as launches leave it."""
    directory = machine.home / ".local/state/mcp-launch"
    (directory / "leases").mkdir(parents=True)
    (directory / "leases").chmod(0o700)
    directory.chmod(0o755)
    return directory


def test_nothing_is_wrong_with_a_good_installation(machine: FakeMachine, state: Path) -> None:
    assert check(machine) == []
    assert [one.name for one in state.iterdir()] == ["leases"]


def test_a_relative_home_is_looked_at_where_it_is(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(machine.home.parent)
    survey = machine.survey()
    survey.state = "nowhere/mcp-launch"

    assert list(our_installation.check_state(survey)) == []


def test_nothing_is_wrong_before_the_first_launch_and_nothing_is_made(machine: FakeMachine) -> None:
    assert check(machine) == []
    assert not (machine.home / ".local").exists()


# ML010, ML011


def test_a_launcher_that_is_not_installed_is_reported(
    machine: FakeMachine, installed: Path
) -> None:
    installed.unlink()
    finding = only(machine)
    assert finding.code == "ML010"
    assert "mcp-launch is not installed" in finding.message
    assert "pipx install" in finding.fix


def test_a_launcher_in_a_virtual_environment_is_reported(
    machine: FakeMachine, installed: Path
) -> None:
    (installed.parent.parent / "pyvenv.cfg").touch()
    finding = only(machine)
    assert finding.code == "ML011"
    assert finding.message == f"{installed} is in a virtual environment and goes away with it"
    assert finding.fix.startswith("run `pipx install .`")
    assert finding.subject.file == str(installed)


def test_a_virtual_environment_behind_a_shim_is_fine(machine: FakeMachine, installed: Path) -> None:
    (installed.parent.parent / "pyvenv.cfg").touch()
    shim = machine.home / ".local/bin/mcp-launch"
    shim.parent.mkdir(parents=True)
    shim.symlink_to(installed)
    assert check(machine) == []


# ML012


def test_a_file_in_the_way_of_the_state_is_reported(machine: FakeMachine) -> None:
    path = machine.write("~/.local", "")
    finding = only(machine)
    assert finding.code == "ML012"
    assert finding.message.endswith(f"{path} is not a directory; launches cannot write leases")
    assert finding.fix == f"move {path} away"


@pytest.mark.parametrize(
    ("name", "mode", "codes"),
    [
        ("leases", 0o755, ["ML012"]),
        ("leases", 0o750, ["ML012"]),
        ("leases", 0o700, []),
        ("profiles", 0o770, ["ML012"]),
        ("logs", 0o711, ["ML012"]),
        (".", 0o777, ["ML012"]),
        (".", 0o755, []),
        (".", 0o700, []),
    ],
)
def test_what_is_open_to_others_is_reported(
    machine: FakeMachine, state: Path, name: str, mode: int, codes: list[str]
) -> None:
    (state / name).mkdir(exist_ok=True)
    (state / name).chmod(mode)
    assert list_codes(check(machine)) == codes


def test_what_is_open_to_others_can_be_closed(machine: FakeMachine, state: Path) -> None:
    (state / "leases").chmod(0o755)
    finding = only(machine)
    assert finding.message == f"{state}/leases is open to other users (mode 755)"
    assert finding.fix == f"run: chmod 700 {state}/leases"
    assert finding.repair
    finding.repair.act()
    assert check(machine) == []


def test_a_state_that_cannot_be_written_is_reported(machine: FakeMachine, state: Path) -> None:
    state.chmod(0o500)
    assert "is not writable" in run_unprivileged(lambda: only(machine).message)
    state.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_of_another_user_is_reported(machine: FakeMachine, state: Path) -> None:
    os.chown(state / "leases", 65534, -1)
    finding = only(machine)
    assert "belongs to another user (uid 65534)" in finding.message
    assert finding.fix == f"run: sudo chown -R $(id -u) {state}/leases"


def test_a_lease_that_is_not_believed_is_reported(machine: FakeMachine, state: Path) -> None:
    for name, mode in (("good.json", 0o600), ("bad.json", 0o666)):
        (state / "leases" / name).write_text("{}", encoding="utf-8")
        (state / "leases" / name).chmod(mode)

    finding = only(machine)

    assert (finding.code, finding.subject.file) == ("ML012", f"{state}/leases/bad.json")
    assert "it is not trusted" in finding.message


@pytest.mark.parametrize(
    ("blocks", "files", "codes"),
    [(0, 100, ["ML012"]), (1, 100, ["ML012"]), (1 << 20, 0, ["ML012"]), (1 << 20, 100, [])],
    ids=["no room", "next to none", "no more files", "room"],
)
def test_a_full_disk_is_reported(blocks: int, files: int, codes: list[str]) -> None:
    room = os.statvfs_result((4096, 4096, 1 << 20, blocks, blocks, 1000, files, files, 0, 255))
    assert list_codes(our_installation.check_room("/state", lambda _: room)) == codes


def test_a_file_system_that_does_not_count_files_is_not_full() -> None:
    room = os.statvfs_result((4096, 4096, 1 << 20, 1 << 20, 1 << 20, 0, 0, 0, 0, 255))
    assert list_codes(our_installation.check_room("/state", lambda _: room)) == []


# ML013, ML014


def write_user_profile(machine: FakeMachine, text: str, mode: int = 0o600) -> Path:
    file = machine.write("~/.config/mcp-launch/config.toml", text)
    file.chmod(mode)
    return file


def test_a_profile_that_is_invalid_is_reported_with_its_place(machine: FakeMachine) -> None:
    file = write_user_profile(machine, '[servers.it]\ncommand = "x"\ncwdd = "y"\n')
    finding = only(machine)
    assert finding.code == "ML013"
    effect = "until this is fixed, it does not start"
    assert finding.message == f"unknown key `cwdd` in [servers.it]; {effect}"
    assert "did you mean cwd?" in finding.fix
    assert (finding.subject.file, finding.subject.line, finding.subject.column) == (str(file), 3, 1)


def test_every_invalid_profile_is_reported_with_its_place(machine: FakeMachine) -> None:
    write_user_profile(machine, "[servers.a]\nrest = 1\n[servers.b]\nrest = 1\n[servers.c]\n")

    found = check(machine)

    assert [(one.code, one.subject.line) for one in found] == [("ML013", 2), ("ML013", 4)]


@pytest.mark.parametrize(
    ("text", "mode", "told"),
    [
        ("[servers", 0o600, "no wrapped server starts"),
        ("[defaults]\nrest = 1\n", 0o600, "no wrapped server starts"),
        ("[servers", 0o600, "not valid TOML"),
        ("", 0o622, "can be written by other users"),
        ("[servers.it]\ncommand = 'x'\n", 0o600, None),
        ("", 0o644, None),
    ],
    ids=["no effect without TOML", "defaults", "no TOML", "open to others", "fine", "readable"],
)
def test_a_users_profile_must_be_usable(
    machine: FakeMachine, text: str, mode: int, told: str | None
) -> None:
    write_user_profile(machine, text, mode)
    found = check(machine)
    assert list_codes(found) == (["ML013"] if told else [])
    assert not told or told in found[0].message


def test_a_profile_that_is_not_a_file_is_reported(machine: FakeMachine) -> None:
    (machine.home / ".config/mcp-launch/config.toml").mkdir(parents=True)
    assert list_codes(check(machine)) == ["ML013"]


def trust(machine: FakeMachine, file: Path) -> None:
    record = trust_command.read(str(file), machine.environ)
    trust_command.decide(record, machine.environ, is_trusted=True)


def list_state(machine: FakeMachine) -> dict[str, bytes]:
    state = machine.home / ".local"
    return {str(one): one.read_bytes() for one in state.rglob("*") if one.is_file()}


PROFILE = '[servers.it]\ncommand = "x"\n'


def test_a_project_that_is_not_trusted_is_reported_and_nothing_is_written(
    machine: FakeMachine,
) -> None:
    file = machine.write(".mcp-launch.toml", PROFILE)
    finding = only(machine)
    assert finding.code == "ML014"
    effect = "start without it, or not at all if they need it"
    assert finding.message == f"{file} is not trusted: servers named it {effect}"
    assert finding.fix == f"read it, then run: mcp-launch trust {file}"
    assert list_state(machine) == {}


def test_trust_lasts_until_the_file_changes_and_looking_does_not_end_it(
    machine: FakeMachine,
) -> None:
    file = machine.write(".mcp-launch.toml", PROFILE)
    trust(machine, file)
    before = list_state(machine)
    assert check(machine) == []
    file.write_text(PROFILE + "strict = true\n", encoding="utf-8")
    assert "is not trusted since it was changed" in only(machine).message
    assert list_state(machine) == before
    file.write_text(PROFILE, encoding="utf-8")
    assert check(machine) == []


def test_a_trusted_project_that_is_no_longer_valid_is_reported(machine: FakeMachine) -> None:
    file = machine.write(".mcp-launch.toml", PROFILE)
    trust(machine, file)
    file.write_text("[servers", encoding="utf-8")
    finding = only(machine)
    assert (finding.code, finding.subject.line) == ("ML013", 1)


def test_a_project_that_could_not_be_trusted_is_reported_with_the_reason(
    machine: FakeMachine,
) -> None:
    file = machine.write(".mcp-launch.toml", "[servers")
    finding = only(machine)
    assert finding.code == "ML014"
    assert finding.message.startswith(
        "it is not trusted, and cannot be until this is fixed: not valid TOML"
    )
    assert finding.fix.endswith(f"then run: mcp-launch trust {file}")


def test_a_project_file_that_is_a_link_out_of_the_project_is_reported(machine: FakeMachine) -> None:
    other = machine.write("~/other/.mcp-launch.toml", PROFILE)
    trust(machine, other)
    (machine.project / ".mcp-launch.toml").symlink_to(other)

    finding = only(machine)

    assert finding.code == "ML014"
    assert f"is a link to {other}, which is outside of the project" in finding.message


def test_a_file_that_only_marks_a_root_needs_no_trust(machine: FakeMachine) -> None:
    machine.write(".mcp-launch.toml", "")
    assert check(machine) == []


@pytest.mark.parametrize("name", ["handshakes", "leases", "logs", "profiles", "runners", "backups"])
def test_a_file_where_a_directory_should_be_is_reported(
    machine: FakeMachine, state: Path, name: str
) -> None:
    path = state / name
    if path.exists():
        path.rmdir()
    path.touch()

    finding = only(machine)

    assert finding.code == "ML012"
    assert finding.message == f"{path} is not a directory, so launches cannot write their {name}"
    assert finding.fix == f"move it away: mv {path} {path}.old"


@pytest.mark.parametrize("is_there", [True, False])
def test_on_a_read_only_file_system_no_chmod_is_advised(
    machine: FakeMachine, state: Path, is_there: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_there:
        shutil.rmtree(state)
    room = os.statvfs(machine.home)
    fields = [*room[:8], room.f_flag | os.ST_RDONLY, room.f_namemax]
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))

    findings = list(our_installation.check_state(machine.survey()))

    assert {finding.code for finding in findings} == {"ML012"}
    assert all("is mounted read-only" in finding.message for finding in findings)
    assert all("MCP_LAUNCH_HOME" in finding.fix for finding in findings)
    assert not any("chmod" in finding.fix for finding in findings)


def test_the_doctors_own_table_is_skipped_by_launches(machine: FakeMachine) -> None:
    machine.write("~/.config/mcp-launch/config.toml", '[doctor]\nignore = "nonsense"\nodd = 3\n')

    assert check(machine) == []  # `ignore_list` reports it
    assert profile.load(["--server", "it", "--", "x"], machine.environ).command == ["x"]


def test_a_project_must_not_tell_the_doctor_what_to_ignore(machine: FakeMachine) -> None:
    machine.write(".mcp-launch.toml", '[doctor]\nignore = ["ML111"]\n')

    finding = only(machine)

    assert finding.code == "ML014"
    assert "a project's file cannot have [doctor]" in finding.message
    assert (finding.subject.line, finding.subject.column) == (1, 1)
    assert finding.fix.startswith("move it to ~/.config/mcp-launch/config.toml")
