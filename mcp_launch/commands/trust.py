"""`mcp-launch trust`: allow a project's profile file to be used, as it is now.

What the file set when it was trusted is kept beside its record, for this command alone: when the
file has changed, the user decides about the difference. A launch needs only the record.
"""

from __future__ import annotations

import difflib
import json
import os
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.text import Text

from mcp_launch import masking, state
from mcp_launch.commands import output
from mcp_launch.commands.output import print_json
from mcp_launch.commands.screen import Screen
from mcp_launch.errors import ProfileRefused, UsageError, printable
from mcp_launch.launch import profile_reader
from mcp_launch.launch.profile import PROJECT_FILE, refuse_foreign
from mcp_launch.machine.current_project import find_current_project
from mcp_launch.state import profile_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_VERSION = 1


class TrustRequest(NamedTuple):
    """What the user asked for."""

    path: str = ""  # of the file or its directory; empty: of this project
    is_sure: bool = False
    is_dry: bool = False
    is_forgetting: bool = False
    is_json: bool = False


def run(request: TrustRequest, environ: Mapping[str, str]) -> int:
    """Show a file and trust it, or stop trusting it; return the exit code."""
    console = Screen(is_stderr=request.is_json)
    is_asked = output.can_ask() and not (request.is_sure or request.is_dry)
    console.quiet = request.is_json and not is_asked
    if request.is_forgetting:
        return _run_forget(console, request, environ)
    path = locate(request.path)
    record = read(path, environ)
    was_trusted = record["trusted"] or record["was_trusted"]
    former = read_former(path, environ)
    differences = [] if record["trusted"] or former is None else list(compare(former, record))
    _show(console, record, differences)
    is_trusted = record["trusted"]
    if is_trusted:
        console.print("Already trusted.")
    elif request.is_dry:
        console.print("It is not trusted. Nothing was changed (--dry-run).")
    else:
        if not output.is_agreed(console, "Do you trust it?", is_sure=request.is_sure):
            raise UsageError("nothing was changed", fix="answer yes, or add --yes")
        decide(record, environ, is_trusted=True)
        is_trusted = True
        console.print("Trusted until it changes.")
    if request.is_json:
        _print_json(record, differences, is_trusted=is_trusted, was_trusted=was_trusted)
    return 0


def _run_forget(console: Screen, request: TrustRequest, environ: Mapping[str, str]) -> int:
    path = locate_kept(request.path)
    console.print(Text(printable(path)))
    if request.is_dry:
        record = profile_cache.read(path, environ) or {}
        was_trusted = bool(record.get("trusted") or record.get("was_trusted"))
        console.print("Nothing was changed (--dry-run).")
    else:
        was_trusted = forget(path, environ)
        no_effect = "It was not trusted, so nothing was changed."
        console.print("No longer trusted." if was_trusted else no_effect)
    if request.is_json:
        record = {"path": path, "servers": {}, "trusted": was_trusted}
        is_trusted = request.is_dry and was_trusted
        _print_json(record, [], is_trusted=is_trusted, was_trusted=was_trusted)
    return 0


def _show(console: Screen, record: dict[str, Any], differences: list[str]) -> None:
    """Show everything that a file would do; if it has changed, mark what has."""
    console.print(Text(printable(record["path"])))
    if any(line[:1] != " " for line in differences):
        console.print("It has changed since you trusted it:")
    elif differences:
        console.print("It has changed since you trusted it, but sets the same as before:")
    styles = {"+": "green", "-": "red"}
    for line in differences or describe(record):
        console.print(Text(printable(line), styles.get(line[:1], "") if differences else ""))


def _print_json(
    record: dict[str, Any], differences: list[str], *, is_trusted: bool, was_trusted: bool
) -> None:
    print_json(
        {
            "version": 1,
            "path": record["path"],
            "trusted": is_trusted,
            "was_trusted": was_trusted,
            "changed": is_trusted != record["trusted"],
            "servers": {
                name: _describe_profile(profile) for name, profile in record["servers"].items()
            },
            "differences": [line for line in differences if line[:1] != " "],
        }
    )


def _describe_profile(profile: dict[str, Any]) -> dict[str, Any]:
    return {
        "command": masking.mask(profile["command"]),
        "options": {
            option: texts if texts is None else masking.mask([option, *texts])[1:]
            for option, texts in profile["options"].items()
        },
        "literals": {name: _mask(name, text) for name, text in profile["literals"].items()},
        "variables": {
            name: {
                "source": source,
                "name": sought,
                "default": None if default is None else _mask(name, default),
                "is_required": is_required,
            }
            for name, (source, sought, default, is_required) in profile["variables"].items()
        },
    }


def _mask(name: str, text: str) -> str:
    is_secret = masking.is_secret_name(name) and bool(text)
    return masking.MASK if is_secret else masking.mask_text(text)


