"""Checks of what the hosts' files say, and of how the hosts understand it."""

from __future__ import annotations

import json
import os
import re
import shlex
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from mcp_launch import masking
from mcp_launch.config_files import planned_changes
from mcp_launch.config_files.host_config import OFF, REMOTE
from mcp_launch.config_files.wrap import SOURCES_OF_CODEX
from mcp_launch.doctor.check import Finding, check
from mcp_launch.doctor.wrapped import can_be_wrapped, offer_wrapping
from mcp_launch.documents import jsonc
from mcp_launch.errors import FileRefused
from mcp_launch.machine import host_environment, preview_inputs
from mcp_launch.machine.preview import predict
from mcp_launch.machine.survey import Subject, point
from mcp_launch.machine.wrap_warnings import tell_how
from mcp_launch.values import SHELLS, is_same_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.config_files.host_config import File, HostConfig
    from mcp_launch.documents.positions import Path
    from mcp_launch.machine.survey import Item, Survey


@check("ML101", "error", "a file or an entry cannot be read")
def check_files(survey: Survey) -> Iterator[Finding]:
    """A host cannot read one of its files, or finds no command in an entry.

    The file's syntax is wrong, it may not be opened, it is a link to a file that does not exist, or
    it has comments or trailing commas that this host does not accept. In an entry, the command is
    missing or has the wrong type, or the place of the servers is not a table. The finding says what
    you lose: some hosts do not start at all, others start without the file's servers, and most do
    not say so. mcp-launch never writes to a file that it cannot read.

    Correct the line in the finding and run `mcp-launch doctor` again. Hosts write commands in
    different ways, and entries are often copied between them. Nearly all want a text in `command`
    and a list in `args`; opencode wants one list, and Goose calls it `cmd`. No shell splits a line,
    so every argument is an element of its own:

        "docs": { "command": "npx", "args": ["-y", "docs-server"] }
    """
    for host, file in survey.files:
        try:
            document = survey.read(file)
        except FileRefused as refused:
            yield _report_file(host, file, refused)
            continue
        if file.kind == "json":
            yield from _read_strictly(host, file, document.text)
        if not file.why_not:
            yield from _check_table(survey, host, file)
    for item in survey.items:
        fault = _find_fault(item)
        if fault is not None:
            key, problem, fix = fault
            message = f"{item.host.title} cannot start '{item.name}': {problem}"
            yield Finding("ML101", item.point(*([key] if key else [])), message, fix)


def _tell_loss(host: HostConfig, file: File) -> str:
    """Return what a host does when it cannot read a file."""
    losses = dict(host.quirks.losses)
    return losses.get(file.scope, f"{host.title} does not get its servers")


def _report_file(host: HostConfig, file: File, refused: FileRefused) -> Finding:
    subject = Subject(host.name, "", file.scope, file.path, refused.line, refused.column)
    if os.path.islink(file.path) and not os.path.exists(file.path):
        message = f"{file.path} is a link to {os.readlink(file.path)}, where there is no file"
        fix = "remove the link, or put the file where it points"
        return Finding("ML101", subject, f"{message}: {host.title} does not get its servers", fix)
    problem = refused.without_place
    if not refused.line:
        return Finding("ML101", subject, f"{problem}: {_tell_loss(host, file)}", refused.fix)
    if file.kind == "json" and not _find_json_fault(planned_changes.read_file(file.path)):
        # A name that appears twice: hosts accept that, we do not.
        message = f"{problem}: {host.title} uses only the last one"
        return Finding("ML101", subject, message, "merge them into one")
    return Finding("ML101", subject, f"{problem}: {_tell_loss(host, file)}", "correct this line")


def _read_strictly(host: HostConfig, file: File, text: str) -> Iterator[Finding]:
    """Find syntax that other hosts allow, but this one does not."""
    extras = host.quirks.json_extras
    if extras == "comments and trailing commas":
        return
    allows_comments = extras == "comments"
    fault = _find_json_fault(jsonc.blank_comments(text) if allows_comments else text)
    if fault:
        subject = Subject(host.name, "", file.scope, file.path, fault.lineno, fault.colno)
        refused = "trailing commas" if allows_comments else "comments or trailing commas"
        message = f"{host.title} does not allow {refused}: {_tell_loss(host, file)}"
        yield Finding("ML101", subject, message, "remove them")


