"""`doctor`: one situation for each code, its filters, its fixes and what it prints."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from command_line import run_command
from doctor_runs import install, remember, spell, spell_codex
from git_repository import track
from secret_entries import SECRET, SECRETS

from mcp_launch import main
from mcp_launch.doctor.registry import find_codes

if TYPE_CHECKING:
    from doctor_runs import Doctor

CODEX = "~/.codex/config.toml"
CLAUDE = "~/.claude.json"
CURSOR = "~/.cursor/mcp.json"
OWN = "~/.config/mcp-launch/config.toml"

DOCS = {"command": "sh", "args": ["-c", "cat"]}
BROKEN = "[mcp_servers.docs\n"
UNWRAPPED = '[mcp_servers.docs]\ncommand = "sh" # mine\nargs = ["-c", "cat"]\n'


class Case(NamedTuple):
    """A machine, and what is found on it; {home}, {project} and {program} are filled in."""

    files: dict[str, str]
    level: str
    place: str  # "host server file:line:column", as far as they apply
    message: str  # a part of it
    fix: str  # ditto
    repair: str = ""
    variables: tuple[tuple[str, str], ...] = ()


WRAPPED = {"command": "{program}", "args": ["run", "--", "sh"]}

# What each code is found in. Those of servers that run or are started have tests of their own.
CASES = {
    "ML012": Case(
        {"~/.local/state/mcp-launch": ""},
        "error",
        "{home}/.local/state/mcp-launch",
        "mcp-launch is not a directory; launches cannot write leases",
        "move {home}/.local/state/mcp-launch away",
    ),
    "ML013": Case(
        {OWN: '[servers.docs]\ncommand = "x"\ncwdd = "y"\n'},
        "error",
        "{home}/.config/mcp-launch/config.toml:3:1",
        "unknown key `cwdd` in [servers.docs]; until this is fixed, docs does not start",
        "did you mean cwd?",
    ),
    "ML018": Case(
        {OWN: '[servers.docs]\ntools = { deny = ["read_*", "delte_*"] }\n'},
        "warning",
        "docs {home}/.config/mcp-launch/config.toml:2:29",
        "`delte_*` in `deny` matches no tool of docs (2 remembered), so it hides nothing",
        "did you mean delete_*? correct or remove it; the tools are read_page, delete_page",
    ),
    "ML019": Case(
        {CURSOR: spell(files=DOCS), OWN: "[servers.fils]\nstrict = true\n"},
        "warning",
        "fils {home}/.config/mcp-launch/config.toml:1:1",
        "no entry is named fils: this profile applies to no server",
        "did you mean files? rename the table, or remove it",
    ),
    "ML101": Case(
        {".mcp.json": '{\n"mcpServers": {},\n}'},
        "error",
        "claude {project}/.mcp.json:",
        "Claude Code does not allow comments or trailing commas: Claude Code starts without its",
        "remove them",
    ),
    "ML103": Case(
        {CODEX: spell_codex(docs={**DOCS, "env_vars": [{"name": "T", "source": "thread"}]})},
        "error",
        "codex docs {home}/.codex/config.toml:4:13",
        "Codex does not know the source 'thread', only local and remote: Codex does not start",
        "wrap the entry: mcp-launch wrap --host codex docs",
        "wrap docs in {home}/.codex/config.toml",
    ),
    "ML104": Case(
        {CLAUDE: spell(docs={**DOCS, "cwd": "/srv"})},
        "warning",
        "claude docs {home}/.claude.json:1:",
        "Claude Code ignores cwd: 'docs' does not start in /srv",
        'then begin its args with "run", "--cwd", "/srv", "--" and remove cwd',
    ),
    "ML106": Case(
        {CODEX: spell_codex(docs={"command": "sh", "args": ["--root", "$HOME/docs"]})},
        "error",
        "codex docs {home}/.codex/config.toml:3:19",
        "Codex passes $HOME to 'docs' unexpanded",
        'write its value; or, if the server reads HOME itself, env_vars = ["HOME"]',
    ),
    "ML107": Case(
        {CLAUDE: spell(docs=DOCS), ".mcp.json": spell(docs={"command": "sh"})},
        "warning",
        "claude docs {project}/.mcp.json:1:",
        "uses only the one in user until you approve the project's",
        "claude mcp remove docs -s project",
    ),
    "ML110": Case(
        {".mcp.json": spell(docs=DOCS)},
        "warning",
        "claude docs {project}/.mcp.json:1:17",
        "Claude Code does not start docs in a terminal until you approve it",
        "review it, then run claude in {project} and answer its question",
    ),
    "ML116": Case(
        {CURSOR: spell(docs={**WRAPPED, "command": "/gone/mcp-launch"})},
        "error",
        "cursor docs {home}/.cursor/mcp.json:1:",
        "/gone/mcp-launch does not exist, so hosts cannot start docs",
        "mcp-launch wrap",
        "wrap docs again",
    ),
    "ML117": Case(
        {CODEX: UNWRAPPED},
        "note",
        "codex docs {home}/.codex/config.toml:1:1",
        "Codex starts 'docs' without mcp-launch",
        "wrap it: mcp-launch wrap --host codex docs",
        "wrap docs in {home}/.codex/config.toml",
    ),
    "ML121": Case(
        {CODEX: spell_codex(docs={**WRAPPED, "args": ["run", "--cwdd", "x", "--", "sh"]})},
        "error",
        "codex docs {home}/.codex/config.toml:3:1",
        "mcp-launch does not start 'docs': unknown option --cwdd",
        "did you mean --cwd?",
    ),
    "ML125": Case(
        {CODEX: spell_codex(docs=WRAPPED)},
        "note",
        "codex docs {home}/.codex/config.toml:2:1",
        "once {program} is gone, hosts cannot start docs",
        "mcp-launch wrap",
        "wrap docs again",
    ),
    "ML201": Case(
        {CURSOR: spell(docs={"command": "no-such-thing"})},
        "error",
        "cursor docs {home}/.cursor/mcp.json:1:",
        "no-such-thing is not on the PATH that Cursor gives ({home}/bin:",
        "install it, or give its absolute path",
    ),
    "ML205": Case(
        {
            CODEX: spell_codex(docs={"command": "docker", "args": ["run", "-e", "TOKEN", "image"]}),
            "~/bin/docker": "#!/bin/sh\n",
        },
        "error",
        "codex docs {home}/.codex/config.toml:1:1",
        "Codex does not pass TOKEN on, but docker expects it (-e)",
        'add "TOKEN" to env_vars in [mcp_servers.docs]: env_vars = ["TOKEN"]',
        variables=(("TOKEN", "x"),),
    ),
    "ML206": Case(
        {CLAUDE: spell(docs=DOCS, web=DOCS)},
        "warning",
        "claude",
        "Claude Code passes its credentials on to 2 of its servers (docs, web): ANTHROPIC_API_KEY",
        "run: mcp-launch wrap --host claude -- --pass-env safe; or write",
        variables=(("ANTHROPIC_API_KEY", "x"),),
    ),
    "ML207": Case(
        {CODEX: spell_codex(docs={**DOCS, "cwd": "/gone"})},
        "error",
        "codex docs {home}/.codex/config.toml:4:1",
        "/gone (cwd) does not exist, so the server does not start",
        "create it, or correct cwd",
    ),
    "ML408": Case(
        {CURSOR: spell(docs=WRAPPED)},
        "note",
        "cursor docs {home}/.cursor/mcp.json:1:",
        "Cursor starts 'docs' in / or {home}, not in a project",
        "give it a directory: mcp-launch wrap --host cursor docs -- --cwd DIR",
    ),
}

# Of servers that run, or are started: test_doctor_running and the tests of processes.
ELSEWHERE = {"ML001", "ML010", "ML401", "ML402", "ML403", "ML404", "ML409"}


def test_every_code_has_a_situation() -> None:
    assert {*CASES, *ELSEWHERE, *find_codes("ML3")} == set(find_codes())


@pytest.mark.parametrize("code", CASES)
def test_what_is_wrong_is_found_with_its_place_and_what_to_do(
    code: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, machine = CASES[code], doctor.machine
    names = {"home": str(machine.home), "project": str(machine.project)}
    names["program"] = os.path.join(os.path.dirname(sys.executable), "mcp-launch")

    def fill_in(text: str) -> str:
        for name, path in names.items():
            text = text.replace(f"{{{name}}}", path)
        return text

    if code == "ML018":
        remember(machine, "docs", "read_page", "delete_page")
    for path, text in case.files.items():
        install(machine, path, fill_in(text), 0o755 if text.startswith("#!") else 0o600)
    for name, text in case.variables:
        monkeypatch.setenv(name, text)

    found = [one for one in doctor.find() if one["code"] == code]

    [finding] = found
    subject = finding["subject"]
    words = [subject.get(key, "") for key in ("host", "server", "file")]
    at = f":{subject['line']}:{subject['column']}" if "line" in subject else ""
    place = " ".join(filter(None, words)) + at
    assert finding["level"] == case.level
    assert place.startswith(fill_in(case.place))
    assert fill_in(case.message) in finding["message"]
    assert fill_in(case.fix) in finding["fix"]
    assert finding["repair"] == (fill_in(case.repair) or None)


def test_a_machine_on_which_all_is_well_has_no_findings(doctor: Doctor) -> None:
    machine = doctor.machine
    machine.write(CODEX, spell_codex(docs=DOCS))
    machine.write(CLAUDE, spell(docs=DOCS))
    assert run_command("wrap", "--yes", cwd=machine.project).returncode == 0
    machine.write(OWN, "[servers.docs]\nstrict = false\n").chmod(0o600)

    assert doctor.find() == []
    done = doctor.run()
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1] == (
        "No problems found with 2 servers of 2 hosts; 1 ignored (ML010)."
    )


def test_before_the_first_launch_nothing_is_wrong_and_nothing_is_made(doctor: Doctor) -> None:
    assert doctor.find() == []
    assert not (doctor.machine.home / ".local").exists()


@pytest.mark.parametrize("is_installed", [True, False], ids=["in an environment", "not at all"])
def test_a_launcher_that_will_not_last_is_reported(
    is_installed: bool, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_installed:
        monkeypatch.setattr(sys, "executable", str(doctor.machine.home / "bin/python3"))

    done = run_command("doctor", "--json", "--select", "ML010", cwd=doctor.machine.project)

    [finding] = json.loads(done.stdout)["findings"]
    problem = "virtual environment|cleaned from time to time" if is_installed else "not installed"
    assert re.search(problem, finding["message"])
    assert "uv tool install ." in finding["fix"]


def test_a_check_that_fails_is_reported_and_hides_nothing(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system may answer in a way that nobody expects."""
    (doctor.machine.home / ".local/state/mcp-launch").mkdir(parents=True)
    doctor.machine.write(CODEX, UNWRAPPED)

    def stumble(path: object) -> os.statvfs_result:
        raise ValueError(f"no such thing as {path}")

    monkeypatch.setattr(os, "statvfs", stumble)

    done = doctor.run("--json", "--select", "ML117,ML4", "--ignore", "ML0")

    found = json.loads(done.stdout)["findings"]
    assert [(one["code"], one["level"]) for one in found] == [("ML001", "error"), ("ML117", "note")]
    assert "ours.check_state failed: ValueError: no such thing as" in found[0]["message"]
    assert done.returncode == 2


