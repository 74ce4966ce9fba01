"""YAML anchors and aliases: text that is written once and used in several places."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mcp_launch.documents.yaml_aliases import copy_without, list_sharing

if TYPE_CHECKING:
    from mcp_launch.documents.positions import Path


def test_a_part_that_is_dropped_in_one_place_stays_in_the_others() -> None:
    shared = {"cmd": "x", "args": []}
    value = {"a": shared, "b": shared}

    assert copy_without(value, [("a", "args")]) == {"a": {"cmd": "x"}, "b": shared}
    assert value["a"] == {"cmd": "x", "args": []}


def test_a_path_that_leads_nowhere_drops_nothing() -> None:
    value = {"a": {"b": 1}, "c": "text"}

    assert copy_without(value, [("x", "y"), ("c", "d"), ("a", "z"), ("q",)]) == value


def test_a_document_that_would_outgrow_any_memory_is_refused() -> None:
    value: object = "x"
    for _ in range(8):
        value = [value] * 10

    with pytest.raises(ValueError, match="too many parts"):
        copy_without(value, [])


def test_a_document_that_holds_itself_is_refused() -> None:
    value: dict[str, object] = {}
    value["self"] = value

    with pytest.raises(RecursionError):
        copy_without(value, [])


def test_entries_that_share_a_part_are_named_with_each_other() -> None:
    args, env = ["-y"], {"A": "b"}
    entries: dict[Path, list[object]] = {
        ("a",): [args],
        ("b",): [args, env],
        ("c",): [env, "text"],
        ("d",): [["-y"], "text"],
    }

    assert list_sharing(entries) == {
        ("a",): [("b",)],
        ("b",): [("a",), ("c",)],
        ("c",): [("b",)],
    }
