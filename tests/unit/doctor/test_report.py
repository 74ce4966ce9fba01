"""The doctor's report, for people and as JSON, and what `--fix` repairs."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from command_line import Done, run_command
from git_repository import track
from mcp_launch.doctor.checks import configuration, not_wrapped
from mcp_launch.doctor.finding import Finding
from rich.console import Console
from secret_entries import SECRET, SECRETS

from mcp_launch.doctor import registry
from mcp_launch.doctor.filter import CodeRule, Filter
from mcp_launch.doctor.report import Report
from mcp_launch.doctor.report_text import ReportText
from mcp_launch.machine.installed_hosts import Program
from mcp_launch.machine.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fake_machine import FakeMachine

    from mcp_launch.machine.survey import Survey

GIT = shutil.which("git") or "git"
PROGRAM = str(Path(sys.executable).parent / "mcp-launch")

BROKEN = "[mcp_servers.docs\n"
UNWRAPPED = '[mcp_servers.docs]\ncommand = "sh" # mine\nargs = ["-c", "cat"]\n'


def doctor(machine: FakeMachine, *words: str) -> Done:
    return run_command("doctor", *words, cwd=machine.project)


def list_findings(machine: FakeMachine, *words: str) -> list[dict[str, Any]]:
    """Return what is found about the files of this machine; its processes are the developer's."""
    found = json.loads(doctor(machine, "--json", *words).stdout)["findings"]
    assert isinstance(found, list)
    return [one for one in found if one["subject"].get("file", "").startswith(str(machine.home))]


