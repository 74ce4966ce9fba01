"""Which server and client a remembered handshake is for, and what is never kept."""

from __future__ import annotations

import json
import os
import stat
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcp_launch.protocol.memory import Remembered
from mcp_launch.state import handshake_files
from mcp_launch.state.handshake_files import prune
from mcp_launch.state.handshakes import Handshakes, name_server, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ANSWERS = {
    ("initialize", b""): b'{"result":{}}',
    ("tools/list", b'"2"'): b'{"result":{"tools":[{"name":"x"}]}}',
}


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path), "MCP_LAUNCH_HOME": str(tmp_path / "state")}


@pytest.fixture
def store(environ: dict[str, str]) -> Handshakes:
    return Handshakes(environ, "server")


def make_memory(client: str = "c", written: float = 100.0) -> Remembered:
    return Remembered(client, written, dict(ANSWERS))


def find_file(environ: dict[str, str]) -> Path:
    (found,) = Path(handshake_files.find_directory(environ)).iterdir()
    return found


# Reading and writing


def change_header(file: Path, **members: object) -> None:
    first, _, rest = file.read_bytes().partition(b"\n")
    file.write_bytes(json.dumps(json.loads(first) | members).encode() + b"\n" + rest)


def test_what_was_written_is_read_with_its_age(store: Handshakes) -> None:
    memory = make_memory(written=100.0)
    memory.size_of_server = 82

    store.write(memory, 130.0)
    read = store.read("c", 1000.0)

    assert read is not None
    assert read.answers == ANSWERS
    assert read.size_of_server == 82
    assert 960.0 < read.written <= 970.0
    assert not read.is_due
    assert store.has_any()


@pytest.mark.parametrize(("name", "known"), [("docs", "docs"), ("", ""), (3, ""), (None, "")])
def test_a_file_names_its_server_as_profiles_do(
    environ: dict[str, str], name: object, known: str
) -> None:
    Handshakes(environ, "server", "docs").write(make_memory(), 100.0)
    file = find_file(environ)
    change_header(file, server=name)

    kept = read_file(str(file), 100.0)

    assert kept is not None
    assert (kept[0], kept[1].answers) == (known, ANSWERS)


@pytest.mark.parametrize(
    "size", [10**400, -1, "82", 1.5], ids=["huge", "less than 0", "text", "1.5"]
)
def test_a_size_that_no_server_has_is_not_believed(
    environ: dict[str, str], store: Handshakes, size: object
) -> None:
    store.write(make_memory(), 100.0)
    change_header(find_file(environ), memory=size)

    read = store.read("c", 100.0)

    assert read is not None
    assert read.size_of_server == 0


def test_only_its_user_client_and_server_read_it_until_it_is_forgotten(
    environ: dict[str, str], store: Handshakes
) -> None:
    before = os.umask(0)
    try:
        store.write(make_memory(), 100.0)
    finally:
        os.umask(before)

    file = find_file(environ)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert store.read("d", 100.0) is None
    other = Handshakes(environ, "other")
    assert other.read("c", 100.0) is None
    assert not other.has_any()
    assert store.read("c", 100.0)

    store.forget("c")
    store.forget("c")
    assert not file.exists()
    store.claim_check("c")


def link(file: Path) -> None:
    elsewhere = file.parent.parent / "elsewhere"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)


UNFIT: dict[str, Callable[[Path], object]] = {
    "writable by others": lambda file: file.chmod(0o666),
    "a link": link,
    "empty": lambda file: file.write_bytes(b""),
    "an empty line": lambda file: file.write_bytes(b"\n"),
    "a list": lambda file: file.write_bytes(b"[1]\n"),
    "nested too deeply": lambda file: file.write_bytes(b"[" * 100_000 + b"\n"),
    "no text": lambda file: file.write_bytes(b"\xff\n"),
    "a later format": lambda file: change_header(file, format=3),
    "no format": lambda file: change_header(file, format=None),
    "another client": lambda file: change_header(file, client="d"),
    "a text for the time": lambda file: change_header(file, written="today"),
    "no time": lambda file: change_header(file, written=None),
    "a time that is too large": lambda file: change_header(file, written=10**400),
    "a time to come": lambda file: change_header(file, written=time.time() + 1e6),
    "a time long ago": lambda file: change_header(file, written=time.time() - 31 * 86_400),
    "no questions": lambda file: change_header(file, answers=None),
    "fewer questions": lambda file: change_header(file, answers=[]),
    "another digest": lambda file: change_header(file, digest="0"),
}


@pytest.mark.parametrize("change", UNFIT.values(), ids=list(UNFIT))
def test_a_file_that_does_not_fit_is_ignored(
    environ: dict[str, str], store: Handshakes, change: Callable[[Path], object]
) -> None:
    store.write(make_memory(), 100.0)
    change(find_file(environ))

    assert store.read("c", 100.0) is None


def test_every_way_to_cut_a_file_short_is_noticed(
    environ: dict[str, str], store: Handshakes
) -> None:
    store.write(make_memory(), 100.0)
    file = find_file(environ)
    content = file.read_bytes()
    for length in range(len(content)):
        file.write_bytes(content[:length])

        assert store.read("c", 100.0) is None, content[:length]


