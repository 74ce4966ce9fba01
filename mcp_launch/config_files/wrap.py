"""Put the launcher in front of a server's command in a host's file, and remove it again.

Only the words of the command change; the rest of the text stays. The old words are moved, not
written again, so that they can be restored byte for byte:

    [mcp_servers.docs]             [mcp_servers.docs]
    command = 'npx'                command = "/bin/mcp-launch"
    args = ["-y", "some"]          args = ["run", "--server", "docs", 'npx', "-y", "some"]

Where there were no arguments, a list is added; from how it is written, `unwrap` knows to remove
it (`list_style`).
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import entry_script, list_style, run_options
from mcp_launch.documents.document import Document
from mcp_launch.errors import UsageError
from mcp_launch.launch import options

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.documents.document import Edit
    from mcp_launch.documents.positions import Path

# Marks a list of variables that Codex would refuse; the original follows.
_KEPT = "# mcp-launch unwrap: "

SOURCES_OF_CODEX = ("local", "remote")


class Shape(NamedTuple):
    """Where an entry has the words of its command."""

    command: Path = ("command",)
    args: Path = ("args",)
    is_one_list: bool = False  # the command is the first element of the arguments


def is_wrapped(document: Document, entry: Path, shape: Shape) -> bool:
    """Return whether an entry goes through the launcher."""
    words = list_words(document, entry, shape)
    program = os.path.basename(words[0]).removesuffix(".exe") if words else ""
    return program == "mcp-launch" and words[1:2] == ["run"]


def list_words(document: Document, entry: Path, shape: Shape) -> list[str]:
    """Return the whole command of an entry; empty if it is missing or malformed."""
    command, args = document.get(entry + shape.command), document.get(entry + shape.args)
    if shape.is_one_list:
        # Mistral Vibe appends `args` to it; others have none.
        words = [*command, *(args or [])] if isinstance(command, list) else []
    else:
        has_args = entry + shape.args in document.spots
        words = [command, *args] if isinstance(args, list) else [] if has_args else [command]
    is_plain = isinstance(words, list) and all(isinstance(word, str) for word in words)
    return list(words) if is_plain else []


def names_program(words: list[str]) -> bool:
    """Return whether an entry has the path of the program itself, or a path that leads nowhere."""
    return os.path.isabs(words[0]) and not entry_script.is_script(words[0])


def is_launcher_misplaced(words: list[str], launcher: str) -> bool:
    """Return whether an entry should name another launcher.

    It has the path of the program; or a path of this machine, in a file that others get, too, and
    that should therefore name the launcher without a path.
    """
    needs_bare_name = not os.path.isabs(launcher) and os.path.isabs(words[0])
    return needs_bare_name or (words[0] != launcher and names_program(words))


def is_wrapped_otherwise(words: list[str]) -> bool:
    """Return whether another program starts the launcher: `uvx`, `pipx run`, `python -m`, `env`."""
    return find_run(words[1:]) is not None


def find_run(words: list[str]) -> int | None:
    """Return the index of the launcher's own arguments in a command; None if it has no launcher."""
    return next((at + 1 for at in _find_launchers(words) if words[at : at + 1] == ["run"]), None)


def find_missing_run(words: list[str]) -> int | None:
    """Return the index where the word `run` is missing in a command; None if it is not."""
    for at in _find_launchers(words):
        following = "".join(words[at : at + 1])
        name = following.partition("=")[0]
        is_ours = name in {*options.TAKE_A_VALUE, *options.SWITCHES, "--"}
        # Behind other words, `mcp-launch` may be an argument of theirs.
        if is_ours or (at == 1 and name not in {"", "run"}):
            return at
    return None


def add_run(document: Document, shape: Shape, words: list[str]) -> str:
    """Return how to write a command that lacks the word `run`; empty if it does not."""
    at = find_missing_run(words)
    if at is None:
        return ""
    return spell_command(document, shape, [*words[:at], "run", *words[at:]], words)


