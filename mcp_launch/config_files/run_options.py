"""The options of `run` as words in a host's file: read, compare and merge them."""

from __future__ import annotations

from typing import NamedTuple

from mcp_launch.errors import UsageError
from mcp_launch.launch import options, profile, sharing

# What hosts expand in arguments, or refuse to start a server with: ${NAME}, $NAME, {env:NAME}.
_REPLACED = ("$", "{")

_HOW = (
    "after -- write options of run, each with its value: "
    "mcp-launch wrap [SERVER...] -- --pass-env safe (mcp-launch run --help lists them)"
)


class _Given(NamedTuple):
    """One option, and the index of the word with its value."""

    name: str
    value: str  # empty: it is a switch
    at: int
    is_joined: bool  # --name=value

    @property
    def key(self) -> tuple[str, str]:
        """Return a key that is equal for options that replace each other."""
        if self.name in {"--env", "--set"}:
            return self.name, self.value.partition("=")[0]
        return self.name, self.value if self.name in options.MAY_REPEAT else ""

    def spell(self) -> list[str]:
        """Return the option as words; a value that looks like an option is joined to its name."""
        if not self.value:
            return [self.name]
        if self.value.startswith("-"):
            return [f"{self.name}={self.value}"]
        return [self.name, self.value]


class Difference(NamedTuple):
    """What to change in the words of `run` to add other options."""

    replaced: dict[int, str]  # by index
    added: list[str]
    end: int  # where the options end: at "--", the server's command, or the last word


def name_server(name: str) -> list[str]:
    """Return the option that names a server; empty for a name that cannot be an argument."""
    is_replaced = any(sign in name for sign in _REPLACED)
    is_text = name.isprintable() or not (set(name) & {"\0"} or _has_surrogates(name))
    if not name or is_replaced or not is_text:
        return []
    return _Given("--server", name, 0, is_joined=False).spell()


def check(words: list[str]) -> None:
    """Check that words are options of `run` that `wrap` can write.

    Raises:
        UsageError: They are not.

    """
    try:
        given, rest = options.split(words)
    except UsageError as error:
        # Its fix is for a whole launch; only the suggestion applies here.
        raise UsageError(error.problem, fix=error.suggestion + _HOW) from None
    if rest:
        raise UsageError(f"{rest[0]} is not an option of run", fix=_HOW)
    if "--server" in given:
        raise UsageError(
            "wrap writes --server itself, with the name of each entry",
            fix="leave out --server",
        )
    sharing.check(profile.read_options(words))


def join(own: list[str], wanted: list[str]) -> list[str]:
    """Return both lists of options merged; the second takes precedence."""
    found = compare(own, wanted)
    return [*(found.replaced.get(at, word) for at, word in enumerate(own)), *found.added]


def compare(own: list[str], wanted: list[str]) -> Difference:
    """Return what to change in the words after `run` to add the wanted options.

    Raises:
        UsageError: The words are invalid.

    """
    options.split(own)
    given, end = _read(own)
    known = {one.key: one for one in given}
    replaced: dict[int, str] = {}
    added: dict[tuple[str, str], list[str]] = {}
    for one in _read(wanted)[0]:
        before = known.get(one.key)
        if before is None:
            added[one.key] = one.spell()
        elif before.value != one.value:
            is_joined = before.is_joined
            replaced[before.at] = f"{one.name}={one.value}" if is_joined else one.value
    return Difference(replaced, [word for words in added.values() for word in words], end)


def has(own: list[str], option: str) -> bool:
    """Return whether an option is among the words after `run`."""
    return any(one.name == option for one in _read(own)[0])


def list_command(words: list[str]) -> list[str]:
    """Return the server's command from the words after `run`; empty if they have none.

    Raises:
        UsageError: The words are invalid.

    """
    return options.split(words)[1]


def _read(words: list[str]) -> tuple[list[_Given], int]:
    """Return the options among valid words, and the index at which they end."""
    given = []
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-", "--"}:
        name, equals, value = words[at].partition("=")
        if name in options.SWITCHES:
            given.append(_Given(name, "", at, is_joined=False))
        elif equals:
            given.append(_Given(name, value, at, is_joined=True))
        else:
            at += 1
            given.append(_Given(name, "".join(words[at : at + 1]), at, is_joined=False))
        at += 1
    return given, at


def _has_surrogates(text: str) -> bool:
    return any("\ud800" <= one <= "\udfff" for one in text)
