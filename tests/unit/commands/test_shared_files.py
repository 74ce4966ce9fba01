"""Files that others get, copies, and the record of what was wrapped where."""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fake_machine import list_codes
from git_repository import track
from mcp_launch.doctor.checks import not_wrapped, our_installation
from privileges import run_unprivileged
from wrap_requests import TEXT, find_script, unwrap, wrap, write

from mcp_launch import state as state_directory
from mcp_launch.commands import doctor, trust
from mcp_launch.commands import wrap as wrap_command
from mcp_launch.commands.screen import Screen
from mcp_launch.config_files import (
    backups,
    planned_changes,
    replace_file,
    wrapped_files,
    write_file,
)
from mcp_launch.config_files.host_config import ANY_HOST, File
from mcp_launch.config_files.planned_changes import Wish
from mcp_launch.doctor.report import Report
from mcp_launch.doctor.report_text import ReportText
from mcp_launch.errors import FileRefused, UsageError
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import profile_reader
from mcp_launch.machine.survey import open_survey
from mcp_launch.state import profile_cache
from mcp_launch.state.leases import Lease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from io import FileIO

    from fake_machine import FakeMachine
    from mcp_launch.doctor.finding import Finding

    from mcp_launch.documents.document import Kind


# Above the largest pid of any Linux.
NO_PID = (1 << 22) + 1


