"""Shell completion: `mcp-launch completion SHELL` prints a script, and the script asks us.

The script passes the words of the line to the hidden command `complete-words`, which prints one
suggestion a line, with a tab before its description. Names come from the hosts' files, so they
are only ever data: no script evaluates them, and one with a control character is left out.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mcp_launch.cli.app import app
from mcp_launch.commands.completion_scripts import SCRIPTS
from mcp_launch.commands.screen import say
from mcp_launch.errors import UsageError, suggest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcp_launch.commands.suggestions import Suggestion

# What the scripts call; hidden from the help text.
COMMAND = "complete-words"

# The commands after whose `--` come arguments of `run`.
_TAKE_RUN_OPTIONS = {"env", "wrap"}


def suggest_words(words: list[str]) -> list[Suggestion]:
    """Return what the last of these words, which may be empty, can become."""
    *before, current = words or [""]
    return [one for one in _suggest(before, current) if one.word.startswith((current, ":"))]


def _suggest(before: list[str], current: str) -> Iterable[Suggestion]:
    from mcp_launch.commands.suggestions import Suggestion, suggest_for_run

    command: Any = typer.main.get_command(app)
    context = typer.Context(command, info_name="mcp-launch")
    while before and hasattr(command, "commands"):
        command = command.commands.get(before.pop(0))
        if command is None:
            return []
    if command.name == "run":
        return suggest_for_run(before, current)
    if hasattr(command, "commands"):
        return [
            *(
                Suggestion(name, one.get_short_help_str(limit=100))
                for name, one in command.commands.items()
                if not one.hidden
            ),
            *_list_options(command, context, current),
        ]
    if command.name in _TAKE_RUN_OPTIONS and "--" in before:
        return suggest_for_run(before[before.index("--") + 1 :], current)
    return _suggest_for(command, context, before, current)


def _suggest_for(
    command: Any,  # noqa: ANN401  # typer's own, or click's
    context: typer.Context,
    before: list[str],
    current: str,
) -> Iterable[Suggestion]:
    from mcp_launch.commands.suggestions import Suggestion, list_values

    options = {name: one for one in command.params for name in one.opts if name.startswith("-")}
    waiting = options.get(before[-1]) if before else None
    if waiting is not None and not waiting.is_flag:
        return list_values(waiting.metavar or "")
    name, equals, _ = current.partition("=")
    if equals and name in options:
        return [
            Suggestion(f"{name}={one.word}", one.about)
            for one in list_values(options[name].metavar or "")
            if not one.word.startswith(":")
        ]
    if current.startswith("-"):
        return _list_options(command, context, current)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    return list_values(arguments[0].metavar or "") if arguments else []


def _list_options(
    command: Any,  # noqa: ANN401  # typer's own, or click's
    context: typer.Context,
    current: str,
) -> Iterable[Suggestion]:
    from mcp_launch.commands.suggestions import Suggestion

    if not current.startswith("-"):
        return []
    return [
        Suggestion(name, one.help or "")
        for one in command.get_params(context)
        if one.param_type_name == "option" and not one.hidden
        for name in one.opts
    ]


@app.command("completion")
def _completion(
    shell: Annotated[str, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")],
) -> None:
    """Print a script that completes commands, options, hosts, servers, sessions and codes.

    Write it into the file that your shell reads, and open a new shell.

    \b
    Examples:
      cd ~/.local/share/bash-completion/completions
      mcp-launch completion bash > mcp-launch

    \b
      cd ~/.zfunc        (or any other directory of $fpath)
      mcp-launch completion zsh > _mcp-launch

    \b
      cd ~/.config/fish/completions
      mcp-launch completion fish > mcp-launch.fish
    """  # noqa: D301  # typer's mark for lines to keep as they are
    if shell not in SCRIPTS:
        raise UsageError(
            f"there is no completion for {shell}",
            fix=f"{suggest(shell, SCRIPTS)}the shells are {', '.join(SCRIPTS)}",
        )
    say(SCRIPTS[shell].rstrip("\n"))


def print_suggestions(words: list[str]) -> int:
    """Print what the last of these words can become, one suggestion a line."""
    with contextlib.suppress(Exception):  # a shell's prompt must not show our errors
        for one in suggest_words(words):
            if one.word and f"{one.word}{one.about}".isprintable():
                sys.stdout.write(f"{one.word}\t{one.about}\n")
    return 0