def _find_launchers(words: list[str]) -> Iterator[int]:
    """Return the index of the word after each that names the launcher."""
    for at, word in enumerate(words):
        name = os.path.basename(word).removesuffix(".exe").partition("@")[0]
        if name in {"mcp-launch", "mcp_launch"}:
            yield at + 1


def spell_command(document: Document, shape: Shape, words: list[str], was: list[str]) -> str:
    """Return how to write a command in a file in place of another, for a person to copy."""
    shown = masking.mask(words)
    first, rest = shape.command[-1], shape.args[-1]
    values = {first: shown} if shape.is_one_list else {first: shown[0], rest: shown[1:]}
    if not shape.is_one_list and words[:1] == was[:1]:
        del values[first]
    sign = " = " if document.kind == "toml" else ": "
    return ", ".join(
        f"{json.dumps(key) if document.kind == 'json' else key}{sign}"
        f"{json.dumps(value, ensure_ascii=False)}"
        for key, value in values.items()
    )


def repoint(document: Document, entry: Path, shape: Shape, launcher: str) -> list[Edit]:
    """Return the edit that makes an entry use another launcher."""
    first = (*entry, *shape.command, *([0] if shape.is_one_list else []))
    return [(*document.spots[first].value, document.spell(launcher))]


def wrap(
    document: Document, entry: Path, shape: Shape, launcher: str, wanted: tuple[str, ...] = ()
) -> list[Edit]:
    """Return the edits that put the launcher, with these options, in front of a command."""
    own = name_entry(document, entry)
    # Without a need for it there is no "--": MCP Inspector takes it for its own.
    end = ["--"] * list_words(document, entry, shape)[0].startswith("-")
    if shape.is_one_list:
        first = [launcher, "run", *run_options.join(own, [*wanted]), *end]
        return [_put_first(document, entry + shape.command, first)]
    command = document.spots[entry + shape.command].value
    translated, edits = _translate_variables(document, entry)
    first = ["run", *run_options.join([*own, *translated], [*wanted]), *end]
    args = entry + shape.args
    if args in document.spots:
        edits.append(_put_first(document, args, first, document.cut(command)))
        if document.cut(document.spots[args].value) == "[]":
            edits[-1] = _fill(document, args, edits[-1])
    else:
        edits.append(_add_args(document, entry, shape, first))
    return [(*command, document.spell(launcher)), *edits]


def name_entry(document: Document, entry: Path) -> list[str]:
    """Return the option that names an entry's server; empty if a variable of the entry does."""
    table = document.get(entry)
    inner = [one for one in table.values() if isinstance(one, dict)]
    if any(options.name_variable("--server") in one for one in inner):
        return []
    return run_options.name_server(find_name(document, entry) or "")


def find_name(document: Document, entry: Path) -> str | None:
    """Return the name of an entry; None if it is in a list and has none."""
    if isinstance(entry[-1], str):
        return entry[-1]
    name = document.get((*entry, "name"))
    return name if isinstance(name, str) and name else None


def show_name(document: Document, entry: Path) -> str:
    """Return how an entry is called in messages."""
    name = find_name(document, entry)
    return f"number {int(entry[-1]) + 1}" if name is None else name


def unwrap(document: Document, entry: Path, shape: Shape) -> list[Edit]:
    """Return the edits that remove the launcher; empty if no command would be left.

    Raises:
        UsageError: Its words are invalid, so it is unclear what its command is.

    """
    args = entry + (shape.command if shape.is_one_list else shape.args)
    words = document.get(args)
    rest = run_options.list_command(words[2:] if shape.is_one_list else words[1:])
    if not rest:
        return []  # its command is in a profile
    at = len(words) - len(rest)
    if shape.is_one_list:
        return [_take_first(document, args, at)]
    command = document.spots[entry + shape.command].value
    original = document.cut(document.spots[(*args, at)].value)
    edits = [(*command, original), *_restore_variables(document, entry)]
    is_bare = at == len(words) - 1  # the command had no arguments
    if is_bare and _is_made_by_us(document, args, command[1]):
        edits.append((command[1], document.spots[args].value[1], ""))
    elif is_bare and list_style.is_padded(document, args):
        edits.append((*document.spots[args].value, "[]"))
    else:
        edits.append(_take_first(document, args, at + 1))
    return edits


