"""Into a host's file and out again: the same to the byte, and only the command's words differ."""

from __future__ import annotations

import json
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
import tomlkit
import yaml
from host_files import GOOSE, LAUNCHER, SERVERS, TEXTS, TOML
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.config_files.host_config import File, HostConfig
from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.config_files.wrap import Shape
from mcp_launch.documents import jsonc

if TYPE_CHECKING:
    from mcp_launch.config_files.planned_changes import Change
    from mcp_launch.documents.document import Kind


SAFE = ("--pass-env", "safe")
OTHERS = ("--pass-env=all", "--strict")


def change(kind: Kind, text: str, shape: Shape, *options: str, launcher: str = LAUNCHER) -> Change:
    """Wrap all, or unwrap all."""
    host = HostConfig("any", "any", lambda _: [], (shape,))
    return look(host, File("file", "user", kind, SERVERS), text, Wish(launcher, options=options))


def check(kind: Kind, text: str, shape: Shape) -> str:
    """Wrap a file, wrap it again, and unwrap it."""
    plain = change(kind, text, shape)
    again = change(kind, plain.after, shape)
    assert again.after == plain.after
    for before, after in zip(plain.entries, again.entries, strict=True):
        words, longer = before.words, after.words
        assert longer[:2] == [LAUNCHER, "run"]
        assert longer[-len(words) :] == words
        assert ("--" in longer) == any(word == "--" or words[0][:1] == "-" for word in words)
    assert change(kind, plain.after, shape, launcher="").after == text
    return plain.after


def read(kind: Kind, text: str) -> Any:
    """Read a file as others do, where there are others."""
    if kind == "toml":
        return tomlkit.parse(text.removeprefix("\ufeff")).unwrap()
    return yaml.safe_load(text) if kind == "yaml" else jsonc.read(text)[0]


def test_sources_that_codex_refuses_become_options() -> None:
    wrapped = check("toml", TOML["refused sources"], Shape())

    entry = tomllib.loads(wrapped)["mcp_servers"]["a"]
    own = ["--server", "a", "--env", "CODEX_THREAD_ID=thread"]
    assert entry["args"] == ["run", *own, "x"]
    assert entry["env_vars"] == ["HOME"]


STRANGE = {
    "args is null": ("json", '{"mcpServers": {"a": {"command": "x", "args": null}}}'),
    "args is a text": ("json", '{"mcpServers": {"a": {"command": "x", "args": "y"}}}'),
    "args is a number": ("toml", '[mcp_servers.a]\ncommand = "x"\nargs = 5\n'),
    "args with a number": ("json", '{"mcpServers": {"a": {"command": "x", "args": ["y", 5]}}}'),
    "no command": ("json", '{"mcpServers": {"a": {"args": ["y"]}}}'),
    "an escaped key": ("json", '{"mcpServers": {"a": {"\\u0063ommand": "x"}}}'),
    "an entry that is another's": (
        "yaml",
        "extensions:\n  a: &o\n    type: stdio\n    cmd: x\n    args: [y]\n  b: *o\n",
    ),
    "variables that are another's": (
        "yaml",
        "extensions:\n  a: {cmd: x, args: [], envs: &e {A: b}}\n  b: {cmd: y, envs: *e}\n",
    ),
    "an alias": ("yaml", "extensions:\n  a: {cmd: x, args: &A [y]}\n  b: {cmd: z, args: *A}\n"),
    "a comma in a plain word": ("yaml", "extensions:\n  a: {type: stdio}\n  b:\n    cmd: p,q\n"),
    "a text in lines": ("yaml", "extensions:\n  a:\n    cmd: |-\n      x\n    args: [y]\n"),
    "a source that is none": (
        "toml",
        '[mcp_servers.a]\ncommand = "x"\nenv_vars = [{ name = "T", source = "bogus" }]\n',
    ),
    "a variable with a default": (
        "toml",
        'mcp_servers.a = { command = "x", env_vars = [{name="T",source="cwd",default=""}] }\n',
    ),
}


@pytest.mark.parametrize("name", list(STRANGE))
def test_what_cannot_be_changed_safely_is_unchanged_or_changed_correctly(name: str) -> None:
    kind, text = STRANGE[name]
    host = HostConfig("any", "any", lambda _: [], (Shape(), GOOSE))
    file = File("file", "user", kind, SERVERS)  # type: ignore[arg-type]

    change = look(host, file, text, Wish(LAUNCHER))

    # Whatever was done can be read, means the same otherwise, and can be taken back.
    assert look(host, file, change.after, Wish("")).after == text
    assert look(host, file, change.after, Wish(LAUNCHER)).after == change.after