def test_one_command_says_what_is_wrong_where_and_what_to_do(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", BROKEN)
    machine.write("~/.cursor/mcp.json", '{"mcpServers": {"it": {"command": "no-such-thing"}}}')

    done = doctor(machine)

    assert done.returncode == 1
    assert "Codex" in done.stdout
    assert "~/.codex/config.toml:1" in done.stdout
    assert "ML101 error: " in done.stdout
    # A broken file hides nothing of the others.
    assert re.search(r"Cursor: it  ~/.cursor.*\n  ML201 error: no-such-thing", done.stdout)
    assert re.search(r"fix: .", done.stdout)
    summary = done.stdout.splitlines()[-1]
    assert re.search(r"2 errors \(ML101, ML201\), .* in 1 server of 1 host", summary)


def test_what_it_says_to_programs_has_a_version(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)

    told = json.loads(doctor(machine, "--json").stdout)

    assert told["version"] == 1
    assert told["servers"] == 1
    [codex] = [host for host in told["hosts"] if host["host"] == "codex"]
    assert codex["servers"] == 1
    [finding] = [one for one in told["findings"] if one["code"] == "ML117"]
    place = {"host": "codex", "server": "docs", "scope": "user", "line": 1, "column": 1}
    assert finding["subject"] == {**place, "file": str(machine.home / ".codex/config.toml")}
    assert finding["level"] == "note"
    assert finding["repair"]


def test_it_can_be_narrowed_to_a_host(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", BROKEN)
    machine.write("~/.cursor/mcp.json", "{")

    found = list_findings(machine, "--host", "cursor")

    assert [one["subject"]["host"] for one in found] == ["cursor"]


def test_a_host_that_does_not_exist_is_named_with_near_misses(machine: FakeMachine) -> None:
    done = doctor(machine, "--host", "cursr")

    assert done.returncode == 2
    assert "did you mean cursor?" in done.stderr


def test_fix_alone_only_shows_what_it_would_do(machine: FakeMachine) -> None:
    path = machine.write("~/.codex/config.toml", UNWRAPPED)

    done = doctor(machine, "--fix")

    assert "would wrap docs" in done.stdout
    assert "add --yes" in done.stdout
    assert path.read_text("utf-8") == UNWRAPPED


def test_fix_with_yes_does_it_and_looks_again(machine: FakeMachine) -> None:
    path = machine.write("~/.codex/config.toml", UNWRAPPED)

    done = doctor(machine, "--fix", "--yes")

    assert "done: wrap docs" in done.stdout
    assert done.stdout.count("ML117 note") == 1  # before, and not after
    assert "# mine" in path.read_text("utf-8")
    assert list_findings(machine) == []


def test_a_check_that_fails_is_reported_and_hides_nothing(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look_too_closely(survey: Survey, item: object) -> Iterator[Finding]:
        yield Finding("ML108", Subject("codex", "docs"), "seen before", "do")
        raise ZeroDivisionError(f"{survey.site.project and item}"[:0])

    monkeypatch.setattr(
        registry, "_OF_ITEMS", (look_too_closely, *configuration.OF_ITEMS), raising=True
    )
    machine.write("~/.codex/config.toml", UNWRAPPED)

    codes = [finding.code for finding in registry.examine(machine.survey())]

    assert {"ML001", "ML108", "ML117"} <= set(codes)


@pytest.mark.parametrize("kind", [[], {}, 3, None])
def test_an_entry_of_no_kind_hides_nothing(machine: FakeMachine, kind: object) -> None:
    servers = {"odd": {"command": "sh", "type": kind}, "gone": {"command": "no-such-thing"}}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": servers}))

    found = list_findings(machine)

    assert "ML001" not in [one["code"] for one in found]
    assert [one["subject"]["server"] for one in found if one["code"] == "ML201"] == ["gone"]


def test_an_entry_that_cannot_be_looked_at_is_reported_and_hides_nothing(
    machine: FakeMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stumble(host: object, entry: dict[str, Any]) -> str:
        return str(entry["cwd"] / 0) if "cwd" in entry and host else ""

    servers = {"odd": {"command": "sh", "cwd": "/"}, "docs": {"command": "sh"}}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": servers}))
    monkeypatch.setattr("mcp_launch.machine.survey.tell_why_not", stumble)

    found = registry.examine(machine.survey("cursor"))

    told = {(one.code, one.subject.server) for one in found}
    assert {("ML001", "odd"), ("ML117", "docs")} <= told


@pytest.mark.parametrize("entry", list(SECRETS.values()), ids=list(SECRETS))
@pytest.mark.parametrize("words", [[], ["--json"], ["--fix"]], ids=" ".join)
def test_no_secret_is_ever_shown(
    entry: dict[str, Any], words: list[str], machine: FakeMachine
) -> None:
    text = json.dumps({"mcpServers": {"it": entry}})
    machine.write("~/.cursor/mcp.json", text)
    machine.write(".mcp.json", text)
    track(machine.project, ".mcp.json")

    done = doctor(machine, *words)

    assert done.returncode in {0, 1}, done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("words", [[], ["--json"], ["--fix"]], ids=" ".join)
def test_a_server_may_be_called_by_a_secret(words: list[str], machine: FakeMachine) -> None:
    name = "ghp_0123456789abcdefghij0123"
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": {name: {"command": "nope"}}}))

    done = doctor(machine, *words)

    assert "ML201" in done.stdout
    assert name not in done.stdout + done.stderr


def show(
    survey: Survey,
    findings: list[Finding],
    wanted: Filter | None = None,
    *,
    is_verbose: bool = False,
) -> str:
    console = Console(file=io.StringIO(), width=200)
    ReportText(Report(survey, findings, wanted), console, is_verbose=is_verbose).show()
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_servers_that_are_not_wrapped_are_reported_in_one_line(machine: FakeMachine) -> None:
    entry = "[mcp_servers.server-{}]\ncommand = 'sh'\n"
    machine.write("~/.codex/config.toml", "".join(map(entry.format, range(30))))
    survey = machine.survey("codex")
    findings = [one for item in survey.servers for one in not_wrapped.check_wrapped(survey, item)]

    shown = show(survey, findings)

    [line] = [line for line in shown.splitlines() if "ML117 note" in line]
    assert line.startswith("ML117 note: 30 servers are not wrapped (Codex 30): mcp-launch wrap")
    last = "1 note in 30 servers of 1 host; mcp-launch doctor --fix has fixes for ML117"
    assert shown.splitlines()[-1] == last
    assert "server-0, server-1, " in show(survey, findings, is_verbose=True)


def test_a_fix_can_be_done_as_it_is_written(machine: FakeMachine) -> None:
    """`~` is not a directory in most of the files into which it would be written."""
    machine.write("~/.codex/config.toml", UNWRAPPED)
    survey = machine.survey("codex")
    [item] = survey.servers
    found = Finding("ML201", item.point(), "x is missing", f"write {machine.home}/bin/x")

    shown = show(survey, [found])

    assert f"fix: write {machine.home}/bin/x" in shown
    assert "Codex: docs  ~/.codex/config.toml:1:1 (user)" in shown


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('bearer_token_env_var = "GITHUB_TOKEN"', "Codex does not pass GITHUB_TOKEN on"),
        ('env = { AUTH_MODE = "docker" }', "docker was not found on PATH"),
        ("", 'add it to the entry: "env": {"GITHUB_TOKEN": "$GITHUB_TOKEN"}'),
        ("", "docs ended; its last lines on stderr: KeyError: 'CLAUDE_PROJECT_DIR'"),
    ],
)
def test_what_is_no_secret_stays_in_what_is_shown(
    machine: FakeMachine, entry: str, message: str
) -> None:
    machine.write("~/.codex/config.toml", f"{UNWRAPPED}{entry}\n")
    found = Finding("ML205", Subject("codex", "docs"), message, "do")

    assert message in show(machine.survey("codex"), [found])


def test_it_tells_which_hosts_there_are_and_whether_they_were_tried(machine: FakeMachine) -> None:
    machine.programs = {"codex": Program("/bin/codex", "0.169.0"), "zed": Program("/bin/zed", "")}

    machine.write("~/.config/zed/settings.json", '{"context_servers": {"it": {"command": "sh"}}}')

    shown = show(machine.survey(), [])
    assert "Zed: 1 server\nWithout servers: Codex 0.169.0\n" in shown

    shown = show(machine.survey(), [], is_verbose=True)
    assert "Zed (our tests do not run against it): 1 server\n" in shown
    assert "Codex 0.169.0 (our tests run against it)\n" in shown


def test_where_nothing_is_wrong_it_says_so(machine: FakeMachine) -> None:
    shown = show(machine.survey("codex", "zed"), [])

    assert shown.splitlines() == [
        "No servers were found in the files of Codex, Zed.",
        "",
        "No problems found with 0 servers of 0 hosts.",
    ]


def test_what_is_in_files_can_do_nothing_to_a_terminal(machine: FakeMachine) -> None:
    subject = Subject("codex", "it\x1b[2J", file="/x\x07")

    shown = show(machine.survey(), [Finding("ML108", subject, "bad \x1b[31m name", "rename it")])

    assert "\x1b" not in shown
    assert "\x07" not in shown


# The order.


def make_finding(code: str, host: str = "", server: str = "", **more: Any) -> Finding:
    return Finding(code, Subject(host, server), f"about {host} {server}", "do", **more)


def test_the_worst_comes_first_whatever_the_host(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED.replace('"sh"', '"/usr/bin/env"'))
    machine.write("~/.zed", "")
    machine.write("~/.cursor/mcp.json", '{"mcpServers": {"it": {"command": "no-such-thing"}}}')
    machine.write("~/.config/zed/settings.json", "{")

    found = [one for one in list_findings(machine) if one["code"] != "ML011"]

    assert [(one["code"], one["subject"]["host"]) for one in found] == [
        ("ML101", "zed"),  # a whole host is worse than a server
        ("ML201", "cursor"),
        ("ML117", "codex"),
        ("ML117", "cursor"),
    ]


def test_findings_about_one_place_stand_together(machine: FakeMachine) -> None:
    findings = [make_finding("ML201", "codex", "docs"), make_finding("ML203", "codex", "docs")]

    shown = show(machine.survey(), [*findings, make_finding("ML201", "zed", "docs")])

    assert shown.count("Codex: docs\n") == 1
    assert shown.count("Zed: docs\n") == 1


def test_the_summary_counts_what_is_shown(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)
    unwrapped = [make_finding("ML117", "codex", name, reach="own") for name in ("a", "b")]
    worse = [make_finding("ML202", "codex", "a"), make_finding("ML206", "codex")]

    shown = show(machine.survey(), [*worse, *unwrapped])

    assert shown.splitlines()[-1].startswith("1 warning (ML206), 2 notes in 1 server of 1 host")
    assert shown.count(" note: ") == 2


# Which findings.


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (Filter(), ["ML101", "ML201", "ML206", "ML117"]),
        (Filter("warning"), ["ML101", "ML201", "ML206"]),
        (Filter("error"), ["ML101", "ML201"]),
        (Filter(select=(CodeRule("ML2"),)), ["ML201", "ML206"]),
        (Filter(select=(CodeRule("ML2", "docs"),)), ["ML201"]),
        (Filter("error", (CodeRule("ML206"), CodeRule("ML101"))), ["ML101"]),
        (Filter(ignore=(CodeRule("ML2"), CodeRule("ML117"))), ["ML101"]),
        (Filter(ignore=(CodeRule("ML201", "other"),)), ["ML101", "ML201", "ML206", "ML117"]),
        (Filter(ignore=(CodeRule("ML", "docs"),)), ["ML101", "ML206"]),
        (Filter(ignore=(CodeRule("ML", "codex"),)), ["ML101"]),
        # A finding about several servers is ignored once all of them are.
        (Filter(select=(CodeRule("ML206"),), ignore=(CodeRule("ML206", "docs"),)), ["ML206"]),
        (Filter("warning", (), (CodeRule("ML2", "docs"), CodeRule("ML2", "web"))), ["ML101"]),
    ],
)
def test_a_filter_chooses_by_level_code_server_and_host(wanted: Filter, left: list[str]) -> None:
    findings = [
        make_finding("ML101", "zed"),
        make_finding("ML201", "codex", "docs"),
        make_finding("ML206", "codex", servers=("docs", "web")),
        make_finding("ML117", "codex", "docs"),
    ]

    assert [one.code for one in wanted.select_shown(findings)] == left