@pytest.mark.parametrize("kind", [[], {}, 3, None], ids=repr)
def test_an_entry_of_no_kind_hides_nothing(kind: object, doctor: Doctor) -> None:
    servers = {"odd": {"command": "sh", "type": kind}, "gone": {"command": "no-such-thing"}}
    doctor.machine.write(CURSOR, spell(**servers))

    [finding] = doctor.find("--ignore", "ML117")

    assert (finding["code"], finding["subject"]["server"]) == ("ML201", "gone")


@pytest.mark.parametrize(
    "files",
    [
        {
            CURSOR: spell(
                a={"command": "nope"}, b={**WRAPPED, "args": ["run", "--dotenv", "\0", "--", "x"]}
            )
        },
        {
            CLAUDE: spell(a={"command": "nope"}),
            "~/.claude/settings.json": '{"env": {"PATH": "/x\\u0000"}}',
        },
        {CLAUDE: '{"mcpServers": {"a": {"command": "nope"}}, "projects": {"\\u0000": {}}}'},
    ],
    ids=["the name of a dotenv file", "PATH", "the name of a project"],
)
def test_a_nul_in_a_file_hides_no_other_finding(files: dict[str, str], doctor: Doctor) -> None:
    for path, text in files.items():
        doctor.machine.write(path, text)

    codes = doctor.list_codes()

    assert "ML001" not in codes
    assert "ML201" in codes


