"""Any file of a host that has a list of servers: wrapped and unwrapped, it is what it was."""

from __future__ import annotations

import json
from typing import Any

import pytest
import tomlkit
import yaml
from host_files import LAUNCHER
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.config_files.site import Site
from mcp_launch.hosts.configured import HOSTS

TEXTS = st.one_of(
    st.sampled_from(["npx", "-y", "--", "", "a b", "it's", 'a"b', "# c", "- x", "a: b", "{}", "~"]),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
)

ENTRIES = st.fixed_dictionaries(
    {"command": TEXTS},
    optional={
        "name": TEXTS,
        "args": st.lists(TEXTS, max_size=3),
        "env": st.dictionaries(TEXTS, TEXTS, max_size=2),
        "enabled": st.booleans(),
    },
)


def write_yaml(servers: object, random: Any) -> str:
    return yaml.safe_dump(
        {"a": 1, "mcpServers": servers, "z": ["x"]},
        default_flow_style=random.choice([True, False, None]),
        allow_unicode=random.choice([True, False]),
        sort_keys=random.choice([True, False]),
        indent=random.choice([2, 4]),
        width=random.choice([20, 80, 1000]),
    )


def write_toml(servers: list[dict[str, Any]], random: Any) -> str:
    if random.choice([True, False]):
        return tomlkit.dumps({"a": 1, "mcp_servers": servers, "z": {"x": 1}})
    written = ", ".join(tomlkit.item(one, _parent=tomlkit.array()).as_string() for one in servers)
    return f"mcp_servers = [{written}]\n"


def write_json(servers: list[dict[str, Any]], random: Any) -> str:
    named = {str(one.get("name", number)): one for number, one in enumerate(servers)}
    text = json.dumps(
        {"a": 1, "mcpServers": named, "z": []},
        indent=random.choice([None, 0, 2, "\t"]),
        ensure_ascii=random.choice([True, False]),
    )
    ending: str = random.choice(["", "\n", " // the end"])
    return text + ending


FORMATS: dict[str, Any] = {"continue": write_yaml, "vibe": write_toml}
FORMATS |= dict.fromkeys(("qwen", "kimi"), write_json)


@pytest.mark.parametrize("name", list(FORMATS))
@given(servers=st.lists(ENTRIES, max_size=3), random=st.randoms(use_true_random=False))
def test_unwrapping_undoes_wrapping(name: str, servers: list[dict[str, Any]], random: Any) -> None:
    host = HOSTS[name]
    file = host.list_files(Site("/nowhere", "/nowhere/project", {}))[0]
    text = FORMATS[name](servers, random)
    text = random.choice(["", "\ufeff"]) + random.choice([text, text.replace("\n", "\r\n")])

    change = look(host, file, text, Wish(LAUNCHER))

    assert bool(change.entries) == bool(servers)
    again = look(host, file, change.after, Wish(LAUNCHER))
    assert again.after == change.after
    for before, after in zip(change.entries, again.entries, strict=True):
        own = len(after.words) - len(before.words)
        assert before.why_not or after.words[own:] == before.words
        assert before.why_not or after.words[0] == LAUNCHER
    assert look(host, file, change.after, Wish("")).after == text
