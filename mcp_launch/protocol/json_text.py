"""JSON without the `json` package, whose import costs half a Python start.

CPython's own scanner and string encoder are in C and stand behind `json`; we use
them as `json` does. Another Python, or one without them, gets `json` itself.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Scan = Callable[[str, int], tuple["Json", int]]
    Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None
    Message = dict[str, Json]

try:
    from _json import encode_basestring_ascii, make_scanner, scanstring
except ImportError:
    from json.decoder import scanstring  # type: ignore[attr-defined,no-redef]
    from json.encoder import encode_basestring_ascii
    from json.scanner import make_scanner

WHITESPACE = " \t\n\r"

# How Python names a number that is too large for a float, and one that reads as it.
_NOT_FINITE = {"inf": "1e999", "-inf": "-1e999", "nan": "NaN"}


class _Leniency:
    """What the scanner wants to be told; the names are its own."""

    strict = False  # a raw control character in a string is the server's business, not ours
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_constant = float
    parse_int: Callable[[str], int | str] = int
    memo: dict[str, str] = {}  # noqa: RUF012  # only json's own scanner in Python looks at it


class Digits(str):
    """A whole number that is too long for Python to make an int of it, as it was written."""

    __slots__ = ()


def _read_any_int(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # Python's own limit: 4,300 digits
        return Digits(digits)


class _AnyNumber(_Leniency):
    parse_int = staticmethod(_read_any_int)


# The stub takes the scanner's settings for a scanner.
scan: Scan = make_scanner(_Leniency())  # type: ignore[arg-type]
_scan_any_number: Scan = make_scanner(_AnyNumber())  # type: ignore[arg-type]


def parse(line: bytes) -> Json:
    """Return the value that a line holds.

    Lenient where a message is readable all the same: bytes that are no UTF-8, control
    characters, numbers too long for an int (they come back as `Digits`).

    Raises:
        ValueError: The line is no JSON.

    """
    # Surrogates stand for bytes that are no UTF-8.
    text = line.decode("utf-8", "surrogateescape")
    try:
        value, end = scan(text, 0)
        if end + 1 == len(text) and text[end] == "\n":
            return value  # by far the most common: nothing before it, one newline behind
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
    """Return where the value that begins at `start` ends; it must be whole."""
    return _scan_any_number(text, start)[1]


def read_value(text: str, start: int) -> Json:
    """Return the value that begins at `start`."""
    try:
        return scan(text, start)[0]
    except ValueError:
        return _scan_any_number(text, start)[0]


def _parse_with(scanner: Scan, text: str) -> Json:
    try:
        value, end = scanner(text, 0)
    except (StopIteration, SystemError):
        # The scanner wants to raise an error that `json` defines; as long as nobody has
        # imported that, Python (3.11) says SystemError: "returned NULL without …".
        message = "no JSON value"
        raise ValueError(message) from None
    if end != len(text):
        message = "more than one JSON value"
        raise ValueError(message)
    return value


def encode(value: object) -> str:
    """Return a value as JSON in one line, ASCII only."""
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