def test_no_filter_hides_that_a_check_could_not_run(machine: FakeMachine) -> None:
    wanted = Filter("error", (CodeRule("ML4"),), (CodeRule("ML0"),))
    report = Report(machine.survey(), [make_finding("ML001")], wanted)

    assert [one.code for one in report.findings] == ["ML001"]
    assert report.exit_code == 2


def test_codes_may_be_listed_and_repeated(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", BROKEN)
    machine.write("~/.cursor/mcp.json", '{"mcpServers": {"it": {"command": "no-such-thing"}}}')

    done = doctor(machine, "--json", "--select", "ML101, ml2", "--select", "ML117")
    told = json.loads(done.stdout)

    assert {one["code"] for one in told["findings"]} == {"ML101", "ML201", "ML117"}
    assert told["filter"] == {"level": "note", "select": ["ML101", "ML2", "ML117"], "ignore": []}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--select", "ML999"], "--select: there is no code ML999"),
        (["--select", "", "--fix", "--yes"], "--select names no code"),
        (["--select", ", ,"], "--select names no code"),
        (["--ignore", "ML2O1"], "did you mean ML201?"),
        (["--ignore", "docs"], "there is no code DOCS"),
        (["--ignore", "ML001"], "ML001 (a check could not run) cannot be ignored"),
        (["--level", "errors"], "did you mean error?"),
    ],
)
def test_what_no_filter_can_mean_is_refused(
    machine: FakeMachine, words: list[str], said: str
) -> None:
    done = doctor(machine, *words)

    assert done.returncode == 2
    assert said in done.stderr