# What is shown.


def test_one_command_says_what_is_wrong_where_and_what_to_do(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, BROKEN)
    doctor.machine.write(CURSOR, spell(docs={"command": "no-such-thing"}))

    done = doctor.run()

    assert done.returncode == 1
    assert re.search(r"Codex  ~/.codex/config.toml:1:\d+ \(user\)\n  ML101 error: ", done.stdout)
    # A broken file hides nothing of the others.
    assert re.search(r"Cursor: docs  ~/.cursor.*\n  ML201 error: no-such-thing", done.stdout)
    assert re.search(r"\n    fix: .", done.stdout)
    summary = done.stdout.splitlines()[-1]
    assert re.search(r"2 errors \(ML101, ML201\), 1 note in 1 server of 1 host", summary)


def test_servers_that_are_not_wrapped_are_reported_in_one_line(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, spell_codex(**{f"server-{at}": DOCS for at in range(30)}))

    shown = doctor.run().stdout

    [line] = [line for line in shown.splitlines() if "ML117 note" in line]
    assert line == "ML117 note: 30 servers are not wrapped (Codex 30): mcp-launch wrap"
    last = shown.splitlines()[-1]
    assert last.startswith("1 note in 30 servers of 1 host; ")
    assert last.endswith("; mcp-launch doctor --fix has fixes for ML117")
    assert "server-0, server-1, " in doctor.run("-v").stdout


