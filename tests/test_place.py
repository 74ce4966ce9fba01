"""Place: the server's directory is the session's, and never somebody's home by accident."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from facts import make_context
from stage import HERE, PROBE, RUN, Stage, request

from mcp_launch import context, plan
from mcp_launch.errors import PlaceRefused
from mcp_launch.hosts.host import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

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


@pytest.mark.parametrize(("wanted", "place", "root", "expected"), PLACES)
def test_cwd(wanted: str, place: str, root: str, expected: str) -> None:
    facts = make_context(place=Found(place, "inherited"), project_root=Found(root, ".git in it"))

    assert plan.decide_cwd(wanted, facts, EVERYTHING_EXISTS).value == expected


@pytest.mark.parametrize("wanted", ["session", "project_root"])
@pytest.mark.parametrize(
    ("place", "reason"),
    [
        ("/", "the root of the file system"),
        ("/home/me", "the home directory"),
        ("/home/me/.codex", "Codex's own home"),
        ("/home/me/.codex/", "Codex's own home"),
    ],
)
def test_no_session_means(wanted: str, place: str, reason: str) -> None:
    facts = make_context(place=Found(place, "inherited"), project_root=Found(place, ".git in it"))

    with pytest.raises(PlaceRefused, match=reason) as refused:
        plan.decide_cwd(wanted, facts, EVERYTHING_EXISTS)
    assert f"--cwd {place}" in refused.value.fix


def test_a_home_is_taken_when_it_is_what_was_kept() -> None:
    facts = make_context(inherited_cwd=Found("/home/me", "inherited"))

    assert plan.decide_cwd("keep", facts, EVERYTHING_EXISTS).value == "/home/me"


def test_a_project_root_that_is_not_there_is_named() -> None:
    facts = make_context(project_root=Missing(["no .git in /x or above"]))

    with pytest.raises(PlaceRefused, match=r"no \.git in /x or above"):
        plan.decide_cwd("project_root", facts, EVERYTHING_EXISTS)


@pytest.mark.parametrize("marker", context.ROOT_MARKERS)
def test_a_project_root_is_known_by(marker: str, tmp_path: Path) -> None:
    (tmp_path / "outer" / ".git").mkdir(parents=True)
    inner = tmp_path / "outer" / "inner"
    (inner / "deep" / "down").mkdir(parents=True)
    (inner / marker).write_text("", encoding="utf-8")

    found = context.find_project_root(str(inner / "deep" / "down"))

    assert isinstance(found, Found)
    assert found.value == str(inner)


def test_a_worktrees_own_root_is_its_root(tmp_path: Path) -> None:
    (tmp_path / "main" / ".git").mkdir(parents=True)
    worktree = tmp_path / "main" / "trees" / "feature"
    worktree.mkdir(parents=True)
    (worktree / ".git").write_text("gitdir: ../../.git/worktrees/feature\n", encoding="utf-8")

    found = context.find_project_root(str(worktree))

    assert isinstance(found, Found)
    assert found.value == str(worktree)


@pytest.mark.parametrize("wanted", ["session", "project_root", "sub"])
def test_pwd_agrees_with_the_directory(wanted: str, wire: list[str], stage: Stage) -> None:
    (stage.project / "sub").mkdir()
    launch = stage.launch(
        *wire, "--cwd", wanted, "--", *PROBE, env={**os.environ, "PWD": "/somewhere/else"}
    )

    sight = launch.ask("look")

    assert sight["cwd"] == sight["env"]["PWD"]
    assert sight["cwd"] == str(stage.project / ("sub" if wanted == "sub" else ""))


def test_a_linked_directory_keeps_the_name_its_user_knows(stage: Stage, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(stage.project)
    launch = stage.launch("--", *PROBE, cwd=link, env={**os.environ, "PWD": str(link)})

    sight = launch.ask("look")

    assert sight["env"]["PWD"] == str(link)
    assert sight["cwd"] == str(stage.project)


def test_home_is_refused_to_the_hosts_face(wire: list[str], stage: Stage, own_home: Path) -> None:
    launch = stage.launch(*wire, "--", *PROBE, cwd=own_home)
    launch.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    message = launch.answer()["error"]["message"]

    assert f"gave the server {own_home} (inherited): the home directory is no session's" in message
    assert launch.finish()[0] == 125


@pytest.mark.parametrize(
    ("capabilities", "is_served"),
    [({"elicitation": {}}, True), ({"experimental": {"codex/auth-change": {}}}, False)],
    ids=["an inventory, which is served from nowhere", "a thread, which is refused"],
)
def test_a_server_that_codex_starts_in_its_own_home_is_for(
    capabilities: dict[str, object],
    is_served: bool,
    stage: Stage,
    own_home: Path,
    tmp_path: Path,
) -> None:
    codex_home = own_home / ".codex"
    codex_home.mkdir()
    program = tmp_path / "codex"
    program.symlink_to(os.path.realpath(PROBE[0]))
    script = str(HERE / "actors" / "host.py")
    host = stage.start([str(program), "-SE", script, "--", *RUN, "--", *PROBE], cwd=codex_home)
    host.read_line()
    host.send(request("initialize", 5, capabilities=capabilities), request("tools/list", 6))

    answer = host.answer()

    assert answer["id"] == 5
    if is_served:
        assert answer["result"]["cwd"] == str(tmp_path / "state" / "nowhere")
        assert answer["result"]["asked"]["params"]["capabilities"] == capabilities
        assert host.answer()["id"] == 6
    else:
        assert "Codex's own home is no session's project" in answer["error"]["message"]


def test_a_directory_deleted_under_us_is_told(stage: Stage, tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"
    doomed.mkdir()
    in_it = "import os, sys; os.chdir(sys.argv[1]); os.rmdir(sys.argv[1]); "
    start = "os.execv(sys.executable, [sys.executable, '-m', 'mcp_launch', 'run', '--', 'cat'])"
    launch = stage.start([*PROBE[:1], "-c", in_it + start, str(doomed)])
    launch.send({"jsonrpc": "2.0", "id": 1, "method": "initialize"})

    assert "(deleted)" in launch.answer()["error"]["message"]
