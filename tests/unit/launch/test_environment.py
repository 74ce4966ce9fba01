"""Where a server is started, decided from facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from fakes import FakeProcessTable, make_context, make_sighting

from mcp_launch import hosts
from mcp_launch.errors import PlaceRefused, SourceMissing
from mcp_launch.launch import environment, plan, profile
from mcp_launch.launch.context import Context, Lineage, find_context
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.hosts import Sighting


EVERYTHING_EXISTS = lambda _: True  # noqa: E731  # reads as a fact in the tables below


# --cwd, the session's directory, its project root, the expected directory
PLACES = [
    ("session", "/work/app/src", "/work/app", "/work/app/src"),
    ("project_root", "/work/app/src", "/work/app", "/work/app"),
    ("keep", "/work/app/src", "/work/app", "/inherited"),
    ("/data", "/work/app/src", "/work/app", "/data"),
    ("..", "/work/app/src", "/work/app", "/work/app"),
    ("sub/dir", "/work/app", "/work/app", "/work/app/sub/dir"),
    ("~/x", "/work/app", "/work/app", "/home/me/x"),
    ("~", "/work/app", "/work/app", "/home/me"),
    ("/", "/work/app", "/work/app", "/"),
    ("/home/me/.codex", "/work/app", "/work/app", "/home/me/.codex"),
]


@pytest.mark.parametrize(("wanted", "session", "root", "expected"), PLACES)
def test_cwd(wanted: str, session: str, root: str, expected: str) -> None:
    facts = make_context(place=Found(session, "inherited"), project_root=Found(root, ".git in it"))

    assert environment.decide_cwd(wanted, facts, EVERYTHING_EXISTS).value == expected


HOMES = [
    ("/", "the root of the file system"),
    ("/home/me", "the home directory"),
    ("/home/me/.codex", "Codex's own home"),
    ("/home/me/.codex/", "Codex's own home"),
]


def plan_for(*words: str, **facts: Any) -> plan.Plan:
    wanted = profile.load([*words, "--", "server"], {})
    nothing = plan.Dotenv({}, "")
    return plan.decide(wanted, make_context(**facts), {}, nothing, EVERYTHING_EXISTS)


def stand_in(directory: str) -> dict[str, Found]:
    return {
        "place": Found(directory, "inherited"),
        "project_root": Found(directory, ".git in it"),
        "inherited_cwd": Found(directory, "inherited"),
    }


@pytest.mark.parametrize("wanted", ["session", "project_root"])
@pytest.mark.parametrize(("directory", "name"), HOMES)
def test_a_home_is_accepted_and_noted_unless_it_is_to_be_refused(
    wanted: str, directory: str, name: str
) -> None:
    decided = plan_for("--cwd", wanted, **stand_in(directory))

    assert (decided.cwd.value, decided.place_note) == (directory, name)
    with pytest.raises(PlaceRefused, match=f"which is {name}, not a project") as refused:
        plan_for("--strict", "--cwd", wanted, **stand_in(directory))
    assert f"--cwd {directory}" in refused.value.fix


@pytest.mark.parametrize("wanted", ["session", "project_root"])
def test_a_home_is_refused_if_the_hosts_record_names_another_directory(wanted: str) -> None:
    recorded = Found("/work/app", "the host's record")

    with pytest.raises(PlaceRefused, match=r"works in /work/app \(the host's record\)") as refused:
        plan_for("--cwd", wanted, contradiction=recorded, **stand_in("/home/me"))
    assert refused.value.fix == "name the directory: --cwd /work/app, or --cwd keep for /home/me"


@pytest.mark.parametrize("words", [[], ["--strict"]], ids=["plain", "strict"])
@pytest.mark.parametrize("wanted", ["keep", "~", "/home/me"])
def test_a_home_that_the_user_chose_is_accepted_without_a_word(
    wanted: str, words: list[str]
) -> None:
    recorded = Found("/work/app", "the host's record")

    decided = plan_for(*words, "--cwd", wanted, contradiction=recorded, **stand_in("/home/me"))

    assert (decided.cwd.value, decided.place_note) == ("/home/me", "")


def test_the_root_of_a_project_may_be_the_home_directory() -> None:
    """Whoever keeps all of it in Git works in a directory without a root of its own."""
    root = Found("/home/me", ".git in it")

    decided = plan_for("--cwd", "project_root", place=Found("/home/me/x", ""), project_root=root)

    assert (decided.cwd.value, decided.place_note) == ("/home/me", "the home directory")


def look_at(sighting: Sighting, host: str) -> Context:
    """Return what is found out about a session of a host."""
    lineage = Lineage([], hosts.load(host), sighting.process)
    return find_context(sighting, lineage)


# CLAUDE_PROJECT_DIR, the inherited directory, the recorded one; the server's, what contradicts it
CLAUDE_PLACES = {
    "started in the home directory": ("~", "~", "~", "~", None),
    "started there, before it wrote its record": ("~", "~", None, "~", None),
    "started in a project": ("app", "app", "app", "app", None),
    "moved inside its project, which its roots show": ("app", "app/tree", "app/tree", "app", None),
    "moved out of the home directory": ("~", "app", "app", "app", None),
    "a variable of another session": ("~", "~", "app", "~", "app"),
    "a variable and a directory of others": ("~", "other", "app", "~", "app"),
    "too old to have the variable": (None, "~", "~", "~", None),
    "too old, and started elsewhere": (None, "~", "app", "~", "app"),
    "an ordinary directory is its user's choice": (None, "other", "app", "other", None),
}


@pytest.mark.parametrize(
    ("variable", "inherited", "recorded", "expected", "contradiction"),
    CLAUDE_PLACES.values(),
    ids=list(CLAUDE_PLACES),
)
def test_what_claude_codes_record_says_of_a_place(  # noqa: PLR0913, PLR0917  # a table
    variable: str | None,
    inherited: str,
    recorded: str | None,
    expected: str,
    contradiction: str | None,
    own_home: Path,
) -> None:
    def name(directory: str) -> str:
        return str(own_home if directory == "~" else own_home / "work" / directory)

    table = FakeProcessTable()
    table.add(20, "claude", start="ticks:777")
    if recorded is not None:
        file = own_home / ".claude" / "sessions" / "20.json"
        file.parent.mkdir(parents=True)
        record = {"sessionId": "s", "procStart": "777", "cwd": name(recorded)}
        file.write_text(json.dumps(record), encoding="utf-8")
    environ = {"HOME": str(own_home)}
    environ |= {"CLAUDE_PROJECT_DIR": name(variable)} if variable else {}

    found = look_at(make_sighting(table, 20, environ=environ, cwd=name(inherited)), "claude")

    assert found.place.value == name(expected)
    assert (found.contradiction and found.contradiction.value) == (
        contradiction and name(contradiction)
    )


def test_a_record_of_an_earlier_process_contradicts_nothing(own_home: Path) -> None:
    table = FakeProcessTable()
    table.add(20, "claude", start="ticks:777")
    file = own_home / ".claude" / "sessions" / "20.json"
    file.parent.mkdir(parents=True)
    file.write_text('{"sessionId": "s", "procStart": "776", "cwd": "/work"}', encoding="utf-8")
    environ = {"HOME": str(own_home)}

    found = look_at(make_sighting(table, 20, environ=environ, cwd=str(own_home)), "claude")

    assert found.contradiction is None


THREAD, NEWER = (f"01999999-000{number}-7000-8000-000000000000" for number in (0, 1))


# what Codex runs as, where its process is, where the server is, its threads' records
CODEX_PLACES = {
    "an app server's own directory, a thread of elsewhere": (
        ["app-server"],
        "~",
        "~",
        ["app"],
        "app",
    ),
    "the newest of several": (["app-server"], "~", "~", ["other", "app"], "app"),
    "a thread that has no record yet": (["app-server"], "~", "~", ["app", None], None),
    "a thread of the home directory": (["app-server"], "~", "~", ["app", "~"], None),
    "no thread that can be seen": (["app-server"], "~", "~", [], None),
    "a directory that Codex was asked for": (["app-server"], "other", "~", ["app"], None),
    "for no thread, to list its tools": (["app-server"], "~/.codex", "~/.codex", ["app"], None),
    "a thread that was resumed from there": (["exec", "resume"], "~", "~", ["app"], None),
    "a directory that cannot be seen": (["app-server"], "", "~", ["app"], None),
}


@pytest.mark.parametrize(
    ("words", "process", "inherited", "recorded", "contradiction"),
    CODEX_PLACES.values(),
    ids=list(CODEX_PLACES),
)
def test_what_codexs_threads_say_of_a_place(  # noqa: PLR0913, PLR0917  # a table
    words: list[str],
    process: str,
    inherited: str,
    recorded: list[str | None],
    contradiction: str | None,
    own_home: Path,
) -> None:
    def name(directory: str) -> str:
        is_home = directory.startswith("~")
        return str(own_home) + (directory[1:] if is_home else f"/work/{directory}")

    table = FakeProcessTable()
    table.add(10, "codex")
    table.argv[10] = ["codex", *words]
    table.cwds[10] = process and name(process)
    table.files[10] = []
    for thread, cwd in zip((THREAD, NEWER), recorded, strict=False):
        table.files[10].append(f"{own_home}/.codex/thread-writer-locks/{thread}.lock")
        if cwd is not None:
            path = own_home / ".codex" / "sessions" / f"rollout-{thread}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            line = {"type": "session_meta", "payload": {"session_id": thread, "cwd": name(cwd)}}
            path.write_text(json.dumps(line) + "\n", encoding="utf-8")
            table.files[10].append(str(path))
    sighting = make_sighting(table, 10, environ={"HOME": str(own_home)}, cwd=name(inherited))

    found = look_at(sighting, "codex").contradiction

    assert (found and found.value) == (contradiction and name(contradiction))


def test_a_project_root_that_is_not_there_is_named() -> None:
    facts = make_context(project_root=Missing(["no .git in /x or above"]))

    with pytest.raises(PlaceRefused, match=r"no \.git in /x or above"):
        environment.decide_cwd("project_root", facts, EVERYTHING_EXISTS)


@pytest.mark.parametrize("words", [["--cwd", "project_root"], ["--env", "ROOT=project_root"]])
def test_a_host_that_will_name_its_root_has_its_server_until_then(words: list[str]) -> None:
    nowhere = {"project_root": Missing(["no .git in /x or above"]), "is_host_directory": True}

    decided = plan_for(*words, facts=hosts.load("gemini"), **nowhere)

    assert "/work/app" in {decided.cwd.value, decided.environ.get("ROOT")}
    with pytest.raises((PlaceRefused, SourceMissing), match=r"no \.git in /x or above"):
        plan_for(*words, facts=hosts.load("vibe"), **nowhere)