def test_what_wrapping_changes_for_others_is_counted_apart(doctor: Doctor) -> None:
    doctor.machine.write(".mcp.json", spell(pg=DOCS))
    doctor.machine.write(CLAUDE, spell(docs=DOCS, web=DOCS))
    track(doctor.machine.project, ".mcp.json")

    shown = doctor.run("--host", "claude").stdout

    assert "3 servers are not wrapped (Claude Code 3): mcp-launch wrap --host claude; " in shown
    assert "1 outside this project or tracked by Git: mcp-launch wrap --file FILE\n" in shown


def test_what_programs_get_has_a_version(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, UNWRAPPED)

    told = json.loads(doctor.run("--json").stdout)

    assert (told["version"], told["servers"]) == (1, 1)
    assert told["counts"] == {"error": 0, "warning": 0, "note": 1}
    [codex] = told["hosts"]
    assert (codex["host"], codex["servers"], codex["remote"]) == ("codex", 1, [])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('cwd = "/no" # PW is hunter2', 'cwd = "/no" #...'),
        ('cwd = "/no/a # b" # hunter2', 'cwd = "/no/a # b" #...'),
    ],
)
def test_the_line_is_shown_with_a_caret_under_the_place_and_without_comments(
    line: str, shown: str, doctor: Doctor
) -> None:
    text = f'[mcp_servers.docs]\ncommand = "sh"\n\t{line}\n'
    doctor.machine.write(CODEX, text)

    said = doctor.run("-v").stdout

    assert f"    3 | {shown}\n      | ^\n" in said
    assert "hunter" not in said
    assert " | " not in doctor.run().stdout  # in a pipe


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ('args = ["--token", "hunter2", "$HOME"]', 'args = ["--token", ***, "$HOME"]'),
        ('env = { PW = "hunter2", A = "$HOME" }', 'env = { PW = ***, A = "$HOME" }'),
        ('http_headers = { X = "hunter2" }\ncwd = "$HOME"', 'cwd = "$HOME"'),
    ],
)
def test_no_secret_is_in_the_line(entry: str, shown: str, doctor: Doctor) -> None:
    doctor.machine.write(CODEX, f'[mcp_servers.docs]\ncommand = "sh"\n{entry}\n')

    said = doctor.run("-v").stdout

    assert f" | {shown}\n" in said
    assert "hunter" not in said


def test_no_line_of_an_invalid_file_is_shown(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, '[mcp_servers.a]\nenv = { PW = "hunter2" "x" }')

    said = doctor.run("-v").stdout

    assert "ML101 error" in said
    assert " | " not in said
    assert "hunter" not in said


