"""Secrets in files that Git tracks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mcp_launch import masking
from mcp_launch.config_files import git_tracking
from mcp_launch.doctor.finding import Finding
from mcp_launch.launch import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.git_tracking import Answer
    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.survey import Item, Survey

_HEADERS = ("headers", "http_headers", "requestOptions")
_ADDRESSES = ("url", "serverUrl", "httpUrl", "uri")

_ENDING = re.compile(environment.AT_THE_END, re.IGNORECASE)

# Placeholders for a secret: a variable, or words that ask for one.
_PLACEHOLDER = re.compile(
    r"""\$\{|\{env:|\{\{|(?:^|\s)\$\w+$|^%\w+%$|^<.*>$|^\[.*\]$|^\W*$
    |your|xxx|change.?me|replace|insert|placeholder|example(?!\.)|dummy|todo|redacted|\.\.\.
    |:(?:pass|password|postgres|root|secret)@""",
    re.IGNORECASE | re.VERBOSE,
)

# Values that are not secrets despite their name: a number, a path, a few letters.
_PLAIN = re.compile(r"[\d.]+|[.~]?/.*|.{0,5}", re.DOTALL)
_CHOSEN_BY_PEOPLE = re.compile(environment.CHOSEN_BY_PEOPLE, re.IGNORECASE)

# An assignment among the arguments: --api-key=…, TOKEN=…, "Authorization: …".
_ASSIGNMENT = re.compile(r"(-*[\w.-]+)\s*[=:]\s*(.+)", re.DOTALL)


def check_secrets(survey: Survey) -> Iterator[Finding]:
    """Find literal secrets in files that Git tracks (ML111)."""
    known: dict[str, Answer] = {}
    for item in survey.items:
        for keys, name in _list_secrets(item):
            path = item.file.path
            if path not in known:
                known[path] = git_tracking.judge(path)
            if known[path] != "no":
                may = "" if known[path] == "yes" else " may track (it could not be asked)"
                yield Finding(
                    "ML111",
                    item.point(*keys),
                    f"{name} of '{item.name}' is in plain text in a file that "
                    f"Git{may or ' tracks'}",
                    _explain(item, name),
                )


def _list_secrets(item: Item) -> Iterator[tuple[Path, str]]:
    """Return the paths of secrets, and what to call them."""
    for name, text in item.variables.items():
        if _is_secret(name, text):
            yield ("env", name), name
    for table in _HEADERS:
        headers = item.entry.get(table)
        for name, text in headers.items() if isinstance(headers, dict) else ():
            if _is_secret(str(name), str(text)):
                yield (table, name), f"the header {name}"
    for key in _ADDRESSES:
        address = item.entry.get(key)
        if isinstance(address, str) and _is_secret("", address):
            yield (key,), "a secret in the address"
    yield from _list_in_words(item)


def _list_in_words(item: Item) -> Iterator[tuple[Path, str]]:
    for at, (before, word) in enumerate(zip(["", *item.words], item.words, strict=False)):
        keys: Path = ("args", at - 1) if at else ("command",)
        assigned = _ASSIGNMENT.fullmatch(word)
        if assigned and _is_secret(assigned[1], assigned[2]):
            yield keys, assigned[1]
        elif re.fullmatch(r"-+[\w-]+", before) and _is_secret(before, word):
            yield keys, before
        elif _is_secret("", word):
            yield keys, "a secret in the arguments"


def _is_secret(name: str, text: str) -> bool:
    if _PLACEHOLDER.search(text):
        return False
    if masking.looks_secret(text):
        return True
    is_named = masking.is_secret_name(name) and bool(_ENDING.search(name))
    # Keys of tables and maps are words; a generated secret has digits.
    is_likely = bool(_CHOSEN_BY_PEOPLE.search(name) or re.search(r"\d", text))
    return is_named and is_likely and not _PLAIN.fullmatch(text) and text[0] != "-"


def _explain(item: Item, name: str) -> str:
    variable = name if name.isidentifier() else "NAME"
    title, texts = item.host.title, item.host.quirks.texts
    if texts.question:
        way = f"write {texts.question} instead, so that {title} asks for it"
    elif texts.borrow:
        way = f"set it where {title} is started, and write {texts.borrow.format(variable)} instead"
    elif item.host.quirks.environment.has_env_vars:
        way = f'set it where {title} is started, and write env_vars = ["{variable}"] instead'
    else:
        way = "move it to the environment, or to a file that Git ignores"
    return f"revoke it if it was ever committed (Git's history keeps it), then {way}"


OF_ALL = (check_secrets,)
