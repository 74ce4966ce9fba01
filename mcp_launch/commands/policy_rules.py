"""What the policies of a profile demand, as rules that a person can read, with secrets masked."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.launch.profile_tables import Table


class PolicyRule(NamedTuple):
    """One rule: what it is about, and what it demands."""

    about: str  # the tools, or an argument
    demand: str

    def __str__(self) -> str:
        """Return the rule in one line."""
        return f"{self.about} {self.demand}"


def list_rules(policies: Mapping[str, Any]) -> Iterator[PolicyRule]:
    """Return the rules of one table of a profile."""
    for key, patterns in (policies["tools"] or {}).items():
        yield PolicyRule("tools", f"{key} {' '.join(patterns)}".rstrip())
    yield from _list_pins(policies["arguments"] or {}, "")
    for tool, pins in (policies["arguments_of"] or {}).items():
        yield from _list_pins(pins, f" of {tool}")


def _list_pins(pins: Mapping[str, Any], whose: str) -> Iterator[PolicyRule]:
    for name, pin in pins.items():
        yield PolicyRule(f"argument {name}{whose}", _tell_demand(pin))


def _tell_demand(pin: Mapping[str, Any]) -> str:
    if "value" in pin:
        return f"is {json.dumps(pin['value'], ensure_ascii=False)}"
    return f"inside {pin['inside']}"


def mask(policies: dict[str, Any]) -> dict[str, Any]:
    """Return policies with the secrets in them masked: a fixed value may be one."""
    from mcp_launch import masking

    return masking.Scrubber(masking.list_in_value(policies)).clean_sent(policies)


def list_in_force(tables: Mapping[str, Table]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the policies that apply to a server, each with the place that sets it.

    The more important table comes first: it replaces the other, key by key.
    """
    seen: set[str] = set()
    for place, table in tables.items():
        own = {key: None if key in seen else one for key, one in table.policies.items()}
        seen |= {key for key, one in own.items() if one is not None}
        if any(one is not None for one in own.values()):
            yield place, own
