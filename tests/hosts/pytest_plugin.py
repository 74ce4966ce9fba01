"""pytest hooks for tests with real hosts: marks, controls, and the table of what was run."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hosts import programs
from hosts.tested_table import SAME, TOPIC, Report
from hosts.workspace import PromiseBroken

if TYPE_CHECKING:
    from collections.abc import Generator

DIRECTORY = "tests/hosts"

# In seconds: the first test that needs a program waits until it is installed.
TIMEOUT = 300


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options for the table."""
    parser.addoption("--write-table", action="store_true", help=f"write what was run into {TOPIC}")
    parser.addoption(
        "--demand-hosts", action="store_true", help="fail unless all real hosts were run"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the report in the main process, which gets the results of all workers."""
    if not hasattr(config, "workerinput"):
        missing = programs.tell_what_is_missing()
        config.pluginmanager.register(Report(config, missing), "hosts-report")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests with real hosts, or deselect them where they cannot be run."""
    directory = config.rootpath / DIRECTORY
    ours = [item for item in items if directory in item.path.parents]
    if programs.tell_what_is_missing():
        items[:] = [item for item in items if item not in ours]
        return
    for order, item in enumerate(ours):
        item.add_marker(pytest.mark.hosts)
        item.add_marker(pytest.mark.timeout(TIMEOUT))
        item.user_properties.append(("order", order))
        assert isinstance(item, pytest.Function)
        item.user_properties.append(("situation", _tell_situation(item)))
    is_whole = {item.path for item in ours} == set(directory.glob("test_*.py"))
    _say_how_many(config, len(ours) if is_whole else 0)


def _tell_situation(test: pytest.Function) -> str:
    """Return the sentence for a test in the table; empty: it has none."""
    if "situation" in test.fixturenames:
        return ""  # it has several
    if {"launcher", "workspace_without_launcher"} & set(test.fixturenames):
        words = test.originalname.removeprefix("test_").replace("_", " ").capitalize()
        return re.sub(
            "codex|claude code", lambda found: found[0].title(), words, flags=re.IGNORECASE
        )
    if "used" in test.fixturenames:
        # No test of its module has a control: all of them share one row.
        return (test.module.__doc__ or "").partition("\n")[0].rstrip(".")
    return ""


def _say_how_many(config: pytest.Config, count: int) -> None:
    """Give the report the number of tests, before any is deselected."""
    report = config.pluginmanager.get_plugin("hosts-report")
    if report:
        report.expected = count
    else:
        config.workeroutput["hosts"] = count  # type: ignore[attr-defined]  # xdist's


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Record the result of a control: without the launcher a promise may be broken."""
    callspec = getattr(pyfuncitem, "callspec", None)
    is_control = callspec is not None and callspec.params.get("launcher") == "control"
    try:
        result = yield
    except PromiseBroken as fault:
        if not is_control:
            raise
        pyfuncitem.user_properties.append(("control", str(fault)))
        return True
    if is_control:
        pyfuncitem.user_properties.append(("control", SAME))
    return result
