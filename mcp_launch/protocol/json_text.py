"""JSON without the `json` package, whose import takes half as long as starting Python.

We call CPython's C scanner and string encoder directly, as `json` does. A Python without
them uses `json` itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Scan = Callable[[str, int], tuple["Json", int]]
    Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
    Object = dict[str, Json]

try:
    from _json import encode_basestring_ascii, make_scanner, scanstring
except ImportError:
    from json.decoder import scanstring  # type: ignore[attr-defined,no-redef]
    from json.encoder import encode_basestring_ascii
    from json.scanner import make_scanner

WHITESPACE = " \t\n\r"

# Python's names for floats that are not finite, and JSON that parses to the same.
_NOT_FINITE = {"inf": "1e999", "-inf": "-1e999", "nan": "NaN"}


class _Leniency:
    """The scanner's settings, under the names that it expects."""

    strict = False  # raw control characters in strings are up to the receiver, not to us
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_constant = float
    parse_int: Callable[[str], int | str] = int
    memo: dict[str, str] = {}  # noqa: RUF012  # only used by json's scanner in Python


class Digits(str):
    """An integer that is too long for Python's `int`, as it was written."""

    __slots__ = ()


def _read_any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # Python's own limit: 4,300 digits
        return Digits(digits)


class _AnyNumber(_Leniency):
    parse_int = staticmethod(_read_any_int)


# The type stub is wrong about the argument: these are settings.
scan: Scan = make_scanner(_Leniency())  # type: ignore[arg-type]
_scan_any_number: Scan = make_scanner(_AnyNumber())  # type: ignore[arg-type]


def parse(line: bytes) -> Json:
    """Return the JSON value of a line.

    Lenient where the message can still be read: invalid UTF-8, control characters, numbers
    too long for an int (returned as `Digits`).

    Raises:
        ValueError: The line is not JSON.

    """
    # Surrogates stand for bytes that are not UTF-8.
    text = line.decode("utf-8", "surrogateescape")
    try:
        value, end = scan(text, 0)
        if end + 1 == len(text) and text[end] == "\n":
            return value  # by far the most common case: just the value and a newline
    except (StopIteration, SystemError, ValueError):
        pass
    text = text.strip(WHITESPACE)
    try:
        return _parse_with(scan, text)
    except ValueError:
        return _parse_with(_scan_any_number, text)


def read_string(text: str, start: int) -> tuple[str, int]:
    """Return the string whose opening quote is at `start`, and where it ends."""
    return scanstring(text, start + 1, False)  # noqa: FBT003  # as lenient as the scanner


def find_end(text: str, start: int) -> int:
    """Return where the value at `start` ends; it must be complete."""
    return _scan_any_number(text, start)[1]


def read_value(text: str, start: int) -> Json:
    """Return the value at `start`."""
    try:
        return scan(text, start)[0]
    except ValueError:
        return _scan_any_number(text, start)[0]


def _parse_with(scanner: Scan, text: str) -> Json:
    try:
        value, end = scanner(text, 0)
    except (StopIteration, SystemError):
        # The scanner tries to raise an error that `json` defines. If `json` has not been
        # imported, Python 3.11 raises SystemError instead: "returned NULL without …".
        message = "no JSON value"
        raise ValueError(message) from None
    if end != len(text):
        message = "more than one JSON value"
        raise ValueError(message)
    return value


def encode(value: object) -> str:
    """Return a value as JSON on one line, ASCII only."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return str(value) if value.__class__ is Digits else encode_basestring_ascii(value)
    if isinstance(value, dict):
        members = (f"{encode(str(name))}:{encode(member)}" for name, member in value.items())
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(encode(element) for element in value) + "]"
    text = repr(value)  # int or float
    return _NOT_FINITE.get(text, text)