def _find_json_fault(text: str) -> json.JSONDecodeError | None:
    try:
        json.loads(text.removeprefix("\ufeff"))
    except json.JSONDecodeError as error:
        return error
    return None


def _check_table(survey: Survey, host: HostConfig, file: File) -> Iterator[Finding]:
    """Find tables of servers that are something else: a list, a string."""
    document = survey.read(file)
    for table in file.servers[:1]:
        found = document.get(table)
        is_right = isinstance(found, list if file.has_lists else dict)
        if found is None or is_right or not table:
            continue
        key = ".".join(map(str, table))
        kind = "a list" if isinstance(found, list) else "a table"
        kind = kind if isinstance(found, list | dict) else "neither a table nor a list"
        # TOML may have no place for the whole, but for what is in it.
        inner = [*found][:1] if isinstance(found, dict) else [0]
        where = table if table in document.spots else (*table, *inner)
        yield Finding(
            "ML101",
            point(host, file, document, where),
            f"{host.title} finds no servers: {key} is {kind}",
            _describe_form(file, key),
        )


def _describe_form(file: File, key: str) -> str:
    if not file.has_lists:
        form = f"[{key}.NAME]" if file.kind == "toml" else f'"{key}": {{"NAME": {{...}}}}'
        return f"make it a table with the servers' names: {form}"
    form = f"[[{key}]]" if file.kind == "toml" else f"{key}: [{{...}}]"
    return f"make it a list of servers, each with its name in it: {form}"


def _find_fault(item: Item) -> tuple[str, str, str] | None:
    """Return the key at fault, what is wrong, and the fix; None if the entry may be well."""
    is_used = not item.file.why_not and item.why_not not in {REMOTE, OFF, item.hidden}
    if item.words or not is_used or item.host.why_not(item.entry):
        return None
    shape = item.host.shapes[0]
    key, whole = str(shape.command[0]), item.document.get(item.path)
    if not isinstance(whole, dict):
        # Settings may stand beside the servers where a host has several places for them.
        is_setting = len(item.file.servers) > 1
        return None if is_setting else ("", "it is not a table", f'write {{"{key}": ...}}')
    if key not in whole:
        # A server of an extension has settings in place of a command, and a project's entry may
        # complete the user's.
        is_elsewhere = "settings" in whole or "source" in whole
        is_part = item.is_of_project and item.host.quirks.same_name == "merged"
        fault = "", f"it has no {key}", f"add its {key}, or remove the entry"
        return None if is_elsewhere or is_part else fault
    problem, fix = (
        f"its {key} must be a string",
        f'write the program as "{key}", the rest as "args"',
    )
    if shape.is_one_list:
        problem = f"its {key} must be a list of strings"
        fix = f'write "{key}": ["npx", "-y", "some-server"]'
    elif isinstance(whole[key], str):
        key, problem = "args", "its args must be a list of strings"
        fix = 'write "args": ["-y", "some-server"]'
    return key, problem, fix


