"""The types that a key of an entry may have: a test, and a name for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Kind(NamedTuple):
    """A type, in words and as a test."""

    title: str
    fits: Callable[[Any], bool]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _is_list_of_strings(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_table_of_strings(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(one, str) for one in value.values())


def choose(*choices: str) -> Kind:
    """Return the type for one of several words."""
    return Kind(f"one of {', '.join(choices)}", lambda value: value in choices)


def choose_several(*choices: str) -> Kind:
    """Return the type for a list of such words."""
    return Kind(
        f"a list of {', '.join(choices)}",
        lambda value: isinstance(value, list) and all(one in choices for one in value),
    )


def tabulate(title: str, **kinds: Kind) -> Kind:
    """Return the type for a table in which these keys, if present, have these types."""
    return Kind(
        title,
        lambda value: (
            isinstance(value, dict)
            and all(kinds[key].fits(one) for key, one in value.items() if key in kinds)
        ),
    )


STRING = Kind("a string", lambda value: isinstance(value, str))
STRINGS = Kind("a list of strings", _is_list_of_strings)
NAMED_STRINGS = Kind("a table of strings", _is_table_of_strings)
LIST = Kind("a list", lambda value: isinstance(value, list))
SWITCH = Kind("true or false", lambda value: isinstance(value, bool))
NUMBER = Kind("a number of at least 0", _is_number)
WHOLE = Kind(
    "a whole number of at least 0",
    lambda value: _is_number(value) and isinstance(value, int),
)
