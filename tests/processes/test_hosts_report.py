"""The table of what was run against real hosts, and what is said when they cannot be run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import programs, tested_table
from hosts.tested_table import TOPIC, Result

ROOT = Path(__file__).parents[2]

RESULTS = [
    Result((3, 0), "A fork is known", ["Codex 2"], ""),
    Result((0, 0), "It starts", ["Codex 2"], ""),
    Result((1, 0), "It starts", ["Codex 1"], ""),
    Result((2, 0), "It starts", ["Codex 2"], "it does not start"),
    Result((4, 0), "A fork is known", ["Codex 2"], tested_table.SAME),
]

TEXT = f"before\n{tested_table.BEGIN}{tested_table.HEAD}| old | x | y |\n{tested_table.END}after\n"


def test_a_row_lists_everything_that_a_test_was_run_against() -> None:
    assert [row.spell() for row in tested_table.make_rows(RESULTS)] == [
        "| It starts | Codex 2, Codex 1 | it does not start |\n",
        "| A fork is known | Codex 2 | the same |\n",
    ]


def test_hosts_that_differ_without_the_launcher_are_listed_separately() -> None:
    results = [*RESULTS, Result((5, 0), "It starts", ["Codex 1"], "it starts twice")]

    assert tested_table.make_rows(results)[0].without == (
        "Codex 2: it does not start; Codex 1: it starts twice"
    )


def test_most_hosts_are_not_named_again_where_some_differ() -> None:
    results = [Result((0, 0), "It starts", [f"Host {name}"], "no") for name in "ABC"]
    results.append(Result((0, 0), "It starts", ["Host D"], tested_table.SAME))

    assert tested_table.make_rows(results)[0].without == "Host D: the same; the others: no"


def test_what_is_written_into_the_topic_is_read_from_it() -> None:
    rows = [*tested_table.make_rows(RESULTS), tested_table.Row("no control", "Codex 2", "")]

    written = tested_table.write_rows(TEXT, rows)

    assert tested_table.read_rows(written) == rows
    assert tested_table.write_rows(written, rows) == written
    assert tested_table.read_rows(TEXT) == [("old", "x", "y")]
    assert written.startswith("before\n")
    assert written.endswith("after\n")


def test_a_control_that_shows_something_else_is_reported() -> None:
    rows = tested_table.make_rows(RESULTS)
    before = [rows[0], rows[1]._replace(without="it was not known")]

    [line] = tested_table.list_changed_controls(before, rows)

    assert "A fork is known: without the launcher now: the same" in line
    assert f"({TOPIC} says: it was not known)" in line


TESTS = """
import pytest
from hosts.workspace import promise

@pytest.fixture
def used(request):
    request.node.user_properties.append(("used", ["Host 1"]))

@pytest.fixture(params=["launched", "control"])
def launcher(request):
    return request.param

@pytest.mark.usefixtures("used")
def test_a_control_finds_a_fault(launcher):
    promise(launcher == "launched", "it is wrong")

@pytest.mark.usefixtures("used")
def test_without_it_all_is_the_same(launcher):
    promise(True, "it is never wrong")
"""

TABLE = """\
| A control finds a fault | Host 1 | it is wrong |
| Without it all is the same | Host 1 | the same |
"""

# In seconds. With two workers, three are enough, but 20 next to twelve busy processes.
LIMIT = 100

# Some tests run the suite twice.
pytestmark = pytest.mark.timeout(2 * LIMIT + 40)

STALE = f"{TOPIC} is stale: run pytest -m hosts --write-table"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """Return a project with tests like ours, and a topic that tells of them."""
    directory = tmp_path / "tests" / "hosts"
    directory.mkdir(parents=True)
    (directory / "test_one.py").write_text(TESTS, encoding="utf-8")
    plugin = "from hosts.pytest_plugin import *\n"
    (tmp_path / "tests" / "conftest.py").write_text(plugin, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = hosts\n", encoding="utf-8")
    write_topic(tmp_path, TABLE)
    return tmp_path


def write_topic(suite: Path, table: str) -> None:
    text = f"before\n{tested_table.BEGIN}{tested_table.HEAD}{table}{tested_table.END}after\n"
    (suite / TOPIC).parent.mkdir(parents=True, exist_ok=True)
    (suite / TOPIC).write_text(text, encoding="utf-8")


def add_test(suite: Path, code: str) -> None:
    with (suite / "tests" / "hosts" / "test_one.py").open("a", encoding="utf-8") as file:
        file.write(code)


def run(suite: Path, *words: str, path: str = "") -> tuple[int, str]:
    """Run the suite, and return its exit code and what it says."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    environ["PYTHONPATH"] = f"{ROOT / 'tests'}:{ROOT / 'tests' / 'support'}"
    environ["PATH"] = path or environ["PATH"]
    # With workers, pytest removes the temporary files of earlier runs before it exits. Ours leave
    # 60,000, which takes a minute on a busy machine, so this run gets a directory of its own.
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp=tmp"]
    with subprocess.Popen(
        [*command, *words],
        cwd=suite,
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGABRT)  # all of them print where they are, and die
            pytest.fail("\n".join([f"pytest did not end in {LIMIT} s:", *process.communicate()]))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode, said


