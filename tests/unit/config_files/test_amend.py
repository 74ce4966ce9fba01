"""Entries name their server, and options of `run` are written into them, old and new."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from host_files import GOOSE, LAUNCHER, ONE_LIST, SERVERS
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.config_files import planned_changes, run_options
from mcp_launch.config_files.host_config import ANY_HOST, File, HostConfig
from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.config_files.wrap import Shape
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import options

if TYPE_CHECKING:
    from mcp_launch.documents.document import Kind


def change(kind: Kind, text: str, wish: Wish) -> str:
    host = HostConfig("any", "any", lambda _: [], (Shape(), GOOSE, ONE_LIST))
    return look(host, File("file", "user", kind, SERVERS), text, wish).after


def read_args(text: str) -> list[str]:
    args = json.loads(text)["mcpServers"]["a"]["args"]
    assert isinstance(args, list)
    return args


SAFE = ("--pass-env", "safe")


OWN: dict[str, tuple[list[str], tuple[str, ...], list[str]]] = {
    "an option": ([], SAFE, [*SAFE]),
    "another value": (["--pass-env", "all", "--strict"], SAFE, [*SAFE, "--strict"]),
    "another value, joined": (["--pass-env=all"], SAFE, ["--pass-env=safe"]),
    "the same": ([*SAFE], SAFE, [*SAFE]),
    "a switch that is there": (["--strict"], ("--strict",), ["--strict"]),
    "a variable": (["--env", "A=host"], ("--env", "B=cwd"), ["--env", "A=host", "--env", "B=cwd"]),
    "the same variable": (["--env", "A=host"], ("--env", "A=cwd"), ["--env", "A=cwd"]),
    "a file": (["--dotenv", "a"], ("--dotenv", "b"), ["--dotenv", "a", "--dotenv", "b"]),
    "a value like an option": ([], ("--cwd=-x",), ["--cwd=-x"]),
}


@pytest.mark.parametrize(("own", "wanted", "expected"), OWN.values(), ids=list(OWN))
@pytest.mark.parametrize("rest", [["--", "npx", "-y"], ["npx", "--strict"], ["--"], []])
def test_an_entry_gets(
    own: list[str], wanted: tuple[str, ...], expected: list[str], rest: list[str]
) -> None:
    words = ["run", "--server", "a", *own, *rest]
    text = json.dumps({"mcpServers": {"a": {"command": "mcp-launch", "args": words}}})

    after = change("json", text, Wish(LAUNCHER, options=wanted))

    assert read_args(after) == ["run", "--server", "a", *expected, *rest]


def test_comments_and_lines_between_the_words_stay() -> None:
    text = """\
[mcp_servers.a]
command = "mcp-launch"
args = [
    "run", # it
    "--cwd", "keep",
    # the server
    "--", "npx",
]
"""
    after = change("toml", text, Wish(LAUNCHER, options=("--cwd", "/", "--strict")))

    assert after == text.replace('"keep"', '"/"').replace(
        '"--", "npx"', '"--server", "a", "--strict", "--", "npx"'
    )


def test_an_entry_that_is_invalid_is_unchanged() -> None:
    text = '{"mcpServers": {"a": {"command": "mcp-launch", "args": ["run", "--cwdd", "x"]}}}'

    assert change("json", text, Wish(LAUNCHER, options=SAFE)) == text


@pytest.mark.parametrize(
    "own",
    [
        ["--quiet", "npx", "--", "x"],
        ["--quiet", "npx", "-y", "--", "x"],
        ["--server", "a", "--novel", "user", "--", "npx"],
        ["--server", "a", "--novel", "npx", "-y", "--", "x"],
        ["--server", "a", "--novel", "user", "npx"],
        ["--server", "a", "--novel", "user", "npx", "--", "x"],
        ["--server", "a", "--novel", "user", "--"],
        ["--novel"],
    ],
)
def test_an_entry_whose_command_nobody_can_tell_stays_and_is_ours(own: list[str]) -> None:
    entry = {"command": "mcp-launch", "args": ["run", *own]}
    text = json.dumps({"mcpServers": {"a": entry}})
    file = File("file", "user", "json", SERVERS)

    [looked] = look(ANY_HOST, file, text, Wish("")).entries

    assert change("json", text, Wish("")) == text
    assert "unknown option --" in looked.why_not
    assert planned_changes.holds_ours(ANY_HOST, file, text)


def test_an_entry_that_was_wrapped_without_a_name_gets_one() -> None:
    text = '{"mcpServers": {"a": {"command": "mcp-launch", "args": ["run", "--", "x"]}}}'

    after = change("json", text, Wish(LAUNCHER))

    assert read_args(after) == ["run", "--server", "a", "--", "x"]
    assert change("json", after, Wish(LAUNCHER)) == after


@pytest.mark.parametrize("own", [[], ["--no-log"], ["--cwd", "keep"], ["--server", "b"], ["--"]])
@pytest.mark.parametrize("host", ["claude", "cursor"])
def test_an_entry_whose_command_is_elsewhere_changes_only_as_asked(
    host: str, own: list[str]
) -> None:
    entry = {"command": "mcp-launch", "args": ["run", *own]}
    text = json.dumps({"mcpServers": {"a": entry}})
    file = File("file", "user", "json", SERVERS)

    for wish in (Wish("mcp-launch"), Wish("")):
        looked = look(HOSTS[host], file, text, wish)
        assert looked.after == text
        assert [one.why_not for one in looked.entries] == ["its command is in a profile"]

    asked = look(HOSTS[host], file, text, Wish("mcp-launch", options=("--strict",))).after
    rest = own.copy()
    rest.insert(len(own) - ("--" in own), "--strict")
    assert read_args(asked) == ["run", *rest]
    assert look(HOSTS[host], file, asked, Wish("")).after == asked


def test_a_name_that_was_given_is_kept() -> None:
    for entry in (
        {"command": "mcp-launch", "args": ["run", "--server", "other", "--", "x"]},
        {"command": "mcp-launch", "args": ["run", "x"], "env": {"MCP_LAUNCH_SERVER": "other"}},
    ):
        text = json.dumps({"mcpServers": {"a": entry}})

        assert change("json", text, Wish(LAUNCHER)) == text


# A server's name in a host's file, and the words that give it to us.
NAMES = {
    "docs": ["--server", "docs"],
    "io.github.me/docs": ["--server", "io.github.me/docs"],
    'a b\'s "c"': ["--server", 'a b\'s "c"'],
    "\u00e4\n": ["--server", "\u00e4\n"],
    "-h": ["--server=-h"],
    "--": ["--server=--"],
    "--server": ["--server=--server"],
    "": [],
    "${HOME}": [],  # Claude Code does not start a server for whose argument there is no value
    "{env:A}": [],
    "a\0b": [],
    "\ud800": [],
}


@pytest.mark.parametrize(("name", "words"), NAMES.items())
def test_a_server_is_named(name: str, words: list[str]) -> None:
    text = json.dumps({"mcpServers": {name: {"command": "x"}}})

    after = change("json", text, Wish(LAUNCHER))

    args = json.loads(after)["mcpServers"][name]["args"]
    assert args == ["run", *words, "x"]
    given, command = options.split(args[1:])
    assert (given.get("--server", []), command) == ([name] if words else [], ["x"])
    assert change("json", after, Wish("")) == text


@given(name=st.text(max_size=8))
def test_any_name_is_given_as_it_is_or_not_at_all(name: str) -> None:
    given, rest = options.split([*run_options.name_server(name), "--", "x"])

    assert given.get("--server", [name]) == [name]
    assert rest == ["x"]