def locate(wanted: str) -> str:
    """Return the profile file for a file, a directory, or "" for the current project.

    Raises:
        UsageError: There is no such file.
        ProfileRefused: The file does not belong to the project.

    """
    path = wanted or find_current_project(os.environ)
    if os.path.isdir(path):
        path = os.path.join(path, PROJECT_FILE)
    if not os.path.isfile(path) or os.path.basename(path) != PROJECT_FILE:
        raise UsageError(
            f"there is no {PROJECT_FILE} at {path}",
            fix=f"name the file: mcp-launch trust DIRECTORY/{PROJECT_FILE}",
        )
    # Trust belongs to the project's directory, whatever path leads there.
    path = os.path.join(os.path.realpath(os.path.dirname(path)), PROJECT_FILE)
    refuse_foreign(path)
    return path


def locate_kept(wanted: str) -> str:
    """Return the profile file for a file, a directory, or ""; it may no longer exist."""
    path = wanted or find_current_project(os.environ)
    if os.path.basename(path) != PROJECT_FILE:
        path = os.path.join(path, PROJECT_FILE)
    return os.path.join(os.path.realpath(os.path.dirname(path)), PROJECT_FILE)


def forget(path: str, environ: Mapping[str, str]) -> bool:
    """Stop trusting a file, even if it is gone; return False if it was not trusted.

    Raises:
        ProfileRefused: The decision cannot be stored.

    """
    record = profile_cache.read(path, environ)
    if record is None or not (record["trusted"] or record["was_trusted"]):
        return False
    decide(record, environ, is_trusted=False)
    return True


def read(path: str, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return a file's profiles, and whether it is trusted."""
    return profile_reader.keep(path, environ, profile_cache.read(path, environ), is_projects=True)


def describe(record: dict[str, Any], *, is_masked: bool = True) -> Iterator[str]:
    """Return lines about everything that a file would do."""
    mask = _mask if is_masked else lambda _, text: text
    for name, profile in record["servers"].items():
        words = masking.mask(profile["command"]) if is_masked else profile["command"]
        yield f"{shlex.quote(name)}: {shlex.join(words) or '(no command of its own)'}"
        for option, texts in profile["options"].items():
            given = [option, *(texts or [])]
            shown = " ".join(masking.mask(given) if is_masked else given)
            yield f"  {shown if texts is not None else f'no {option}'}"
        for variable, text in profile["literals"].items():
            yield f"  {variable}={mask(variable, text)}"
        for variable, (source, sought, default, _) in profile["variables"].items():
            yield (
                f"  {variable} from {source}"
                + (f" ({sought})" if sought != variable else "")
                + (f", or {mask(variable, default)!r}" if default is not None else "")
            )


def compare(former: dict[str, Any], record: dict[str, Any]) -> Iterator[str]:
    """Return all lines about a file, each marked: `+ ` new, `- ` gone, or two spaces."""
    old, new = ([*describe(one)] for one in (former, record))
    # What is masked must be compared, too.
    before, after = ([*describe(one, is_masked=False)] for one in (former, record))
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    for kind, first, last, begin, end in matcher.get_opcodes():
        if kind == "equal":
            yield from (f"  {line}" for line in new[begin:end])
        else:
            yield from (f"- {line}" for line in old[first:last])
            yield from (f"+ {line}" for line in new[begin:end])


def read_former(path: str, environ: Mapping[str, str]) -> dict[str, Any] | None:
    """Return what a file set when it was last trusted; None if that is not known."""
    try:
        kept = json.loads(state.read(_name_former(path, environ)) or b"null")
    except (ValueError, RecursionError):
        return None
    is_of_this = isinstance(kept, dict) and (kept.get("version"), kept.get("path")) == (
        _VERSION,
        path,
    )
    return kept if is_of_this and isinstance(kept.get("servers"), dict) else None


def _name_former(path: str, environ: Mapping[str, str]) -> str:
    return profile_cache.name_record(path, environ).removesuffix(".json") + ".trusted"


def _keep_former(record: dict[str, Any], environ: Mapping[str, str], *, is_trusted: bool) -> None:
    name = _name_former(record["path"], environ)
    kept = {"version": _VERSION, "path": record["path"], "servers": record["servers"]}
    try:
        if is_trusted:
            state.write_whole(name, json.dumps(kept).encode())
        elif os.path.lexists(name):
            os.unlink(name)
    except OSError:
        pass  # the next difference cannot be shown, but the decision holds


def decide(record: dict[str, Any], environ: Mapping[str, str], *, is_trusted: bool) -> None:
    """Store whether a file is trusted.

    Raises:
        ProfileRefused: The decision cannot be stored.

    """
    if not profile_reader.write(record | {"trusted": is_trusted, "was_trusted": False}, environ):
        directory = os.path.dirname(profile_cache.name_record(record["path"], environ))
        raise ProfileRefused(
            f"{directory} is not writable", fix="free disk space, or fix its permissions"
        )
    _keep_former(record, environ, is_trusted=is_trusted)