def test_a_variable_that_was_added_meanwhile_is_not_lost() -> None:
    file = File("file", "user", "toml", SERVERS)
    host = HostConfig("any", "any", lambda _: [])
    wrapped = look(host, file, TOML["refused sources"], Wish(LAUNCHER)).after
    grown = wrapped.replace('"HOME"]', '"HOME", "NEW"]')
    assert grown != wrapped

    change = look(host, file, grown, Wish(""))

    assert change.after == grown
    assert change.entries[0].why_not == "it is written in a way that cannot be changed safely"


def test_keys_between_a_command_and_its_arguments_survive() -> None:
    entry = {"command": "mcp-launch", "env": {"K": "v"}, "args": ["run", "--", "npx"]}
    for keys in (list(entry), list(reversed(entry))):
        value = {"mcpServers": {"a": {key: entry[key] for key in keys}}}
        text = json.dumps(value, separators=(",", ":"))

        after = json.loads(change("json", text, Shape(), launcher="").after)["mcpServers"]["a"]

        assert after == {"command": "npx", "env": {"K": "v"}, "args": []}


@pytest.mark.parametrize(("kind", "text", "shape"), TEXTS.values(), ids=list(TEXTS))
def test_a_file_is_the_same_after_it_was_wrapped_with_any_options_and_unwrapped(
    kind: Kind, text: str, shape: Shape
) -> None:
    plain = check(kind, text, shape)

    given = change(kind, text, shape, *SAFE).after
    others = change(kind, given, shape, *OTHERS).after
    for wrapped in (plain, given):
        assert change(kind, wrapped, shape, *SAFE).after == given
    assert "--pass-env" in given
    assert "--strict" in others
    assert "safe" not in others
    for wrapped in (plain, given, others):
        assert LAUNCHER in json.dumps(read(kind, wrapped), default=str)
        assert change(kind, wrapped, shape, launcher="").after == text


gap = st.sampled_from(["", " ", "\n    ", "\n", " // it's\n", "/* , ] */"])
word = st.text(min_size=1, max_size=5).filter(lambda text: "\0" not in text)


@st.composite
def json_files(draw: st.DrawFn) -> str:
    """Return a file with some servers, spelled somehow."""

    def put() -> str:
        text: str = draw(gap)
        return text

    entries = []
    for number in range(draw(st.integers(1, 3))):
        members = [f'"command"{put()}:{put()}{json.dumps(draw(word))}']
        words: list[str] | None = draw(st.none() | st.lists(word, max_size=3))
        if words is not None:
            spelled = ",".join(put() + json.dumps(one) + put() for one in words)
            trailing = draw(st.sampled_from(["", ","])) if words else put()
            members.append(f'"args":{put()}[{spelled}{trailing}]')
        if draw(st.booleans()):
            members.append(f'"env":{put()}{{"command": "no"}}')
        shuffled: list[str] = draw(st.permutations(members))
        joined = ",".join(put() + one + put() for one in shuffled)
        entries.append(f'"s{number}":{put()}{{{joined}}}')
    return f'{{{put()}"mcpServers":{put()}{{{",".join(entries)}{put()}}}}}{put()}'


@given(json_files())
def test_any_json_file_is_the_same_after_it_was_wrapped_and_unwrapped(text: str) -> None:
    check("json", text, Shape())


toml_word = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), min_size=1, max_size=5)
toml_gap = st.sampled_from(["", " ", "\n  ", " # it's ]\n"])


@st.composite
def toml_files(draw: st.DrawFn) -> str:
    """Return a file with some servers, spelled somehow."""

    def spell(one: str) -> str:
        quotes = "'" if "'" not in one and draw(st.booleans()) else ""
        return f"'{one}'" if quotes else json.dumps(one, ensure_ascii=False)

    text = ""
    for number in range(draw(st.integers(1, 3))):
        end = draw(st.sampled_from(["\n", "\r\n", " # why\n", "\n\n"]))
        lines = [f"command = {spell(draw(toml_word))}"]
        words: list[str] | None = draw(st.none() | st.lists(toml_word, max_size=3))
        if words is not None:
            spelled = ",".join(str(draw(toml_gap)) + spell(one) for one in words)
            lines.append(f"args = [{spelled}{draw(toml_gap)}]")
        if draw(st.booleans()):
            lines.append('env_vars = ["A", { name = "B", source = "thread" }]')
        shuffled: list[str] = draw(st.permutations(lines))
        if draw(st.booleans()):
            text += f"[mcp_servers.s{number}]{end}" + "".join(line + end for line in shuffled)
        else:
            dotted = "".join(f"mcp_servers.s{number}.{line}{end}" for line in shuffled)
            text = dotted + text
    return text


@given(toml_files())
def test_any_toml_file_is_the_same_after_it_was_wrapped_and_unwrapped(text: str) -> None:
    check("toml", text, Shape())
