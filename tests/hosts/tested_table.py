"""Generate the table of the topic `tested` from the tests that ran."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hosts.programs import NOT_INSTALLED

if TYPE_CHECKING:
    from collections.abc import Iterator

# The file with the table, below the root of the project.
TOPIC = "mcp_launch/help/tested.md"

BEGIN = "<!-- made by: pytest -m hosts --write-table -->\n"
END = "<!-- until here -->\n"
HEAD = "| what was run | against | without mcp-launch |\n| --- | --- | --- |\n"

SAME = "the same"

# How many programs with one fault are named where others have another.
_MOST_NAMED = 2

# The property of a test that checks several situations.
SITUATIONS = "situations"


class Result(NamedTuple):
    """The result of one test."""

    order: tuple[int, int]  # of the test, and of the situation in it
    situation: str
    used: list[str]  # the programs, or their fakes
    control: str  # what went wrong without the launcher; empty: this was not a control


class Row(NamedTuple):
    """One row of the table."""

    situation: str
    against: str
    without: str

    def spell(self) -> str:
        return f"| {self.situation} | {self.against} | {self.without} |\n"


def make_rows(results: list[Result]) -> list[Row]:
    """Return the rows of the table, in the order of the tests."""
    situations: dict[str, list[Result]] = {}
    for result in sorted(results):
        situations.setdefault(result.situation, []).append(result)
    return [_make_row(situation, found) for situation, found in situations.items()]


def _make_row(situation: str, found: list[Result]) -> Row:
    against = ", ".join(dict.fromkeys(title for one in found for title in one.used))
    faults: dict[str, dict[str, None]] = {}
    for one in found:
        if one.control:
            faults.setdefault(one.control, {}).update(dict.fromkeys(one.used))
    if len(faults) <= 1:
        return Row(situation, against, "".join(faults))
    most = max(faults, key=lambda fault: len(faults[fault]))
    if len(faults[most]) > _MOST_NAMED:
        del faults[most]
        faults[most] = {"the others": None}
    told = [f"{', '.join(titles)}: {fault}" for fault, titles in faults.items()]
    return Row(situation, against, "; ".join(told))


def read_rows(text: str) -> list[Row]:
    """Return the rows of the table in the topic."""
    cells = [line.strip("| ").split(" | ") for line in _cut(text)[1].splitlines()]
    return [Row(*[*line, "", ""][:3]) for line in cells]


def write_rows(text: str, rows: list[Row]) -> str:
    """Return the topic with these rows in its table."""
    before, _, after = _cut(text)
    return before + "".join(row.spell() for row in rows) + after


def _cut(text: str) -> tuple[str, str, str]:
    assert text.count(BEGIN) == text.count(END) == 1, f"the table in {TOPIC} has lost its marks"
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    return before + BEGIN + HEAD, table.removeprefix(HEAD), END + after


def list_changed_controls(known: list[Row], rows: list[Row]) -> Iterator[str]:
    """Yield a line for each test in which hosts now behave differently without us."""
    before = {row.situation: row.without for row in known}
    for row in rows:
        if before.get(row.situation, row.without) != row.without:
            yield (
                f"control: {row.situation}: without the launcher now: {row.without}"
                f" ({TOPIC} says: {before[row.situation]})"
            )


def _read_results(told: dict[str, Any]) -> Iterator[Result]:
    """Yield the result of each situation in a test."""
    found = told.get(SITUATIONS)
    if found is None:
        found = [(told["situation"], told.get("control", ""))] if told["situation"] else []
    for place, (situation, control) in enumerate(found):
        yield Result((told["order"], place), situation, told["used"], control)


class Report:
    """Collects the results; with several workers it lives in the main process."""

    def __init__(self, config: pytest.Config, missing: str) -> None:
        self.expected = 0  # the number of tests with real hosts; 0: only some were selected
        self._config = config
        self._missing = missing
        self._results: list[Result] = []
        self._ran: set[str] = set()
        self._failed: set[str] = set()
        self._left_out: dict[str, set[str]] = {}  # the tests of each program, by why
        self._lines: list[str] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Read the number of tests from a worker."""
        self.expected = max(self.expected, getattr(node, "workeroutput", {}).get("hosts", 0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Record one test."""
        told = dict(report.user_properties)
        if "situation" not in told:
            return
        if report.failed:
            self._failed.add(report.nodeid)
        if isinstance(report.longrepr, tuple) and NOT_INSTALLED in report.longrepr[2]:
            reason = report.longrepr[2].removeprefix("Skipped: ")
            self._left_out.setdefault(reason, set()).add(report.nodeid)
        if report.when == "teardown":
            self._ran.add(report.nodeid)
            if "used" in told:
                self._results += _read_results(told)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Compare the topic's table, or write it; only if all tests were run."""
        left_out = set().union(*self._left_out.values())
        passed = self._ran - self._failed - left_out
        is_whole = bool(self.expected) and len(passed) == self.expected
        if is_whole:
            self._judge(session)
        elif self._config.getoption("--write-table"):
            self._lines.append(f"{TOPIC} was not written: not everything ran and passed")
        if self._config.getoption("--demand-hosts") and not is_whole:
            self._lines.append("not all tests with real hosts were run, and all were demanded")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def _judge(self, session: pytest.Session) -> None:
        topic = self._config.rootpath / TOPIC
        text = topic.read_text(encoding="utf-8")
        rows, known = make_rows(self._results), read_rows(text)
        if self._config.getoption("--write-table"):
            topic.write_text(write_rows(text, rows), encoding="utf-8")
            return
        self._lines += list_changed_controls(known, rows)
        if [row[:2] for row in rows] != [row[:2] for row in known]:
            told, ran = {row[:2] for row in known}, {row[:2] for row in rows}
            self._lines += [f"not in {TOPIC}: {' | '.join(row)}" for row in ran - told]
            self._lines += [f"only in {TOPIC}: {' | '.join(row)}" for row in told - ran]
            self._lines.append(f"{TOPIC} is stale: run pytest -m hosts --write-table")
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the lines of the report."""
        if self._missing and self._would_be_run():
            self._lines.append(f"the tests with real hosts were left out: {self._missing}")
        for reason, tests in sorted(self._left_out.items()):
            self._lines.append(f"{len(tests)} tests with real hosts were left out: {reason}")
        for line in self._lines:
            terminalreporter.write_line(line, yellow=True)

    def _would_be_run(self) -> bool:
        options = self._config.option
        if options.keyword or options.markexpr not in {"", "hosts"}:
            return False
        here = self._config.invocation_params.dir
        directory = self._config.rootpath / "tests" / "hosts"
        return any(directory.is_relative_to((here / one).resolve()) for one in self._config.args)
