"""What typer says of a wrong command line, in our own words: the problem and its fix."""

from __future__ import annotations

import re
from typing import Any

import typer

from mcp_launch.commands.usage_errors import USAGE
from mcp_launch.errors import UsageError, suggest

# Typer's class for all errors in a command line, wherever the installed version keeps it.
BadUsage: type[Exception] = typer.BadParameter.__mro__[1]

_UNKNOWN = re.compile(r"No such command '(.*?)'")
_EXTRA = re.compile(r"unexpected extra argument\S* \((.*)\)")


def translate(bad: Any, command: str) -> UsageError:  # noqa: ANN401  # an instance of `BadUsage`
    """Return our error for one of typer's, which may not know its `command`."""
    path = bad.ctx.command_path if bad.ctx else f"mcp-launch {command}"
    error = _explain(bad, path)
    error.exit_code = USAGE
    return error


def _explain(bad: Any, path: str) -> UsageError:  # noqa: ANN401  # ditto
    shown = f"{path} --help shows how to use it"
    if option := getattr(bad, "option_name", ""):
        return _explain_option(bad, path, str(option))
    if extra := _EXTRA.search(bad.message):
        return _explain_extra(bad, path, extra[1].split())
    if commands := getattr(getattr(bad.ctx, "command", None), "commands", {}):
        return _explain_command(bad, path, sorted(commands))
    parameter = getattr(bad, "param", None)
    name = _name(parameter) if parameter else ""
    if not bad.message and name:
        return UsageError(f"{path} needs {name}", fix=f"add it: {path} {name} ({shown})")
    said = f"{bad.message[:1].lower()}{bad.message[1:]}".rstrip(".")
    if name:
        said = f"{name} does not take this value: {said.replace('input should', 'it should')}"
    return UsageError(said, fix=shown)


def _explain_option(bad: Any, path: str, option: str) -> UsageError:  # noqa: ANN401  # ditto
    if "requires" in bad.message:
        return UsageError(f"{option} needs a value", fix=f"{path} --help shows which")
    if "does not take" in bad.message:
        return UsageError(f"{option} does not take a value", fix=f"write only {option}")
    known = [name for parameter in bad.ctx.command.params for name in parameter.opts]
    return UsageError(
        f"{path} has no option {option}",
        fix=f"{suggest(option, known)}{path} --help lists the options",
    )


def _explain_command(bad: Any, path: str, commands: list[str]) -> UsageError:  # noqa: ANN401  # ditto
    ways = " or ".join(f"{path} {name}" for name in commands)
    if unknown := _UNKNOWN.search(bad.message):
        return UsageError(
            f"{path} has no command {unknown[1]!r}", fix=f"{suggest(unknown[1], commands)}{ways}"
        )
    return UsageError(f"{path} needs a command", fix=f"write {ways}")


def _explain_extra(bad: Any, path: str, words: list[str]) -> UsageError:  # noqa: ANN401  # ditto
    from mcp_launch.commands.suggestions import list_values

    options = [name for parameter in bad.ctx.command.params for name in parameter.opts]
    given = ", ".join(words)
    hosts = {one.word for one in list_values("HOST")}
    if "--host" in options and hosts.issuperset(words):
        fix = f"write: {path} {' '.join(f'--host {word}' for word in words)}"
    elif path.endswith(" doctor"):
        rules = ",".join(f"ML:{word}" for word in words)
        fix = f"write: {path} --select {rules} (only what concerns {given})"
    else:
        fix = f"leave it out; {path} --help shows how to use it"
    return UsageError(f"{path} does not take {given}", fix=fix)


def _name(parameter: Any) -> str:  # noqa: ANN401  # ditto
    """Return the name of a parameter as the help text shows it."""
    if parameter.param_type_name == "option":
        return str(parameter.opts[0])
    return str(parameter.metavar or parameter.name.upper())