def read_command(path: Path) -> str:
    entry = json.loads(path.read_text(encoding="utf-8"))["mcpServers"]["it"]
    return str(entry["command"])


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Return our state directory, which does not exist yet."""
    return tmp_path / "state"


@pytest.fixture
def shared(project: Path) -> Path:
    """Return a file that Git tracks."""
    path = write(project / ".mcp.json")
    track(project, ".mcp.json")
    return path


def list_copies(state: Path) -> list[Path]:
    return sorted((state / "backups").iterdir()) if (state / "backups").exists() else []


def test_a_tracked_file_is_skipped_and_the_way_to_include_it_is_said(
    shared: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = write(own_home / ".cursor" / "mcp.json")

    assert wrap() == 0

    said = capsys.readouterr().out
    assert shared.read_text(encoding="utf-8") == TEXT
    assert read_command(own) == find_script()
    assert "Skipped: 1 in files that Git tracks.\n" in said
    assert f"Skipped {shared}: Git tracks it" in said
    assert f"mcp-launch wrap --file {shared} (or add --shared)\n" in said


@pytest.mark.parametrize("how", ["--shared", "--file"])
def test_a_tracked_file_that_is_asked_for_is_wrapped_by_the_bare_name(
    how: str, shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (wrap(is_shared=True) if how == "--shared" else wrap(files=[str(shared)])) == 0

    assert read_command(shared) == "mcp-launch"
    assert f"{shared} is tracked by Git" in capsys.readouterr().out
    assert unwrap() == 0  # undoing needs no permission
    assert shared.read_text(encoding="utf-8") == TEXT
    assert "committing this removes mcp-launch for others" in capsys.readouterr().out


def test_a_path_of_this_machine_in_a_tracked_file_becomes_the_bare_name(shared: Path) -> None:
    file = File(str(shared), "project")
    text = planned_changes.look(HOSTS["claude"], file, TEXT, Wish(find_script())).after
    write(shared, text)
    assert wrap() == 0
    assert shared.read_text(encoding="utf-8") == text

    assert wrap(is_shared=True) == 0

    assert shared.read_text(encoding="utf-8") == text.replace(find_script(), "mcp-launch")


def test_a_file_in_the_home_that_git_tracks_is_shared_too(own_home: Path, project: Path) -> None:
    assert project.is_dir()
    dotfiles = own_home / "dotfiles"
    real = write(dotfiles / "mcp.json")
    track(dotfiles, "mcp.json")
    (own_home / ".cursor").mkdir()
    (own_home / ".cursor" / "mcp.json").symlink_to(real)

    assert wrap() == 0

    assert real.read_text(encoding="utf-8") == TEXT


def test_the_doctor_offers_to_wrap_no_tracked_file_and_says_how_to(machine: FakeMachine) -> None:
    path = machine.write("~/.cursor/mcp.json", TEXT)
    offered = [one.repair for one in look_at_wrapping(machine)]
    track(machine.home, str(path))

    [finding] = look_at_wrapping(machine)

    assert all(offered)
    assert finding.repair is None
    assert "mcp-launch wrap --shared --host cursor it" in finding.fix


def look_at_wrapping(machine: FakeMachine) -> list[Finding]:
    survey = machine.survey("cursor")
    survey.launcher = find_script()
    return [one for item in survey.servers for one in not_wrapped.check_wrapped(survey, item)]


def test_a_copy_is_kept_in_our_own_directory_for_the_user_alone(
    project: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(project / ".mcp.json")
    path.chmod(0o644)

    assert wrap(is_verbose=True) == 0

    [copy] = list_copies(state)
    assert copy.read_text(encoding="utf-8") == TEXT
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    assert f"a copy of the original is in {copy}" in capsys.readouterr().out
    assert sorted(one.name for one in project.iterdir()) == [".git", ".mcp.json"]


def test_a_copy_goes_with_the_last_unwrap_though_its_host_has_rewritten_the_file(
    own_home: Path, project: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    servers = {"a": {"command": "x", "args": []}, "b": {"command": "y", "args": []}}
    path = write(own_home / ".claude.json", json.dumps({"mcpServers": servers}))
    assert wrap() == 0
    [copy] = list_copies(state)
    value = json.loads(path.read_text(encoding="utf-8"))
    write(path, json.dumps(value | {"numStartups": 7}, indent=2))

    assert unwrap(names=["a"]) == 0
    assert copy.exists()  # something of ours is left
    assert unwrap(is_verbose=True) == 0

    assert not copy.exists()
    assert f"removed its copy {copy}" in capsys.readouterr().out
    assert json.loads(path.read_text(encoding="utf-8"))["mcpServers"] == servers
    assert json.loads((state / wrapped_files.NAME).read_text(encoding="utf-8"))["files"] == {}


def test_a_copy_goes_when_somebody_else_took_us_out(project: Path, state: Path) -> None:
    path = write(project / ".mcp.json")
    assert wrap() == 0
    write(path, TEXT)

    assert unwrap() == 0

    assert list_copies(state) == []
    assert list(wrapped_files.list_files(str(state))) == []


def test_a_copy_of_before_is_replaced_where_nothing_of_ours_was_left(
    project: Path, state: Path
) -> None:
    path = write(project / ".mcp.json")
    assert wrap() == 0
    later = TEXT.replace('"1"', '"2"')
    write(path, later)  # by hand

    assert wrap() == 0

    [copy] = list_copies(state)
    assert copy.read_text(encoding="utf-8") == later


def test_unwrap_says_what_stays_wrapped_elsewhere_and_all_undoes_it(
    project: Path,
    tmp_path: Path,
    state: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here = write(project / ".mcp.json")
    assert wrap() == 0
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    monkeypatch.chdir(other)

    assert unwrap() == 0
    said = capsys.readouterr().out
    assert f"1 other file is still wrapped: {here}." in said
    assert "mcp-launch unwrap --all" in said

    assert unwrap(is_everywhere=True) == 0
    assert here.read_text(encoding="utf-8") == TEXT
    assert list_copies(state) == []
    assert "still wrapped" not in capsys.readouterr().out


def test_all_and_a_file_exclude_each_other(project: Path) -> None:
    path = write(project / ".mcp.json")

    with pytest.raises(UsageError, match="cannot be combined"):
        unwrap(files=[str(path)], is_everywhere=True)


def test_a_recorded_file_that_is_gone_is_named_and_forgotten(
    project: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(project / ".mcp.json")
    assert wrap() == 0
    [copy] = list_copies(state)
    path.unlink()
    assert unwrap() == 0
    assert wrapped_files.list_gone(str(state)) == [str(path)]

    assert unwrap(is_everywhere=True) == 0

    said = capsys.readouterr().out
    assert f"{path} was wrapped and is gone" in said
    assert f"A copy of the original stays in {copy}" in said
    assert list(wrapped_files.list_files(str(state))) == []


@pytest.mark.parametrize("everywhere", [False, True])
def test_a_wrapped_file_that_was_away_for_a_while_is_still_known(
    everywhere: bool, project: Path, tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(project / ".mcp.json")
    assert wrap() == 0
    [copy] = list_copies(state)
    (tmp_path / "here" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    away = path.rename(tmp_path / "stash")

    assert unwrap(is_everywhere=everywhere) == 0
    away.rename(path)

    assert [file.path for _, file in wrapped_files.list_files(str(state))] == [str(path)]
    assert copy.exists()
    assert unwrap(is_everywhere=True) == 0
    assert path.read_text(encoding="utf-8") == TEXT
    assert list_copies(state) == []


@pytest.fixture
def gone(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a wrapped file whose whole project was deleted; we are in another one."""
    path = write(project / ".mcp.json")
    assert wrap() == 0
    (tmp_path / "here" / ".git").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    shutil.rmtree(project)
    return path