def _put_first(document: Document, where: Path, words: list[str], raw: str = "") -> Edit:
    """Return the edit that inserts words at the beginning of a list."""
    spelled = [*map(document.spell, words), *([raw] if raw else [])]
    begin, _ = document.spots[where].value
    if (*where, 0) not in document.spots:
        # Not without spaces: then we would have made the list.
        return (begin + 1, begin + 1, list_style.SPACED.join(spelled))
    if document.text[begin] == "-":
        # YAML with one element per line: each is indented like the first.
        indent = list_style.find_indent(document, begin)
        return (begin, begin, "".join(f"- {word}{indent}" for word in spelled))
    separator = list_style.find_separator(document, where)
    at = document.spots[(*where, 0)].value[0]
    return (at, at, "".join(f"{word}{separator}" for word in spelled))


def _fill(document: Document, where: Path, edit: Edit) -> Edit:
    """Return the edit that fills an empty list, written so that `unwrap` can tell it was there."""
    return (*document.spots[where].value, f"[ {edit[2]} ]")


def _take_first(document: Document, where: Path, count: int) -> Edit:
    """Return the edit that removes the first words of a list."""
    begin, _ = document.spots[where].value
    is_lines = document.text[begin] == "-"
    first = begin if is_lines else document.spots[(*where, 0)].value[0]
    if (*where, count) not in document.spots:
        return (first, document.spots[(*where, count - 1)].value[1], "")
    end = document.spots[(*where, count)].value[0]
    return (first, document.text.rindex("-", 0, end) if is_lines else end, "")


def _add_args(document: Document, entry: Path, shape: Shape, words: list[str]) -> Edit:
    """Return the edit that adds a list of arguments right after the command."""
    key, command = document.spots[entry + shape.command][1:]
    separator = list_style.choose_separator(document, entry)
    made = f"[{separator.join([*map(document.spell, words), document.cut(command)])}]"
    before_name, _, after_name = document.cut(key).rpartition(str(shape.command[-1]))
    name = f"{before_name}{shape.args[-1]}{after_name}"
    line = document.text.rfind("\n", 0, key[0]) + 1
    before = document.text[line : key[0]]
    line_end = list_style.find_line_end(document, line)
    assign = document.text[key[1] : command[0]]
    if assign.strip(" ") not in {":", "="}:  # a line end or a comment
        assign = " = " if document.kind == "toml" else ": "
    is_own_line = not before.strip(" \t\ufeff")
    indent = before.strip("\ufeff")
    if document.kind == "toml":
        is_inline = _is_inside_braces(document, entry)
        lead = ", " if is_inline else line_end + indent
        return (command[1], command[1], f"{lead}{name}{assign}{made}")
    if document.kind == "yaml":
        is_flow = document.text[document.spots[entry].value[0]] == "{"
        lead = ", " if is_flow else line_end + " " * len(before.expandtabs(1))
        return (command[1], command[1], f"{lead}{name}: {made}")
    lead = f",{line_end}{indent}" if is_own_line else separator
    return (command[1], command[1], f"{lead}{name}{assign}{made}")


def _is_inside_braces(document: Document, entry: Path) -> bool:
    paths = [entry[:length] for length in range(len(entry) + 1)]
    found = [document.spots[path] for path in paths if path in document.spots]
    return any(document.cut(spot.value).startswith("{") for spot in found)


def _is_made_by_us(document: Document, args: Path, command_end: int) -> bool:
    """Return whether `_add_args` added a list of arguments right after a command."""
    key, _ = document.spots[args][1:]
    if document.text[command_end : key[0]].strip(" \t\r\n,") or key[0] < command_end:
        return False
    return list_style.is_plain(document, args)