def test_a_long_line_is_cut_around_the_place(doctor: Doctor) -> None:
    servers = {
        f"server-{at}": {"command": "no-such-thing" if at == 50 else "sh"} for at in range(99)
    }
    doctor.machine.write(CURSOR, spell(**servers))

    lines = doctor.run("-v").stdout.splitlines()

    [at] = [number for number, line in enumerate(lines) if " | " in line and "no-such" in line]
    assert lines[at].index('"command"') == lines[at + 1].index("^")
    assert len(lines[at]) < 120


@pytest.mark.parametrize("width", [40, 80])
def test_lines_on_a_terminal_are_wrapped_between_words(
    width: int, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self) -> bool:
            return True

    doctor.machine.write(CURSOR, spell(docs={"command": "no-such-thing"}))
    terminal = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(width))
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("PATH", ":".join(f"/opt/tools/number-{at}/bin" for at in range(9)))

    main(["doctor", "--ignore", "ML010"])

    lines = re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()).splitlines()
    shown = " ".join(" ".join(lines).split())
    assert not any(line.endswith(" ") for line in lines)
    assert "ML201 error: no-such-thing is not on the PATH that Cursor gives" in shown
    # A long PATH is not shown whole.
    assert "/opt/tools/number-2/bin and 6 more" in shown


def test_what_is_in_files_can_do_nothing_to_a_terminal(doctor: Doctor) -> None:
    name = "it\x1b[2J\u202e"
    doctor.machine.write(CURSOR, spell(**{name: {"command": "no\x07pe"}}))

    for words in ((), ("-v",), ("--fix", "--yes")):
        said = doctor.run(*words)
        assert "ML201" in said.stdout
        assert not {"\x1b", "\x07", "\u202e"} & {*said.stdout, *said.stderr}


@pytest.mark.parametrize("entry", list(SECRETS.values()), ids=list(SECRETS))
def test_no_secret_is_ever_shown(entry: dict[str, Any], doctor: Doctor) -> None:
    for path in (CURSOR, ".mcp.json"):
        doctor.machine.write(path, spell(it=entry, ghp_0123456789abcdefghij0123=entry))
    track(doctor.machine.project, ".mcp.json")

    for words in (("-v",), ("--json",), ("--fix",)):
        done = doctor.run(*words)
        assert "it" in done.stdout
        assert SECRET not in done.stdout + done.stderr


# Which findings.