@pytest.mark.parametrize("question", [["a", "b", "c"], ["a"], "ab", 1, [1, 2], None], ids=str)
def test_a_question_of_an_unknown_form_is_left_out(
    environ: dict[str, str], store: Handshakes, question: object
) -> None:
    store.write(make_memory(), 100.0)
    change_header(find_file(environ), answers=[["initialize", ""], question])

    read = store.read("c", 100.0)

    assert read is not None
    assert list(read.answers) == [("initialize", b"")]


def test_a_memory_is_due_after_a_day_until_it_is_claimed(
    environ: dict[str, str], store: Handshakes
) -> None:
    store.write(make_memory(), 100.0)
    yesterday = time.time() - 90_000
    os.utime(find_file(environ), (yesterday, yesterday))
    due = store.read("c", 100.0)
    store.claim_check("c")
    claimed = store.read("c", 100.0)

    assert due
    assert claimed
    assert (due.is_due, claimed.is_due) == (True, False)


def test_too_much_is_not_kept(store: Handshakes) -> None:
    memory = make_memory()
    memory.answers["tools/list", b""] = b'{"result":"%b"}' % (b"x" * (2 << 20))

    store.write(memory, 100.0)

    assert store.read("c", 100.0) is None


def test_a_full_disk_or_a_file_in_the_way_is_no_failure(environ: dict[str, str]) -> None:
    Path(environ["MCP_LAUNCH_HOME"]).write_text("in the way", encoding="utf-8")
    store = Handshakes(environ, "server")

    store.write(make_memory(), 100.0)

    assert store.read("c", 100.0) is None
    assert not store.has_any()


def test_fifty_writers_leave_one_whole_file(environ: dict[str, str], store: Handshakes) -> None:
    barrier = threading.Barrier(50)
    partial: list[int] = []

    def write(number: int) -> None:
        memory = make_memory()
        memory.answers["tools/list", b""] = b'{"result":{"tools":[%d]}}' % number
        barrier.wait(timeout=30)
        store.write(memory, 100.0)
        if store.read("c", 100.0) is None:
            partial.append(number)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(50)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=60)

    assert not partial
    assert find_file(environ).suffix == ".jsonl"


# The server


@pytest.fixture
def script(tmp_path: Path) -> Path:
    file = tmp_path / "server.py"
    file.write_text("pass", encoding="utf-8")
    return file


def name(script: Path, **changes: object) -> str:
    facts: dict[str, object] = {
        "argv": ["python", str(script)],
        "program": "/usr/bin/env",
        "cwd": str(script.parent),
        "environ": {"LANG": "C"},
    }
    return name_server(**(facts | changes))  # type: ignore[arg-type]


def test_whatever_decides_what_a_server_offers_is_in_its_name(script: Path, tmp_path: Path) -> None:
    argv = [["python", word] for word in ("-u", "\0", "x" * 5000, "missing", "")]
    environ = [{"LANG": "de"}, {"LANG": "C", "API_KEY": "1"}, {}]
    differing: dict[str, Sequence[object]] = {
        "argv": argv,
        "program": ["/usr/bin/sh"],
        "cwd": ["/", ""],
        "environ": environ,
    }
    changes = [{fact: value} for fact, values in differing.items() for value in values]
    assert len({name(script, **change) for change in [{}, *changes]}) == 1 + len(changes)

    # What differs between sessions is not, nor how the same directory is called.
    (tmp_path / "link").symlink_to(tmp_path)
    assert name(script, cwd=str(tmp_path / "link")) == name(script)
    for variable in ("PWD", "TERM_SESSION_ID", "SSH_CONNECTION", "MCP_LAUNCH_ID", "TMUX_PANE"):
        assert name(script, environ={"LANG": "C", variable: "x"}) == name(script), variable


@pytest.mark.parametrize("option", ["{}", "--import={}"])
def test_another_version_of_a_script_argument_is_another_server(
    script: Path, tmp_path: Path, option: str
) -> None:
    plugin = tmp_path / "plugin.js"
    plugin.write_text("{}", encoding="utf-8")
    argv = ["python", option.format("plugin.js")]
    before = name(script, argv=argv)
    assert name(script, argv=argv) == before

    plugin.write_text("{ }", encoding="utf-8")

    assert name(script, argv=argv) != before


def test_another_version_of_a_package_is_another_server(tmp_path: Path) -> None:
    package = tmp_path / "node_modules" / "server"
    (package / "dist").mkdir(parents=True)
    script = package / "dist" / "index.js"
    script.write_text("", encoding="utf-8")
    (package / "package.json").write_text('{"version":"1"}', encoding="utf-8")
    before = name(script)

    (package / "package.json").write_text('{"version":"1.1"}', encoding="utf-8")

    assert name(script) != before


def test_of_too_many_files_the_oldest_are_removed_and_old_ones_always(
    environ: dict[str, str],
) -> None:
    directory = Path(handshake_files.find_directory(environ))
    directory.mkdir(parents=True)

    def fill(ages: list[float]) -> list[Path]:
        files = [directory / f"{number}.jsonl" for number in range(len(ages))]
        for file, age in zip(files, ages, strict=True):
            file.write_bytes(b"")
            os.utime(file, (time.time() - age,) * 2)
        return files

    old, new = fill([31 * 86_400.0, 29 * 86_400.0])
    prune(environ)
    assert (old.exists(), new.exists()) == (False, True)

    files = fill([float(age) for age in range(300)])
    prune(environ)
    assert [file.exists() for file in files] == [True] * 256 + [False] * 44