def _translate_variables(document: Document, entry: Path) -> tuple[list[str], list[Edit]]:
    """Return options for the variables that Codex would refuse, and the list without them."""
    where = (*entry, "env_vars")
    variables = document.get(where)
    if document.kind != "toml" or not isinstance(variables, list):
        return [], []
    translated: list[str] = []
    kept: list[str] = []
    for index, one in enumerate(variables):
        source = one.get("source", "local") if isinstance(one, dict) else "local"
        if source in SOURCES_OF_CODEX:
            kept.append(document.cut(document.spots[(*where, index)].value))
        elif one.keys() <= {"name", "source"} and _is_understood(one):
            translated += ["--env", f"{one['name']}={source}"]
        else:
            raise ValueError("no option of `run` can express this")
    if not translated:
        return [], []
    span = document.spots[where].value
    # A comment may be inside a list even where none may follow the list.
    was = json.dumps(document.cut(span))
    return translated, [(*span, f"[ {_KEPT}{was}\n{', '.join(kept)}]")]


def _is_understood(variable: dict[str, str]) -> bool:
    from mcp_launch.launch import profile

    try:
        profile.read_options(["--env", f"{variable.get('name')}={variable.get('source')}"])
    except UsageError:
        return False
    return True


def _restore_variables(document: Document, entry: Path) -> list[Edit]:
    where = (*entry, "env_vars")
    if where not in document.spots:
        return []
    span = document.spots[where].value
    written = document.cut(span)
    if not written.startswith(f"[ {_KEPT}"):
        return []
    was, _ = json.JSONDecoder().raw_decode(written, len(f"[ {_KEPT}"))
    # The user may have added to it since.
    [(*_, made)] = _translate_variables(Document("toml", f"env_vars = {was}", "it"), ())[1]
    if made != written:
        raise ValueError("the list of variables has changed since")
    return [(*span, was)]


def amend(
    document: Document, entry: Path, shape: Shape, wanted: list[str]
) -> tuple[list[Edit], list[str]]:
    """Return the edits that give an entry these options, and its command after them.

    Raises:
        UsageError: Its current options are invalid.

    """
    words = list_words(document, entry, shape)
    own = words[2:]
    found = run_options.compare(own, wanted)
    where = entry + (shape.command if shape.is_one_list else shape.args)
    first = 2 if shape.is_one_list else 1  # the index of the first option in the list
    edits = [
        (*document.spots[(*where, first + at)].value, document.spell(word))
        for at, word in found.replaced.items()
    ]
    if found.added:
        edits.append(_insert(document, where, first + found.end, found.added))
    changed = [found.replaced.get(at, word) for at, word in enumerate(own)]
    changed[found.end : found.end] = found.added
    return edits, [*words[:2], *changed]


def _insert(document: Document, where: Path, at: int, words: list[str]) -> Edit:
    """Return the edit that inserts words into a list, at an index or after the last element."""
    spelled = [document.spell(word) for word in words]
    begin, _ = document.spots[where].value
    is_last = (*where, at) not in document.spots
    place = document.spots[(*where, at - 1)].value[1] if is_last else 0
    if document.text[begin] == "-":
        # YAML with one element per line: each is indented like the first.
        indent = list_style.find_indent(document, begin)
        if is_last:
            return (place, place, "".join(f"{indent}- {word}" for word in spelled))
        place = document.text.rindex("-", 0, document.spots[(*where, at)].value[0])
        return (place, place, "".join(f"- {word}{indent}" for word in spelled))
    comma = list_style.find_separator(document, where)
    if is_last:
        return (place, place, "".join(f"{comma}{word}" for word in spelled))
    place = document.spots[(*where, at)].value[0]
    return (place, place, "".join(f"{word}{comma}" for word in spelled))