@pytest.mark.parametrize(
    ("words", "codes"),
    [
        ([], ["ML101", "ML201", "ML206", "ML117", "ML117", "ML117"]),
        (["--select", "error"], ["ML101", "ML201"]),
        (["--select", "Error,warning"], ["ML101", "ML201", "ML206"]),
        (["--ignore", "note"], ["ML101", "ML201", "ML206"]),
        (["--select", "ML2"], ["ML201", "ML206"]),
        (["--select", "ml101, ML2", "--select", "ML401"], ["ML101", "ML201", "ML206"]),
        (["--select", "ML2:gone"], ["ML201"]),
        (["--ignore", "ML2,ML117"], ["ML101"]),
        (["--ignore", "ML117,ML201:other"], ["ML101", "ML201", "ML206"]),
        (["--ignore", "ML:gone"], ["ML101", "ML206", "ML117", "ML117"]),
        (["--ignore", "ML:claude"], ["ML101"]),
        # A finding about several servers is ignored once all of them are.
        (["--select", "ML206", "--ignore", "ML206:docs"], ["ML206"]),
        (["--select", "ML206", "--ignore", "ML206:docs,ML2:web,warning:gone"], []),
        (["--host", "zed"], ["ML101"]),
    ],
    ids=" ".join,
)
def test_findings_are_chosen_by_code_level_server_and_host(
    words: list[str], codes: list[str], doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    doctor.machine.write("~/.config/zed/settings.json", "{")
    doctor.machine.write(CLAUDE, spell(docs=DOCS, web=DOCS, gone={"command": "no-such-thing"}))

    assert [one["code"] for one in doctor.find(*words)] == codes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--select", "ML999"], "--select: there is no code ML999"),
        (["--select", "", "--fix", "--yes"], "--select names no code"),
        (["--select", ", ,"], "--select names no code"),
        (["--select", "errors"], "did you mean error?"),
        (["--ignore", "ML2O1"], "did you mean ML201?"),
        (["--ignore", "docs"], "there is no code DOCS"),
        (["--ignore", "ML001"], "ML001 (a check could not run) cannot be ignored"),
        (["--host", "cursr"], "did you mean cursor?"),
        (["--yes"], "--yes without --fix does nothing"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_meant_is_refused(words: list[str], said: str, doctor: Doctor) -> None:
    done = doctor.run(*words)

    assert done.returncode == 2
    assert said in done.stderr


def test_what_is_ignored_is_counted_and_notes_are_no_reason_to_fail(doctor: Doctor) -> None:
    doctor.machine.write(CURSOR, spell(docs={"command": "no-such-thing"}))

    done = doctor.run("--ignore", "ML201")

    assert done.returncode == 0
    assert "ML201 error" not in done.stdout
    assert "2 ignored (ML010, ML201)" in done.stdout.splitlines()[-1]


def test_what_was_not_looked_for_is_not_said_to_be_well(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, BROKEN)

    assert "Nothing found for ML4 with 0 servers" in doctor.run("--select", "ML4").stdout


def test_the_user_may_ignore_findings_for_good(doctor: Doctor) -> None:
    doctor.machine.write(CODEX, spell_codex(docs=DOCS, web=DOCS))
    doctor.machine.write(OWN, '[doctor]\nignore = ["ML117:docs", "ML0"]\n')

    told = json.loads(doctor.run("--json").stdout)

    assert [one["subject"]["server"] for one in told["findings"]] == ["web"]
    assert [one["code"] for one in told["ignored"]] == ["ML010", "ML117"]
    assert told["filter"]["ignore"] == ["ML010", "ML117:docs", "ML0"]


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
def test_a_mistake_in_the_list_is_reported_and_the_rest_counts(
    text: str, place: tuple[int, int], said: str, doctor: Doctor
) -> None:
    doctor.machine.write(CODEX, UNWRAPPED)
    doctor.machine.write(OWN, f"{text}\n")

    wrong, *rest = doctor.find()

    assert wrong["code"] == "ML013"
    assert said in wrong["message"]
    assert (wrong["subject"]["line"], wrong["subject"]["column"]) == place
    assert bool(rest) == ('["ML117", ' not in text)


# Fixes.


def test_fixes_are_shown_and_not_applied_where_nobody_can_be_asked(doctor: Doctor) -> None:
    path = doctor.machine.write(CODEX, UNWRAPPED)

    done = doctor.run("--fix")

    assert f"would wrap docs in {path}" in done.stdout
    assert done.returncode == 2
    assert "add --yes" in done.stderr
    assert path.read_text("utf-8") == UNWRAPPED


@pytest.mark.parametrize(("answer", "is_done"), [("y", True), ("", False), ("no", False)])
def test_fixes_are_applied_after_asking(
    answer: str, is_done: bool, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Person(io.StringIO):
        def isatty(self) -> bool:
            return True

    path = doctor.machine.write(CODEX, UNWRAPPED)
    monkeypatch.setattr(sys, "stdin", Person(f"{answer}\n"))
    shown = io.StringIO()
    monkeypatch.setattr(sys, "stdout", shown)

    main(["doctor", "--ignore", "ML010", "--fix"])

    assert "Apply this fix? [y/N] " in shown.getvalue()
    assert ("done: wrap docs" in shown.getvalue()) == is_done
    assert ("Nothing was changed." in shown.getvalue()) != is_done
    assert (path.read_text("utf-8") != UNWRAPPED) == is_done


@pytest.mark.parametrize("words", [[], ["--json"]], ids=["shown", "as JSON"])
def test_fix_with_yes_does_it_and_looks_again(words: list[str], doctor: Doctor) -> None:
    path = doctor.machine.write(CODEX, UNWRAPPED)

    done = doctor.run("--fix", "--yes", *words)

    assert "done: wrap docs" in (done.stderr if words else done.stdout)
    assert "a copy of the original file is in " in (done.stderr if words else done.stdout)
    assert done.stdout.count("ML117 note") == (0 if words else 1)  # before, and not after
    assert "# mine" in path.read_text("utf-8")
    assert doctor.find() == []


def test_fix_obeys_the_filter(doctor: Doctor) -> None:
    path = doctor.machine.write(CODEX, UNWRAPPED)

    done = doctor.run("--fix", "--yes", "--select", "ML401")

    assert "There is nothing that mcp-launch can fix automatically." in done.stdout
    assert path.read_text("utf-8") == UNWRAPPED


def test_a_server_that_cannot_start_is_not_offered_to_be_wrapped(doctor: Doctor) -> None:
    doctor.machine.write(CURSOR, spell(gone={"command": "no-such-thing"}, docs=DOCS))

    done = doctor.run("--fix")

    assert "would wrap docs in" in done.stdout
    assert "would wrap gone" not in done.stdout
    assert "\n1 finding needs you" in done.stdout  # that nothing wraps it is no second one


def test_only_files_of_this_user_alone_are_changed_on_the_way(doctor: Doctor) -> None:
    machine = doctor.machine
    entry = spell(docs={"command": "sh"})
    machine.write(".cursor/mcp.json", entry)
    outside = machine.write("../.mcp.json", entry).resolve()
    track(machine.project, ".cursor/mcp.json")

    found = {one["subject"]["host"]: one for one in doctor.find("--select", "ML117")}

    assert all(one["repair"] is None for one in found.values())
    assert "changes it for everyone" in found["cursor"]["fix"]
    assert found["claude"]["fix"] == f"wrap it: mcp-launch wrap --file {outside} docs"


def test_entries_of_one_file_are_wrapped_at_once_and_only_those_that_were_shown(
    doctor: Doctor,
) -> None:
    machine = doctor.machine
    docs = {"mcpServers": {f"docs-{at}": {"command": "sh"} for at in range(3)}}
    elsewhere = {str(machine.home / "gone"): {"mcpServers": {"x": {"command": "sh"}}}}
    file = machine.write(CLAUDE, json.dumps(docs | {"projects": elsewhere}))

    doctor.run("--fix", "--yes")

    after = json.loads(file.read_text("utf-8"))
    script = f"{machine.home}/.local/state/mcp-launch/mcp-launch"
    assert {entry["command"] for entry in after["mcpServers"].values()} == {script}
    assert after["projects"] == elsewhere


@pytest.mark.parametrize("code", ["ML103", "ML116", "ML125"])
def test_what_is_offered_helps(code: str, doctor: Doctor) -> None:
    program = os.path.join(os.path.dirname(sys.executable), "mcp-launch")
    for path, text in CASES[code].files.items():
        doctor.machine.write(path, text.replace("{program}", program))
    assert code in [one["code"] for one in doctor.find()]

    done = doctor.run("--fix", "--yes", "--select", code)

    assert done.returncode == 0
    assert code not in [one["code"] for one in doctor.find()]


def test_launchers_that_are_gone_are_reported_once_each(doctor: Doctor) -> None:
    gone = {"command": "/old/mcp-launch", "args": ["run", "sh"]}
    doctor.machine.write(CLAUDE, spell(**{f"s{at}": gone for at in range(15)}))
    doctor.machine.write(CURSOR, spell(docs={**gone, "command": "/older/mcp-launch"}))

    found = doctor.find("--select", "ML116")

    assert len(found) == 2
    assert {one["fix"] for one in found} == {"mcp-launch wrap"}


def test_a_launcher_that_the_host_does_not_find_is_named_by_its_path(doctor: Doctor) -> None:
    entry = '[mcp_servers.it]\ncommand = "mcp-launch" # mine\nargs = ["run", "--", "sh"]\n'
    path = doctor.machine.write(CODEX, entry)
    script = f"{doctor.machine.home}/.local/state/mcp-launch/mcp-launch"

    [finding] = doctor.find("--select", "ML201")
    assert finding["message"].startswith("mcp-launch is not on the PATH that Codex gives")
    assert finding["repair"] == f"write {script} as the command of it in {path}"
    doctor.run("--fix", "--yes", "--select", "ML201")

    assert f'command = "{script}" # mine\n' in path.read_text("utf-8")


# Explanations.