def test_unwrapping_everything_names_and_forgets_a_file_whose_project_is_gone(
    gone: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert unwrap(is_everywhere=True, is_dry=True) == 0
    assert f"{gone} was wrapped and is gone" in capsys.readouterr().out
    assert unwrap() == 0
    assert unwrap(is_everywhere=True, hosts=["codex"]) == 0
    assert wrapped_files.list_gone(str(state)) == [str(gone)]

    assert unwrap(is_everywhere=True) == 0

    said = capsys.readouterr().out
    assert f"{gone} was wrapped and is gone" in said
    assert "mcp-launch unwrap --file NEWPATH" in said
    assert wrapped_files.list_gone(str(state)) == []


def test_a_file_that_is_named_and_gone_is_said_to_have_been_wrapped(gone: Path) -> None:
    with pytest.raises(UsageError, match="was wrapped and is gone") as caught:
        unwrap(files=[str(gone)])

    assert "mcp-launch unwrap --file NEWPATH" in caught.value.fix
    assert "unwrap --all" in caught.value.fix


def test_the_doctor_names_wrapped_files_that_are_gone(machine: FakeMachine, tmp_path: Path) -> None:
    survey = machine.survey()
    path = str(tmp_path / "other" / ".mcp.json")
    wrapped_files.note(survey.state, HOSTS["claude"], File(path, "project"))

    [finding] = our_installation.check_elsewhere(survey)

    assert list_codes([finding]) == ["ML017"]
    assert f"are gone: {path}" in finding.message
    assert "unwrap --file NEWPATH" in finding.fix


def test_a_file_in_a_directory_that_is_closed_is_not_taken_for_gone(tmp_path: Path) -> None:
    path = write(tmp_path / "closed" / "x.json")
    path.parent.chmod(0)

    is_gone = run_unprivileged(lambda: wrapped_files.is_gone(str(path)))

    path.parent.chmod(0o700)
    assert not is_gone


@pytest.mark.parametrize("act", [wrap, unwrap], ids=["wrap", "unwrap"])
def test_a_deleted_working_directory_is_said(
    act: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "deleted"
    here.mkdir()
    monkeypatch.chdir(here)
    here.rmdir()

    with pytest.raises(UsageError, match="the current directory was deleted"):
        act()
    with pytest.raises(UsageError, match="the current directory was deleted"):
        trust.locate("")
    with pytest.raises(UsageError, match="the current directory was deleted"):
        open_survey(os.environ, needs_project=True)
    # Whoever asks only what runs need not be anywhere.
    assert open_survey(os.environ).items == []


def test_nobody_is_sent_to_restart_hosts_whose_files_could_not_be_written(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(project / ".mcp.json")
    (tmp_path / "state").write_text("in the way", encoding="utf-8")

    assert wrap() == 1

    said = capsys.readouterr()
    assert "cannot write" in said.err
    assert "Restart" not in said.out


def test_what_was_wrapped_before_there_was_a_record_is_recorded(project: Path, state: Path) -> None:
    path = write(
        project / ".mcp.json",
        '{"mcpServers": {"it": {"command": "mcp-launch", "args": ["run", "--", "x"]}}}',
    )

    assert wrap() == 0

    assert [file.path for _, file in wrapped_files.list_files(str(state))] == [str(path)]


def test_the_doctor_names_wrapped_files_elsewhere(machine: FakeMachine, tmp_path: Path) -> None:
    survey = machine.survey()
    file = File(str(tmp_path / "other" / ".mcp.json"), "project")
    make = lambda text: planned_changes.look(HOSTS["claude"], file, text, Wish(find_script())).after  # noqa: E731
    write(Path(file.path))
    assert replace_file.replace(HOSTS["claude"], file, make, survey.state)
    here = machine.write("~/.cursor/mcp.json", TEXT)
    wrapped_files.note(survey.state, HOSTS["cursor"], File(str(here), "user"))

    [finding] = our_installation.check_elsewhere(survey)

    assert list_codes([finding]) == ["ML017"]
    assert finding.level == "note"
    assert file.path in finding.message
    assert str(here) not in finding.message
    assert "unwrap --all" in finding.fix
    write(Path(file.path))
    assert list(our_installation.check_elsewhere(survey)) == []


def note(state: Path, path: str = "/p/.mcp.json") -> None:
    wrapped_files.note(str(state), HOSTS["claude"], File(path, "project"))


def test_the_record_is_private_and_keeps_what_it_does_not_know(state: Path) -> None:
    note(state)
    name = state / wrapped_files.NAME
    assert stat.S_IMODE(name.stat().st_mode) == 0o600
    told = json.loads(name.read_text(encoding="utf-8"))
    told["later"] = 1
    told["files"]["/p/.mcp.json"]["more"] = [2]
    name.write_text(json.dumps(told), encoding="utf-8")

    note(state, "/q/.mcp.json")

    after = json.loads(name.read_text(encoding="utf-8"))
    assert after["later"] == 1
    assert after["files"]["/p/.mcp.json"]["more"] == [2]
    assert [one.name for one in state.iterdir()] == [wrapped_files.NAME]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "[" * 100_000, '{"files": []}', '{"files": {"/p": 1, "q": {}}}']
)
def test_a_damaged_record_is_no_reason_to_fail(text: str, state: Path) -> None:
    write(state / wrapped_files.NAME, text)

    assert list(wrapped_files.list_files(str(state))) == []
    note(state)

    assert [file.path for _, file in wrapped_files.list_files(str(state))] == ["/p/.mcp.json"]


@pytest.mark.parametrize("text", ["{", "[]", '{"files": []}'])
def test_a_damaged_record_is_set_aside_and_named(text: str, state: Path) -> None:
    write(state / wrapped_files.NAME, text)
    [doubt] = wrapped_files.list_doubts(str(state))
    assert "is damaged" in doubt.problem

    note(state)

    aside = state / wrapped_files.UNREADABLE
    assert aside.read_text(encoding="utf-8") == text
    [doubt] = wrapped_files.list_doubts(str(state))
    assert str(aside) in doubt.problem


@pytest.fixture
def _shared_group() -> Iterator[None]:
    """Have a umask as where each user has a group of their own."""
    before = os.umask(0o002)
    yield
    os.umask(before)


@pytest.mark.usefixtures("_shared_group")
@pytest.mark.parametrize("first", ["nothing", "a launch", "a profile", "an open directory"])
def test_files_are_remembered_whatever_the_umask_is(
    first: str, state: Path, project: Path, own_home: Path
) -> None:
    if first == "a launch":
        Lease(str(state / "leases" / "x.json"), {}).write()
    elif first == "a profile":
        profile = write(project / ".mcp-launch.toml", "")
        assert profile_reader.write(
            profile_reader.read(str(profile), None, is_projects=True), os.environ
        )
        assert profile_cache.read(str(profile), os.environ)
    elif first == "an open directory":
        state.mkdir()
        assert state.stat().st_mode & 0o020
    paths = [write(project / ".mcp.json"), write(own_home / ".cursor" / "mcp.json")]

    assert wrap() == 0

    recorded = [file.path for _, file in wrapped_files.list_files(str(state))]
    assert sorted(recorded) == sorted(map(str, paths))
    assert not state.stat().st_mode & 0o022
    assert unwrap(is_everywhere=True) == 0
    assert [path.read_text(encoding="utf-8") for path in paths] == [TEXT, TEXT]


def test_a_directory_that_is_open_to_everybody_on_purpose_stays_so(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)

    state_directory.make_directory(str(tmp_path))

    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o1777


def test_nothing_is_written_over_a_record_that_is_not_believed(
    project: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note(state)
    name = state / wrapped_files.NAME
    name.chmod(0o666)
    before = name.read_text(encoding="utf-8")
    path = write(project / ".mcp.json")

    assert wrap() == 1

    assert f"chmod go-w {name}" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == TEXT
    assert name.read_text(encoding="utf-8") == before
    assert list_copies(state) == []
    assert unwrap(is_everywhere=True) == 1
    assert f"chmod go-w {name}" in capsys.readouterr().err


def test_the_doctor_names_a_record_that_is_not_believed(machine: FakeMachine) -> None:
    survey = machine.survey()
    wrapped_files.note(survey.state, HOSTS["claude"], File("/p/.mcp.json", "project"))
    name = Path(survey.state) / wrapped_files.NAME
    name.chmod(0o666)

    [finding] = our_installation.check_state(survey)

    assert list_codes([finding]) == ["ML012"]
    assert f"chmod go-w {name}" in finding.fix


@pytest.mark.parametrize("how", ["a link", "writable by others", "a pipe"])
def test_a_record_that_may_be_anothers_is_not_believed(how: str, state: Path) -> None:
    note(state)
    name = state / wrapped_files.NAME
    if how == "a link":
        name.symlink_to(name.rename(state / "elsewhere"))
    elif how == "a pipe":
        name.unlink()
        os.mkfifo(name)
    else:
        name.chmod(0o666)

    assert list(wrapped_files.list_files(str(state))) == []
    assert len(wrapped_files.list_doubts(str(state))) == 1
    with pytest.raises(FileRefused, match="the record of wrapped files"):
        note(state, "/q/.mcp.json")


def test_our_own_profile_and_other_peoples_files_survive_beside_a_file(project: Path) -> None:
    path = write(project / ".mcp.json")
    mine = [
        write(project / name)
        for name in (
            ".mcp-launch-local.toml",
            ".mcp-launch-old.toml",
            ".mcp-launch-abcd1234",
            f".mcp-launch-draft-{2**22}-short",
        )
    ]
    for one in mine:
        os.utime(one, (0, 0))

    assert wrap() == 0

    assert read_command(path) == find_script()
    assert all(one.exists() for one in mine)


@pytest.mark.parametrize(
    ("pid", "age", "is_swept"),
    [("gone", 7200, True), ("gone", 10, False), ("ours", 7200, False)],
    ids=["left behind", "too young", "its process lives"],
)
def test_only_a_draft_that_was_left_behind_is_removed(
    pid: str, age: float, is_swept: bool, project: Path
) -> None:
    write(project / ".mcp.json")
    number = NO_PID if pid == "gone" else os.getpid()
    draft = write(project / f".mcp-launch-draft-{number}-{'0af' * 10}00")
    then = time.time() - age
    os.utime(draft, (then, then))

    assert wrap() == 0

    assert draft.exists() is not is_swept


def test_a_file_with_two_names_stays_one_file(
    own_home: Path, project: Path, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    path = write(own_home / ".cursor" / "mcp.json")
    other = own_home / "other.json"
    other.hardlink_to(path)

    assert wrap() == 0

    assert path.samefile(other)
    assert read_command(other) == find_script()
    assert "in place: it has 2 names" in capsys.readouterr().out
    assert [copy.read_text(encoding="utf-8") for copy in list_copies(state)] == [TEXT]
    assert unwrap() == 0
    assert path.samefile(other)
    assert other.read_text(encoding="utf-8") == TEXT


def test_a_file_with_two_names_is_put_back_when_it_cannot_be_written(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "file")
    (tmp_path / "other").hardlink_to(path)
    whole = write_file._overwrite  # noqa: SLF001
    failures = [OSError(28, "No space left on device")]

    def fail_half_way(file: FileIO, data: bytes) -> None:
        if failures:
            whole(file, data[:5])
            raise failures.pop()
        whole(file, data)

    monkeypatch.setattr(write_file, "_overwrite", fail_half_way)

    with pytest.raises(FileRefused, match="No space left"):
        replace_file.replace(ANY_HOST, File(str(path), "file"), str.upper, str(state))

    assert path.read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize("was_wrapped", [False, True])
def test_the_text_of_a_file_that_was_damaged_is_kept_and_named(
    was_wrapped: bool, project: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(project / ".mcp.json")
    (project / "other").hardlink_to(path)
    if was_wrapped:
        assert wrap() == 0
    before = path.read_text(encoding="utf-8")
    copies = list_copies(state)
    whole = write_file._overwrite  # noqa: SLF001

    def fail_half_way(file: FileIO, data: bytes) -> None:
        whole(file, data[:5])
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(write_file, "_overwrite", fail_half_way)
    file = File(str(path), "project")
    make = partial(wrap_command._make, ANY_HOST, file, Wish("" if was_wrapped else find_script()))

    with pytest.raises(FileRefused, match="may be damaged") as caught:
        replace_file.replace(ANY_HOST, file, make, str(state))

    [copy] = set(list_copies(state)) - set(copies)
    assert copy.read_text(encoding="utf-8") == before
    assert str(copy) in caught.value.fix
    assert [file.path for _, file in wrapped_files.list_files(str(state))] == [str(path)]


ALIASES = {
    "an entry": "extensions:\n  one: &o\n    type: stdio\n    cmd: x\n    args: [y]\n  two: *o\n",
    "its arguments": (
        "extensions:\n  one: {type: stdio, cmd: x, args: &a [y]}\n"
        "  two: {type: stdio, cmd: z, args: *a}\n"
    ),
}


@pytest.mark.parametrize("names", [("one",), ("two",), ()])
@pytest.mark.parametrize("text", ALIASES.values(), ids=list(ALIASES))
def test_an_entry_that_shares_its_text_with_another_is_not_wrapped(
    text: str, names: tuple[str, ...]
) -> None:
    file = File("config.yaml", "user", "yaml", (("extensions",),))

    change = planned_changes.look(HOSTS["goose"], file, text, Wish(find_script(), names))

    assert change.after == text
    reasons = {entry.name: entry.why_not for entry in change.entries}
    expected = {
        "one": "it shares its text with two",
        "two": "it shares its text with one",
    }
    assert reasons == {name: why for name, why in expected.items() if name in names or not names}


def test_entries_that_share_only_their_variables_are_wrapped() -> None:
    text = (
        "extensions:\n  one: {type: stdio, cmd: x, args: [], envs: &e {A: b}}\n"
        "  two: {type: stdio, cmd: y, args: [], envs: *e}\n"
    )
    file = File("config.yaml", "user", "yaml", (("extensions",),))

    change = planned_changes.look(HOSTS["goose"], file, text, Wish(find_script()))

    assert [entry.why_not for entry in change.entries] == ["", ""]
    assert planned_changes.look(HOSTS["goose"], file, change.after, Wish("")).after == text


def test_entries_that_were_wrapped_as_one_can_be_unwrapped_as_one() -> None:
    text = ALIASES["an entry"].replace("cmd: x", "cmd: mcp-launch").replace("[y]", "[ run, --, x ]")
    file = File("config.yaml", "user", "yaml", (("extensions",),))

    alone = planned_changes.look(HOSTS["goose"], file, text, Wish("", ("one",)))
    change = planned_changes.look(HOSTS["goose"], file, text, Wish(""))

    assert alone.after == text
    assert change.after == ALIASES["an entry"].replace("[y]", "[]")


def test_entries_that_share_only_their_arguments_are_not_unwrapped() -> None:
    text = (
        "extensions:\n  one: {type: stdio, cmd: mcp-launch, args: &a [run, --, x]}\n"
        "  two: {type: stdio, cmd: mcp-launch, args: *a}\n"
    )
    file = File("config.yaml", "user", "yaml", (("extensions",),))

    change = planned_changes.look(HOSTS["goose"], file, text, Wish(""))

    assert change.after == text
    assert change.entries[0].why_not == "it shares its text with two"


def test_a_document_that_grows_without_end_is_refused_and_not_read_out() -> None:
    bomb = "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    for name, before in zip("bcdefgh", "abcdefg", strict=True):
        bomb += f"{name}: &{name} [{','.join([f'*{before}'] * 10)}]\n"
    text = f"{bomb}extensions:\n  one: {{type: stdio, cmd: x, args: [y]}}\n"
    file = File("config.yaml", "user", "yaml", (("extensions",),))

    change = planned_changes.look(HOSTS["goose"], file, text, Wish(find_script()))

    assert change.after == text
    assert change.entries[0].why_not == "it is written in a way that cannot be changed safely"


def test_two_copies_of_files_of_the_same_name_do_not_meet(state: Path) -> None:
    copies = {
        backups.keep(str(state), f"/{place}/.mcp.json", place, is_untouched=True)
        for place in ("a", "b")
    }

    assert len(copies) == 2
    assert not any(Path(copy).parent.joinpath(".draft").exists() for copy in copies)


def test_unwrap_claims_no_loss_for_others_that_it_cannot_know_of(
    shared: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wrap(is_shared=True) == 0
    capsys.readouterr()

    assert unwrap() == 0

    assert f"Git tracks {shared}: if it was committed with mcp-launch in it" in (
        capsys.readouterr().out
    )


def test_unwrap_notes_a_source_with_which_codex_does_not_start(
    own_home: Path, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.is_dir()
    text = """\
[mcp_servers.docs]
command = "x"
env_vars = ["A", { name = "T", source = "thread" }]
"""
    path = write(own_home / ".codex" / "config.toml", text)
    assert wrap() == 0
    assert "does not start" not in capsys.readouterr().out

    assert unwrap() == 0

    assert path.read_text(encoding="utf-8") == text
    said = capsys.readouterr().out
    assert "docs: its env_vars again have the source thread" in said
    assert "with which Codex does not start" in said


@pytest.mark.parametrize(
    ("host", "kind", "text", "why"),
    [
        (
            "cursor",
            "json",
            '{"mcpServers": {"it": {"url": "https://example.org"}}}',
            "it is a remote server",
        ),
        ("goose", "yaml", "extensions:\n  it:\n    type: builtin\n", "it is part of Goose"),
    ],
    ids=["by its address", "built in"],
)
def test_unwrap_gives_the_reason_that_wrap_gives(
    host: str, kind: Kind, text: str, why: str
) -> None:
    file = File("/x", "user", kind, (("extensions",),) if kind == "yaml" else (("mcpServers",),))

    for wish in (Wish(find_script()), Wish("")):
        [entry] = planned_changes.look(HOSTS[host], file, text, wish).entries
        assert entry.why_not == why


def test_a_name_that_is_there_twice_is_no_damage_to_a_file() -> None:
    text = '{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}'

    with pytest.raises(FileRefused, match="/x:1:40: a appears twice") as caught:
        planned_changes.look(HOSTS["cursor"], File("/x", "user"), text, Wish(""))

    assert "keep one of them" in caught.value.fix
    assert "cannot read it" not in caught.value.fix


def test_the_doctor_offers_an_untracked_file_of_the_project_as_wrap_does(
    machine: FakeMachine,
) -> None:
    machine.write(".cursor/mcp.json", TEXT)

    [finding] = look_at_wrapping(machine)

    assert finding.repair is not None
    assert "--shared" not in finding.fix


def test_the_doctor_keeps_apart_what_wrapping_changes_for_everyone(
    machine: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, names in ((".mcp.json", ("pg", "team")), ("~/.claude.json", ("docs", "web"))):
        entries = {name: {"command": "x"} for name in names}
        machine.write(path, json.dumps({"mcpServers": entries}))
    track(machine.project, ".mcp.json")
    survey = machine.survey("claude")
    survey.launcher = find_script()
    found = [one for item in survey.items for one in not_wrapped.check_wrapped(survey, item)]

    ReportText(Report(survey, found), Screen(), is_verbose=True).show()

    said = capsys.readouterr().out
    assert "4 servers are not wrapped (Claude Code 4): mcp-launch wrap --host claude; " in said
    assert "2 in files that Git tracks: mcp-launch wrap --shared --host claude\n" in said
    assert "Claude Code: docs, web, pg, team\n" in said


def test_doctor_says_that_the_other_findings_are_left_to_the_user(
    machine: FakeMachine, capsys: pytest.CaptureFixture[str]
) -> None:
    runnable = TEXT.replace('"x"', '"sh"')
    machine.write("~/.cursor/mcp.json", runnable)
    path = machine.write(".cursor/mcp.json", runnable.replace("it", "team"))
    track(machine.project, str(path))

    doctor.run(doctor.DoctorRequest(["cursor"], is_fixing=True), os.environ)

    said = capsys.readouterr().out
    assert "would wrap it in" in said
    assert "follow the fix shown above" in said
