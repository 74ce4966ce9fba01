"""The small functions that every package uses."""

from __future__ import annotations

import pytest

from mcp_launch import state
from mcp_launch.values import expand_home, walk_upward

# a path, and what it is for a user whose home is /home/me
IN_HOME = {
    "the home itself": ("~", "/home/me"),
    "something in it": ("~/app/.env", "/home/me/app/.env"),
    "another user's home": ("~you/app", "~you/app"),
    "a tilde elsewhere": ("/srv/~/app", "/srv/~/app"),
    "a backup": ("file~", "file~"),
    "a relative path": ("app", "app"),
    "nothing": ("", ""),
}


@pytest.mark.parametrize(("path", "expanded"), IN_HOME.values(), ids=IN_HOME)
def test_a_leading_tilde_is_the_home(path: str, expanded: str) -> None:
    assert expand_home(path, "/home/me") == expanded


@pytest.mark.parametrize(("path", "expanded"), [("~", "/"), ("~/app", "/app")])
def test_the_home_may_be_the_root(path: str, expanded: str) -> None:
    assert expand_home(path, "/") == expanded


@pytest.mark.parametrize(
    ("moved", "directory"),
    [("~", "/home/me"), ("~/state", "/home/me/state"), ("state", "/home/me/state"), ("/s", "/s")],
)
def test_our_state_may_be_moved_to_the_home_and_below(moved: str, directory: str) -> None:
    environ = {"HOME": "/home/me", "MCP_LAUNCH_HOME": moved}

    assert state.find_directory(environ) == directory


# where it begins, and every directory that is looked at
UPWARD = {
    "an absolute path": ("/a/b/c", ["/a/b/c", "/a/b", "/a", "/"]),
    "the root": ("/", ["/"]),
    "a relative path": ("a/b", ["a/b", "a"]),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("start", "directories"), UPWARD.values(), ids=UPWARD)
def test_walking_upward_ends_at_the_root(start: str, directories: list[str]) -> None:
    assert list(walk_upward(start)) == directories
