"""What of a server's answers must not be remembered: memory tells it to other sessions.

An answer is not kept if it contains a secret: the value of a variable that is named like one, or
what `masking` knows by its form, among the values of variables, the arguments, and in the answer.

Nor is it kept if it contains a value that belongs to one session, terminal or login. That is
the value of any variable that the name of a memory leaves out, or has in another form. But many
such values are ordinary words, and a server that names one must not lose its memory:

* A value has at least four characters, and is not a plain word or `_KINDS`; unless the user asked
  for a variable that is each session's own: there, an id may be anything.
* One that the name covers (the directory of every session in it) tells nothing.
* Up to 16 characters, it counts only as a whole word.

Values are searched in the texts as a host gets them, and in what those texts spell with
percent signs or backslashes. What a server makes of a value (a hash, a part) is not recognised,
except for the first group of a UUID, by which sessions are often called.

Imported only to remember something new.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.protocol import json_text
from mcp_launch.state.handshakes import is_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from mcp_launch.protocol.json_text import Json

# Variables that say what kind of terminal or session this is, or what came before: many sessions
# have the same, and a server may well name it.
_KINDS = {
    *("COLORFGBG", "COLORTERM", "COLUMNS", "LINES", "TERM", "TERM_PROGRAM", "TERM_PROGRAM_VERSION"),
    *("KONSOLE_VERSION", "LC_TERMINAL", "LC_TERMINAL_VERSION", "VTE_VERSION", "WT_PROFILE_ID"),
    *("XDG_SEAT", "XDG_SESSION_CLASS", "XDG_SESSION_DESKTOP", "XDG_SESSION_TYPE"),
    *("MCP_LAUNCH_HOST", "SHLVL", "_"),
}

# Shorter values occur in any text.
_SHORTEST = 4
_SHORTEST_SECRET = 6

# A longer value does not occur by chance, not even within a word.
_LONG = 16

_UUID = re.compile(r"[0-9a-f]{8}(?=-[0-9a-f]{4}-[0-9a-f]{4}-)", re.IGNORECASE)

# What stands in the place of a secret in an example, as a whole: a word for it, a placeholder, or
# one character again and again.
_EXAMPLE = re.compile(
    r"\W*(your|my|db|api|auth|access)?[-_ ]?(password|passwd|pass|pwd|token|secret|key)\W*"
    r"|.*EXAMPLE|\S*?(?P<blank>[x0*.])(?P=blank){5,}|[<{$].*|\.{3}.*",
    re.IGNORECASE,
)

_PERCENT = re.compile(r"(?:%[0-9a-fA-F]{2})+")
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)


class Told(NamedTuple):
    """What the name of a memory covers."""

    argv: list[str]
    cwd: str
    variables: Mapping[str, str]
    of_session: Collection[str] = ()  # left out: the variables of a session, by their source


def find(answers: Iterable[bytes], variables: Iterable[tuple[str, str]], told: Told) -> str:
    """Return what forbids to keep the answers of a server; empty if they may be kept.

    `variables` are those of all servers of this launch, with their values.
    """
    try:
        texts = "\n".join(text for answer in answers for text in _list_texts(answer))
    except (ValueError, RecursionError):
        return "what cannot be read"
    texts = "\n".join({texts, _unquote(texts), _ESCAPED.sub(_unescape, texts)})
    variables = sorted(variables)
    for name, value in _list_of_session(variables, told):
        if _occurs(value, texts):
            return f"the value of {name}, which another session does not have"
    for name, value in _list_secrets(variables, told.argv):
        if value in texts:
            return f"a secret: {name}"
    if any(not _is_example(one) for one in masking.list_by_form(texts)):
        return "a secret, by its form"
    return ""


def _is_example(secret: str) -> bool:
    """Return whether a text only shows what a secret looks like, as descriptions of tools do."""
    return bool(_EXAMPLE.fullmatch(secret))


def _list_of_session(variables: Iterable[tuple[str, str]], told: Told) -> Iterator[tuple[str, str]]:
    """Yield the values that belong to one session, with the names of their variables."""
    named = told.variables
    places = [told.cwd, os.path.realpath(told.cwd or "/")]
    covered = "\n".join([*told.argv, *places, *named.values()])
    for name, value in variables:
        if name in _KINDS or named.get(name) == value:
            continue
        parts = [value]
        if name == "PATH":
            # Only some of its directories are left out.
            known = named.get(name, "").split(os.pathsep)
            parts = [one for one in value.split(os.pathsep) if one not in known]
        for part in filter(None, parts):
            is_word = len(part) < _SHORTEST or (part.isalpha() and len(part) < _LONG)
            if is_word and name not in told.of_session:
                continue
            # A word may be in what is covered by chance.
            if is_word or not _occurs(part, covered):
                yield name, part
                if begins := _UUID.match(part):
                    yield name, begins.group()


def _list_secrets(
    variables: Iterable[tuple[str, str]], argv: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield the secrets that a server was given, with what is known of where each came from."""
    for name, value in variables:
        of_name = [value] if is_secret(name) else []
        of_form = masking.list_in_value(value, name)
        for one in (*of_name, *(one for one in of_form if not masking.is_common(one))):
            yield from ((f"the value of {name}", spelt) for spelt in _spell_secret(one))
    words = [*masking.list_in_words(argv), *_list_passwords(argv)]
    for one in (one for one in words if not masking.is_common(one)):
        yield from (("an argument", spelt) for spelt in _spell_secret(one))


def _list_passwords(argv: list[str]) -> Iterator[str]:
    """Yield what follows a user's name: it is masked only for curl, as it may also be a group."""
    for before, word in zip(["", *argv], argv, strict=False):
        option, equals, value = word.partition("=")
        if before in {"-u", "--user"}:
            yield word.partition(":")[2]
        elif equals and option == "--user":
            yield value.partition(":")[2]


def _spell_secret(secret: str) -> set[str]:
    """Return how a secret may be written: in a URL, it may be quoted. A path may be shown."""
    is_path = secret.startswith("/") and os.path.lexists(secret)
    spelt = {secret, _unquote(secret)}
    return set() if is_path else {one for one in spelt if len(one) >= _SHORTEST_SECRET}


def _occurs(value: str, text: str) -> bool:
    at = text.find(value)
    if len(value) >= _LONG:
        return at >= 0
    while at >= 0:
        end = at + len(value)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(value, at + 1)
    return False


def _list_texts(answer: bytes) -> Iterator[str]:
    """Yield all names, texts and numbers in an answer, and how it spells them."""
    yield answer.decode("utf-8", "surrogateescape")
    left: list[Json] = [json_text.parse(answer)]
    while left:
        value = left.pop()
        if isinstance(value, dict):
            left += [*value, *value.values()]
        elif isinstance(value, list):
            left += value
        elif value is not None:
            yield str(value)


def _unquote(text: str) -> str:
    return _PERCENT.sub(
        lambda found: bytes.fromhex(found.group().replace("%", "")).decode(
            "utf-8", "surrogateescape"
        ),
        text,
    )


def _unescape(found: re.Match[str]) -> str:
    return chr(int(found[1], 16)) if found[1] else found[2]