# What is tested needs the same programs as the real thing, though it does not run them.
needs_programs = pytest.mark.skipif(
    bool(programs.tell_what_is_missing()), reason=programs.tell_what_is_missing()
)


@needs_programs
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_table_that_is_right_says_nothing(workers: str, suite: Path) -> None:
    code, said = run(suite, "-n", workers, "--demand-hosts")

    assert code == 0
    assert "4 passed" in said
    assert TOPIC not in said
    assert "control" not in said


SEVERAL = """
from hosts.situations import Situations

@pytest.fixture
def situation(request, launcher):
    return Situations(request.node, is_control=launcher == "control")

@pytest.mark.usefixtures("used")
def test_several(launcher, situation):
    with situation("Second, though first in the alphabet"):
        promise(launcher == "launched", "it is not second")
    with situation("And then another one"):
        promise(True, "it is never wrong")
"""


@needs_programs
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_test_with_several_situations_has_a_row_for_each(workers: str, suite: Path) -> None:
    add_test(suite, SEVERAL)

    assert run(suite, "-n", workers, "--write-table")[0] == 0

    table = (suite / TOPIC).read_text(encoding="utf-8")
    assert table.endswith(
        f"{TABLE}"
        "| Second, though first in the alphabet | Host 1 | it is not second |\n"
        "| And then another one | Host 1 | the same |\n"
        f"{tested_table.END}after\n"
    )


@needs_programs
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_table_that_is_stale_fails(workers: str, suite: Path) -> None:
    write_topic(suite, TABLE.partition("\n")[0] + "\n")

    code, said = run(suite, "-n", workers)

    assert code == 1
    assert STALE in said.splitlines()


@needs_programs
@pytest.mark.parametrize(
    "words",
    [["-k", "same"], ["-m", "not hosts"], ["--deselect", "tests/hosts/test_one.py"], ["-x"]],
    ids=" ".join,
)
def test_a_part_of_the_tests_says_nothing_of_the_table(words: list[str], suite: Path) -> None:
    before = (suite / TOPIC).read_bytes().replace(b"Host 1", b"Host 2")
    (suite / TOPIC).write_bytes(before)
    if words == ["-x"]:
        first = "def test_it(): assert 0\n"
        (suite / "tests" / "hosts" / "test_first.py").write_text(first, encoding="utf-8")

    said = run(suite, *words)[1]
    written = run(suite, *words, "--write-table")[1]

    assert STALE not in said
    assert f"{TOPIC} was not written: not everything ran and passed" in written
    assert (suite / TOPIC).read_bytes() == before


@needs_programs
def test_the_table_is_written(suite: Path) -> None:
    before = (suite / TOPIC).read_bytes()
    write_topic(suite, "| something | old | |\n")

    assert run(suite, "--write-table")[0] == 0

    assert (suite / TOPIC).read_bytes() == before


@needs_programs
def test_a_control_that_shows_something_else_does_not_fail(suite: Path) -> None:
    write_topic(suite, TABLE.replace("it is wrong", "it was worse"))

    code, said = run(suite)

    assert code == 0
    assert f"without the launcher now: it is wrong ({TOPIC} says: it was worse)" in said


@needs_programs
def test_a_promise_that_is_broken_with_the_launcher_fails(suite: Path) -> None:
    add_test(suite, "def test_of_control(launcher):\n    promise(False, 'no')\n")

    code, said = run(suite, "--demand-hosts")

    assert code == 1
    assert "1 failed, 5 passed" in said
    assert "not all tests with real hosts were run, and all were demanded" in said


LEFT_OUT = """
from hosts import programs

def test_of_another_host(launcher):
    pytest.skip(f"Host 2 {programs.NOT_INSTALLED}: no network")
"""


@needs_programs
@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_host_that_cannot_be_installed_is_a_line_for_users(workers: str, suite: Path) -> None:
    add_test(suite, LEFT_OUT)

    code, said = run(suite, "-n", workers, "--write-table")

    assert code == 0
    line = "2 tests with real hosts were left out: Host 2 could not be installed: no network"
    assert said.splitlines().count(line) == 1
    assert f"{TOPIC} was not written: not everything ran and passed" in said


@needs_programs
def test_a_host_that_cannot_be_installed_is_a_failure_where_all_are_demanded(suite: Path) -> None:
    add_test(suite, LEFT_OUT)

    code, said = run(suite, "--demand-hosts")

    assert code == 1
    assert "Host 2 could not be installed: no network" in said
    assert "not all tests with real hosts were run, and all were demanded" in said


def test_a_topic_without_marks_is_not_written() -> None:
    for text in ("", tested_table.BEGIN, TEXT + tested_table.END):
        with pytest.raises(AssertionError, match="lost its marks"):
            tested_table.write_rows(text, [])


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere another line says so")
@pytest.mark.parametrize("workers", ["0", "2"])
def test_without_npm_one_line_says_that_they_were_left_out(
    workers: str, suite: Path, tmp_path: Path
) -> None:
    code, said = run(suite, "-n", workers, path=str(tmp_path))

    assert code == pytest.ExitCode.NO_TESTS_COLLECTED
    line = "the tests with real hosts were left out: npm is not installed"
    assert said.splitlines().count(line) == 1