def test_what_is_ignored_is_counted(machine: FakeMachine) -> None:
    machine.write("~/.cursor/mcp.json", '{"mcpServers": {"it": {"command": "no-such-thing"}}}')

    # Not what runs or is installed here, which is the developer's.
    done = doctor(machine, "--select", "ML1,ML2", "--ignore", "ML201,ML117")

    assert done.returncode == 0
    assert "ML201 error" not in done.stdout
    assert "2 ignored (ML117, ML201)" in done.stdout.splitlines()[-1]


def test_only_notes_are_no_reason_to_fail(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)

    done = doctor(machine, "--select", "ML117")

    assert done.returncode == 0
    assert "ML117 note" in done.stdout


@pytest.mark.parametrize(("words", "code"), [([], 1), (["--exit-zero"], 0)])
def test_a_script_may_look_without_failing(
    machine: FakeMachine, words: list[str], code: int
) -> None:
    machine.write("~/.codex/config.toml", BROKEN)

    done = doctor(machine, *words)

    assert done.returncode == code
    assert "ML101 error" in done.stdout


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Filter("error"), "No errors found with"),
        (Filter("warning"), "No errors or warnings found with"),
        (Filter(select=(CodeRule("ML4"),)), "Nothing found for ML4 with"),
    ],
)
def test_what_was_not_looked_for_is_not_said_to_be_well(
    machine: FakeMachine, wanted: Filter, said: str
) -> None:
    assert said in show(machine.survey(), [make_finding("ML117", "codex", "docs")], wanted)