@check("ML103", "error", "Codex refuses a source in env_vars")
def check_sources(survey: Survey) -> Iterator[Finding]:
    """An entry of Codex asks for a variable from a source that only mcp-launch knows.

    Codex knows the sources `local` and `remote`. At `thread`, `session` or `project_root` it does
    not skip the entry, but refuses the whole file: with such a line in `~/.codex/config.toml`,
    Codex does not start at all. In the file of a trusted project, it does not start in that
    project. Such a source is valid in a profile of mcp-launch, and easily ends up in the wrong
    file. It also comes back when a wrapped entry that had it is unwrapped.

    Let mcp-launch take over the variable: `mcp-launch wrap --host codex audit` moves it into the
    options of `run`, which Codex passes on unread. If wrapping is not possible, remove the variable
    from `env_vars`.
    """
    for item in survey.items:
        if not item.host.quirks.environment.has_env_vars or item.file.scope == "plugin":
            continue
        for index, variable in enumerate(_list_env_vars(item)):
            source = variable.get("source", "local") if isinstance(variable, dict) else "local"
            if isinstance(source, str) and source not in SOURCES_OF_CODEX:
                can_help = can_be_wrapped(survey, item)
                # Somebody may have put a secret there.
                shown = source if masking.is_common(source) else masking.MASK
                yield Finding(
                    "ML103",
                    item.point("env_vars", index),
                    f"{item.host.title} does not know the source '{shown}', "
                    f"only {' and '.join(SOURCES_OF_CODEX)}: {_tell_loss(item.host, item.file)}",
                    f"mcp-launch knows it; wrap the entry: {tell_how(item)}"
                    if can_help
                    else "take the variable out of env_vars",
                    offer_wrapping(survey, item) if can_help else None,
                )


def _list_env_vars(item: Item) -> list[Any]:
    variables = item.entry.get("env_vars")
    return variables if isinstance(variables, list) else []


@check("ML104", "warning", "the entry's cwd is ignored, or depends on the host", "server")
def check_cwd(survey: Survey, item: Item) -> Iterator[Finding]:
    """The server does not start where the `cwd` of its entry says.

    Claude Code and Claude Desktop do not read `cwd`; they choose the directory themselves. Codex
    resolves a relative one against the directory of its own process. It keeps one daemon for all
    terminals, so that is the directory of the first terminal: the same entry means another
    directory tomorrow. Relative paths in the server's arguments then lead nowhere, or to the wrong
    project, and nothing reports that.

    Let mcp-launch set the directory, then remove `cwd` from the entry. A relative one is resolved
    against the session's directory:

        mcp-launch wrap --host claude docs -- --cwd /srv/docs
        mcp-launch wrap --host codex docs -- --cwd tools

    If the server does not depend on its directory, just remove `cwd`. `mcp-launch env docs` shows
    the directory that the server would get now.
    """
    del survey
    cwd, title = item.cwd, item.host.title
    if not isinstance(cwd, str) or not cwd:
        return
    if item.host.quirks.cwd == "ignored":
        if "--cwd" in item.options:
            fix = "remove cwd: the --cwd in its args is used"
        elif item.is_wrapped:
            fix = f'remove cwd, and write "--cwd", "{cwd}" after "run" in its args'
        else:
            how = tell_how(item)
            fix = f'{how}, then begin its args with "run", "--cwd", "{cwd}", "--" and remove cwd'
        message = f"{title} ignores cwd: '{item.name}' does not start in {cwd}"
        yield Finding("ML104", item.point("cwd"), message, fix)
    # ML106 reports references that are not expanded.
    elif item.host.quirks.cwd == "absolute" and not (os.path.isabs(cwd) or cwd[0] in "~$"):
        yield Finding(
            "ML104",
            item.point("cwd"),
            f"{title} resolves the relative cwd {cwd} of '{item.name}' against the directory "
            "in which its daemon was started, that of the first terminal",
            "write an absolute path, or remove cwd to start the server in its thread's directory",
        )


_BORROWED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(:-[^}]*)?\}")

_SCRIPT = re.compile(r"-\w*c")

# Servers that expand ~/ themselves.
_KNOW_TILDE = ("server-filesystem",)


@check("ML106", "error", "a variable in the entry is not replaced", "server")
def check_variables(survey: Survey, item: Item) -> Iterator[Finding]:
    """The entry has `${NAME}`, `$NAME` or `~/`, and the server gets this text as it is written.

    Hosts start servers without a shell. Claude Code replaces `${NAME}` and `${NAME:-default}`, but
    leaves them if the variable is not set where it runs. Codex replaces nothing. Neither expands
    `$NAME` nor `~/` (seen with Claude Code 2.1.325 and Codex 0.166). So the server gets a path that
    begins with a dollar sign, or `${DOCS_KEY}` in place of a key; it fails with an error that
    points somewhere else, or creates a directory named `~`.

    * Claude Code: set the variable before you start `claude`, or write `${NAME:-default}`; write
      `${HOME}/` in place of `~/`.
    * Codex: write the value. If the server reads the variable itself, pass it on with `env_vars =
      ["NAME"]`.
    * A profile of mcp-launch replaces `${NAME}` in `env`, for every host.
    """
    yield from _find_unset(survey, item)
    yield from _find_literal(survey, item)