def test_fix_obeys_the_filter(machine: FakeMachine) -> None:
    path = machine.write("~/.codex/config.toml", UNWRAPPED)

    done = doctor(machine, "--fix", "--yes", "--select", "ML401")

    assert path.read_text("utf-8") == UNWRAPPED
    assert "wrap" not in done.stdout


def test_a_server_that_cannot_start_is_not_offered_to_be_wrapped(machine: FakeMachine) -> None:
    entries = {"gone": {"command": "no-such-thing"}, "docs": {"command": "sh"}}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": entries}))

    done = doctor(machine, "--fix", "--ignore", "ML0,ML4")  # of this machine

    assert "would wrap docs in" in done.stdout
    assert "would wrap gone" not in done.stdout
    assert "\n1 finding needs you" in done.stdout  # that nothing wraps it is no second one


# The user's own list.

CONFIG = "~/.config/mcp-launch/config.toml"


def test_the_user_may_ignore_findings_for_good(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)
    machine.write(CONFIG, '[doctor]\nignore = ["ML117:docs", "ML0"]\n')

    told = json.loads(doctor(machine, "--json").stdout)

    assert {"ML117", "ML015"}.isdisjoint(one["code"] for one in told["findings"])
    assert "docs" in [one["subject"].get("server") for one in told["ignored"]]
    assert told["filter"]["ignore"] == ["ML117:docs", "ML0"]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ('[doctor]\nignore = ["ML117", "ML999"]', (2, 20), "there is no code ML999"),
        ('[doctor]\nignore = ["ML001"]', (2, 11), "cannot be ignored"),
        ("[doctor]\nignore = [3]", (2, 11), "there is no code 3"),
        ('[doctor]\nignore = "ML117"', (2, 1), "ignore must be a list of codes"),
        ('[doctor]\nignored = ["ML117"]', (2, 1), "unknown key ignored in [doctor]"),
        ("doctor = 3", (1, 1), "`doctor` must be a table"),
    ],
)
def test_a_mistake_in_the_list_is_reported_with_its_place(
    machine: FakeMachine, text: str, place: tuple[int, int], said: str
) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)
    machine.write(CONFIG, f"{text}\n")

    found = list_findings(machine, "--select", "ML01,ML1")

    [wrong] = [one for one in found if one["code"] == "ML015"]
    assert said in wrong["message"]
    assert (wrong["subject"]["line"], wrong["subject"]["column"]) == place
    assert "ML013" not in [one["code"] for one in found]
    # The rest of the list counts.
    assert ("ML117" in [one["code"] for one in found]) == ('["ML117", ' not in text)


def test_a_file_that_launches_refuse_still_has_its_list(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)
    machine.write(CONFIG, '[doctor]\nignore = ["ML117"]\n[servers.docs]\ncwdd = "/"\n')

    codes = [one["code"] for one in list_findings(machine)]

    assert "ML013" in codes
    assert "ML117" not in codes


# The line of a file.


def test_the_line_is_shown_with_a_caret_under_the_place(machine: FakeMachine) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)
    survey = machine.survey("codex")
    [item] = survey.servers
    found = Finding("ML201", item.point("args", 1), "cat is missing", "do")

    assert '3 | args = ["-c", "cat"]\n      |               ^\n' in show(
        survey, [found], is_verbose=True
    )
    assert "args = " not in show(survey, [found])  # in a pipe


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('env = { PW = "hunter2" }', "env = { PW = *** }"),
        ('args = ["--token", "hunter2"]', 'args = ["--token", ***]'),
        ('env = { PW = "${HOME}" }', 'env = { PW = "${HOME}" }'),
        ('http_headers = { X = "hunter2" }', "http_headers = { X = *** }"),
        ("args = [] # PW is hunter2", "args = [] #..."),
        ('args = ["a # b"] # hunter2', 'args = ["a # b"] #...'),
    ],
)
def test_no_secret_is_in_the_line(machine: FakeMachine, line: str, shown: str) -> None:
    machine.write("~/.codex/config.toml", f'[mcp_servers.docs]\ncommand = "sh"\n{line}\n')
    survey = machine.survey("codex")
    [item] = survey.items
    found = Finding("ML102", item.point(line.partition(" ")[0]), "odd", "do")

    said = show(survey, [found], is_verbose=True)

    assert f"3 | {shown}\n" in said
    assert "hunter" not in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('[mcp_servers.a]\nenv = { PW = "hunter2" "x" }', 'env = { *** = "***" "***" }'),
        ("[mcp_servers.a]\ncommand = hunter2", "command = ***"),
        ('[mcp_servers.a]\nkey = """\nhunter2\n"', '"'),
        ("[mcp_servers.a", "[mcp_servers.***"),
        ('x.a = { b = "hunter2" }\n[x.a.b]', "[x.a.b]"),
        # The string that is not closed makes the rest look the wrong way round.
        ('[mcp_servers.a]\nargs = ["x, "hunter2", "y"]', 'args = ["***, "***", "***"]'),
    ],
)
def test_no_value_is_in_the_line_of_an_invalid_file(
    machine: FakeMachine, text: str, shown: str
) -> None:
    machine.write("~/.codex/config.toml", text)

    said = doctor(machine, "-v", "--select", "ML101").stdout

    assert "ML101 error" in said
    assert "hunter2" not in said
    assert f" | {shown}\n" in said


def test_a_long_line_is_cut_around_the_place(machine: FakeMachine) -> None:
    entries = {f"server-{number}": {"command": "sh"} for number in range(100)}
    machine.write("~/.cursor/mcp.json", json.dumps({"mcpServers": entries}))
    survey = machine.survey("cursor")
    found = Finding("ML201", survey.servers[50].point(), "odd", "do")

    lines = show(survey, [found], is_verbose=True).splitlines()

    [at] = [number for number, line in enumerate(lines) if "server-50" in line and "|" in line]
    assert lines[at].index('"server-50"') == lines[at + 1].index("^")
    assert len(lines[at]) < 120


# Servers that hosts do not start.


def test_remote_and_disabled_servers_are_counted_and_named(machine: FakeMachine) -> None:
    more = '[mcp_servers.sentry]\nurl = "https://x"\n[mcp_servers.old]\ncommand = "sh"\n'
    machine.write("~/.codex/config.toml", f"{UNWRAPPED}{more}enabled = false\n")

    shown = show(machine.survey("codex"), [])
    told = json.loads(doctor(machine, "--json", "--host", "codex").stdout)

    assert shown.startswith("Codex: 1 server, 1 remote (sentry), 1 disabled (old)\n")
    [codex] = told["hosts"]
    assert (codex["servers"], codex["remote"], codex["disabled"]) == (1, ["sentry"], ["old"])
    kinds = {entry["server"]: entry["kind"] for entry in told["entries"]}
    assert kinds == {"docs": "not wrapped", "sentry": "remote", "old": "disabled"}
    assert not any(entry["is_wrapped"] for entry in told["entries"])


@pytest.mark.parametrize("width", [40, 80, 200])
def test_lines_on_a_terminal_are_wrapped_between_words(machine: FakeMachine, width: int) -> None:
    machine.write("~/.codex/config.toml", UNWRAPPED)
    words = [f"word-{number}" for number in range(40)]
    found = Finding("ML201", Subject("codex", "docs"), " ".join(words), " ".join(words[::-1]))
    file = io.StringIO()
    console = Console(file=file, width=width, force_terminal=True, no_color=True)

    ReportText(Report(machine.survey("codex"), [found]), console).show()

    lines = re.sub(r"\x1b\[[0-9;]*m", "", file.getvalue()).splitlines()
    assert max(map(len, lines)) <= width
    assert not any(line.endswith(" ") for line in lines)
    shown = " ".join(" ".join(lines).split())
    assert " ".join(words) in shown
    assert " ".join(words[::-1]) in shown


def test_what_a_server_printed_stands_on_lines_of_its_own(machine: FakeMachine) -> None:
    found = make_finding("ML301", "codex", "docs", details=("Traceback", "KeyError: 'X\x1b[2J'"))

    shown = show(machine.survey(), [found])

    assert "    | Traceback\n    | KeyError: 'X\\x1b[2J'\n    fix: do\n" in shown