def _find_unset(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find variables that a host would replace if they were set."""
    if not item.host.quirks.texts.leaves_unset:
        return
    known = host_environment.read_host(survey, item.host)
    missing: dict[str, Path] = {}
    for keys, text in [*_list_words(item, item.words), *_list_variables(item)]:
        for name, default in _BORROWED.findall(text):
            if not default and name not in known:
                missing.setdefault(name, keys)
    if missing:
        names = f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'}"
        first = next(iter(missing))
        yield Finding(
            "ML106",
            item.point(*missing[first]),
            f"{names} not set where {item.host.title} runs: '{item.name}' gets "
            f"the text ${{{first}}}",
            f"set it before you start {item.host.quirks.program.command}, or write "
            f"${{{first}:-a default}}",
        )


def _find_literal(survey: Survey, item: Item) -> Iterator[Finding]:
    """Find shell syntax where there is no shell."""
    pattern = item.host.quirks.texts.unexpanded
    if pattern is None:
        return
    found: dict[str, Path] = {}
    cwd = item.cwd
    texts = [*_list_arguments(item), *_list_variables(item)]
    if preview_inputs.has_cwd(item) and isinstance(cwd, str):
        texts.append(((item.host.quirks.cwd_key,), cwd))
    knows_tilde = any(name in word for name in _KNOW_TILDE for word in item.command)
    for keys, text in texts:
        for written in pattern.findall(text):
            if written != "~/" or not knows_tilde or keys[0] != "args":
                found.setdefault(written, keys)
    if found:
        first = next(iter(found))
        yield Finding(
            "ML106",
            item.point(*found[first]),
            f"{item.host.title} passes {', '.join(found)} to '{item.name}' unexpanded: there is no "
            "shell that would replace it",
            _explain_literal(survey, item, first),
        )


def _list_words(item: Item, words: list[str]) -> list[tuple[Path, str]]:
    """Return the last words of a command, with their paths in the entry."""
    before = len(item.words) - len(words)
    return [
        (("args", at - 1) if at else ("command",), word)
        for at, word in enumerate(words, start=before)
    ]


def _list_arguments(item: Item) -> list[tuple[Path, str]]:
    """Return the server's arguments, except those of a shell, which expands them."""
    program = os.path.basename(item.command[0]) if item.command else ""
    if program in SHELLS and any(_SCRIPT.fullmatch(word) for word in item.command):
        return []
    return _list_words(item, item.command[1:])


def _list_variables(item: Item) -> list[tuple[Path, str]]:
    return [(("env", name), text) for name, text in item.variables.items()]


def _explain_literal(survey: Survey, item: Item, written: str) -> str:
    borrow = item.host.quirks.texts.borrow
    if written == "~/":
        return f"write {borrow.format('HOME') or survey.site.home}/"
    name = written.strip("${}").partition(":-")[0]
    if borrow:
        return f"write {borrow.format(name)}"
    return f'write its value; or, if the server reads {name} itself, env_vars = ["{name}"]'


@check("ML107", "warning", "the same server is in several scopes")
def check_scopes(survey: Survey) -> Iterator[Finding]:
    """Two of a host's files, such as your own and the project's, define a server of one name.

    Codex merges both key by key: the result may have the project's command with your arguments or
    variables. If one has a `command` and the other a `url`, Codex does not start. Claude Code uses
    only one of them: an entry of its local scope (only you, only this project) first, then the
    project's file, then your own; a change to the other has no effect.

    Rename one, or remove the one that you do not want. The finding has the host's own command, such
    as `claude mcp remove docs -s project` or `codex mcp remove docs`. If the entries are the same,
    or the merge is intended, ignore the code for that server: `ignore = ["ML107:docs"]` below
    `[doctor]` in `~/.config/mcp-launch/config.toml`.
    """
    merged: dict[tuple[str, str], list[Item]] = {}
    chosen: dict[tuple[str, str], list[Item]] = {}
    for item in survey.items:
        if item.file.why_not or item.why_not == item.hidden:
            continue
        key, rule = (item.host.name, item.name), item.host.quirks.same_name
        if rule == "merged" and _is_read(survey, item):
            merged.setdefault(key, []).append(item)
        elif rule == "nearest" and _is_for_project(survey, item):
            chosen.setdefault(key, []).append(item)
    for items in merged.values():
        for below, above in pairwise(_order(items)):
            yield from _report_merged(below, above)
    for items in chosen.values():
        if len(items) > 1:
            yield from _report_hidden(survey, items)


def _is_read(survey: Survey, item: Item) -> bool:
    """Return whether a host reads an entry's file."""
    if not item.is_of_project:
        return True
    return item.host.approval.find_state(survey, item.file, item.name) == "approved"


def _order(items: list[Item]) -> list[Item]:
    """Return entries in the order in which a host merges them: the nearest project's last."""
    users = [item for item in items if not item.is_of_project]
    projects = [item for item in items if item.is_of_project]
    return users + projects[::-1]


def _is_for_project(survey: Survey, item: Item) -> bool:
    """Return whether an entry is used in this project, not a private one of another."""
    if not item.scope.startswith("local: "):
        return True
    return is_same_directory(str(item.path[1]), survey.site.project)


def _report_merged(below: Item, above: Item) -> Iterator[Finding]:
    """Report the result of two entries that a host merges key by key."""
    if not {"command", "url"} & set(above.entry):
        return  # it is meant to change the other
    name, title = below.name, below.host.title
    owner = "the outer project's" if below.is_of_project else "the user's"
    result = f"what the project's leaves out comes from {owner}"
    if {"command", "url"} <= {*below.entry, *above.entry}:
        result = f"the result has a command and a url, and {title} does not start"
    how = "" if below.is_of_project else f": {_name_command(below)} {shlex.quote(name)}"
    yield Finding(
        "ML107",
        above.point(),
        f"'{name}' is also in {below.file.path}, and {title} merges both by key: {result}",
        f"rename one of them, or remove {owner}{how}",
    )


def _report_hidden(survey: Survey, items: list[Item]) -> Iterator[Finding]:
    """Report which entry is used by a host that does not merge them."""
    name = items[0].name
    state = items[0].host.approval.find_state(survey, items[0].file, name)
    waiting = {"pending": 3, "rejected": 4}.get(state, 1)
    order = {"project": waiting, "user": 2}
    used, *rest = sorted(items, key=lambda item: order.get(item.scope, 0))
    hidden = rest[0]
    if state == "rejected" and hidden.scope == "project":
        return
    scopes = [item.scope.partition(":")[0] for item in (used, *rest)]
    is_same = ", with the same content" if used.entry == hidden.entry else ""
    is_waiting = scopes[:2] == ["user", "project"]
    until = " until you approve the project's" if is_waiting else ""
    yield Finding(
        "ML107",
        hidden.point(),
        f"'{name}' is in the scopes {' and '.join(scopes)}{is_same}: {used.host.title} uses only "
        f"the one in {scopes[0]}{until}",
        f"remove the one you do not want: {_name_command(used)} {shlex.quote(name)} -s {scopes[1]}",
    )


def _name_command(item: Item) -> str:
    """Return the command of a host that removes a server."""
    return f"{item.host.quirks.program.command} mcp remove"


@check("ML110", "warning", "the host does not start a project's server yet")
def check_approval(survey: Survey) -> Iterator[Finding]:
    """Codex does not trust the project, or Claude Code has not approved the server.

    Files of a project come from other people, so hosts ask before they start what is in them. Codex
    asks once per project, and does not read its `.codex/config.toml` until you say yes. Claude Code
    asks for each server in `.mcp.json`; its settings may also approve and disable the same server,
    and then disabling wins. Until then the server is missing, without any message at the place
    where you would look for it, and `doctor --live` does not start it either.

    Read the file first: its commands will run with your rights. Then run `codex` or `claude` in the
    project and answer. If the finding names a file that disables the server, remove its name from
    `disabledMcpjsonServers` there. Servers that you have rejected in Claude Code are not reported.
    For Codex, ignore the code if you do not want the project's servers.
    """
    asked: dict[tuple[str, str], list[Item]] = {}
    for item in survey.items:
        if not item.is_of_project:
            continue
        approval = item.host.approval
        if approval.asks == "of the project" and item.entry.get("enabled", True):
            asked.setdefault((item.host.name, item.file.path), []).append(item)
        elif approval.asks == "of each server" and item.why_not != item.hidden:
            is_waiting = approval.find_state(survey, item.file, item.name) == "pending"
            explained = approval.explain(survey, item.file, [item.name])
            if explained and not (is_waiting and item.why_not == OFF):
                yield Finding("ML110", item.point(), *explained)
    for items in asked.values():
        host, file = items[0].host, items[0].file
        names = tuple(item.name for item in items)
        explained = host.approval.explain(survey, file, [*names])
        if explained:
            subject = Subject(host.name, "", "project", file.path)
            yield Finding("ML110", subject, *explained, servers=names)


def explain_not_started(survey: Survey, item: Item) -> str:
    """Return why a host would not start a project's server; "" if it would."""
    if not item.is_of_project:
        return ""
    if item.host.approval.asks == "unknown":
        title = item.host.title
        return f"it came with the project, and only {title} knows whether you trust the project"
    return item.host.approval.tell_why_not(survey, item.file, item.name)


# Options of uv that name the project's directory.
_OF_UV = ("--directory", "--project")


@check("ML207", "error", "the directory of the entry does not exist", "server")
def check_directory(survey: Survey, item: Item) -> Iterator[Finding]:
    """The entry says where the server should start, and that directory does not exist.

    It is named by `cwd`, by `--cwd` of mcp-launch or by `uv --directory`, and is missing or is a
    file. The server does not start; Codex reports that with the same words as a missing program.
    The project was moved, renamed or deleted, a disk is not mounted, or the file came from a
    colleague whose directories differ.

    Create the directory, or correct the path. For a wrapped entry, `wrap` changes the option in
    place: `mcp-launch wrap docs -- --cwd /home/me/app`. If the server should simply start in the
    project you work in, leave the directory out (`--cwd session` is the default), or use `--cwd
    project_root`. For `uv`, correct `--directory` or `--project` in `args`.
    """
    launch = predict(survey, item)
    wanted = launch.profile.cwd if launch.profile else "session"
    if wanted not in {"session", "project_root", "keep"}:
        absolute = [place for place in launch.places if wanted[0] in "/~"]
        yield from _report_directory(item, "--cwd", absolute)
    cwd, key = item.cwd, item.host.quirks.cwd_key
    if preview_inputs.has_cwd(item) and isinstance(cwd, str):
        is_certain = cwd[:1] in {"/", "~"} and host_environment.is_solved(item, cwd)
        yield from _report_directory(item, key, [*launch.situation.places] if is_certain else [])
    command = launch.command
    if command and os.path.basename(command[0]) in {"uv", "uvx"}:
        of_uv = [place for one, place in pairwise(command) if one in _OF_UV]
        yield from _report_directory(item, "uv --directory", list(filter(os.path.isabs, of_uv)))


def _report_directory(item: Item, setting: str, places: list[str]) -> Iterator[Finding]:
    for place in places[:1]:
        if not os.path.isdir(place):
            what = "is not a directory" if os.path.exists(place) else "does not exist"
            subject = item.point(setting if setting in item.entry else "args")
            yield Finding(
                "ML207",
                subject,
                f"{place} ({setting}) {what}, so the server does not start",
                f"create it, or correct {setting}",
            )
