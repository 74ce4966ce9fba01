"""Look for the program of an entry as its host would, and check that it can run."""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from mcp_launch.config_files import planned_changes, wrap
from mcp_launch.doctor import runnable
from mcp_launch.doctor.check import Finding, check
from mcp_launch.doctor.runnable import shorten_path
from mcp_launch.doctor.wrapped import offer_path
from mcp_launch.errors import CommandNotFound, LaunchError, NotExecutable
from mcp_launch.launch import plan
from mcp_launch.machine import host_environment
from mcp_launch.machine.preview import predict
from mcp_launch.values import expand_home

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mcp_launch.machine.survey import Item, Subject, Survey

# Programs whose first argument may be a file.
_TAKE_A_FILE = re.compile(r"(python[\d.]*|node|nodejs|ruby|perl|sh|bash|zsh)$")

# Directories of version managers, in which a path goes with a version, or with a shell.
_MANAGED = re.compile(r"/\.?(nvm|fnm|volta|mise|asdf|pyenv|rbenv)(?:/|_multishells/)")

# The endings that Node tries for a name.
_ENDINGS = ("", ".js", ".mjs", ".cjs", "/package.json", "/index.js")


@check("ML201", "error", "the command is not found, or does not run", "server")
def check_command(survey: Survey, item: Item) -> Iterator[Finding]:
    """The host would not find the program of the entry, or the program cannot run here.

    mcp-launch looks for it as the host does: with the `PATH` that the host gives its servers, which
    is often not that of your shell. The server does not start, and Codex says only `No such file or
    directory`, even for a file that is there.

    * It is not installed, misspelled, or found only through `~/.bashrc`, nvm or pyenv; or the host
      was started before `PATH` was changed. Write its absolute path (`command -v npx`), or set
      `PATH` in the entry's `env` if it needs others beside it, as `npx` needs `node`. Then restart
      the host, and with Codex its daemon (`mcp-launch ps`).
    * The path belongs to one version of a version manager, and that version is gone. Use a path
      that stays the same.
    * The whole command line is in `command`, or the path has `~` or `$HOME`, which hosts do not
      expand.
    * The file is not executable (`chmod +x`), its interpreter is gone, or its first line is wrong.
    """
    launch = predict(survey, item)
    situation = launch.situation
    # That the path of a wrapped entry's own launcher leads nowhere is another finding.
    if situation.is_launched and not (item.is_wrapped and os.path.isabs(item.words[0])):
        [first, *_] = host_environment.spell_out(survey, item, item.words)
        places = [*situation.places]
        found = _Search(survey, item, situation.environ, places, item.point("command"))
        yield from found.check_program(first) if host_environment.is_solved(item, first) else ()
    if launch.command:
        key = "args" if situation.is_launched and item.command else "command"
        search = _Search(survey, item, launch.server_environ, launch.places, item.point(key))
        yield from search.check_program(launch.command[0])
        yield from search.check_file(launch.command)


class _Search:
    """A search for a program: for which entry, where, and with which PATH."""

    def __init__(
        self,
        survey: Survey,
        item: Item,
        environ: Mapping[str, str],
        places: list[str],
        subject: Subject,
    ) -> None:
        self.survey = survey
        self.item = item
        self.environ = environ
        self.path = environ.get("PATH", "")
        self.places = places
        self.subject = subject

    def check_program(self, name: str) -> Iterator[Finding]:
        """Find a program, and check it."""
        if not name.strip():
            fix = "name the program that starts the server"
            yield Finding("ML201", self.subject, "the command is empty", fix)
            return
        if "/" in name and not os.path.isabs(name) and not self.places:
            return
        refused: LaunchError | None = None
        for place in self.places or ["/"]:
            try:
                file = plan.find_program(name, self.path, place)
            except LaunchError as error:
                refused = refused if isinstance(refused, NotExecutable) else error
            else:
                yield from self._check_found(file)
                return
        if refused is not None:
            yield self._refuse(name, refused)

    def check_file(self, words: list[str]) -> Iterator[Finding]:
        """Check that the file exists that an interpreter should run."""
        file = _find_argument(words)
        if not file or not (os.path.isabs(file) or self.places):
            return
        found = [os.path.join(place, file) for place in self.places or ["/"]]
        if not any(os.path.exists(one + ending) for one in found for ending in _ENDINGS):
            problem = f"{os.path.basename(words[0])} should run {file}, which does not exist"
            where = "" if os.path.isabs(file) else f" in {' or '.join(self.places)}"
            subject = self.item.point(*_find_key(self.item, file))
            yield Finding("ML201", subject, problem + where, "correct the path, or build it")

    def _check_found(self, file: str) -> Iterator[Finding]:
        """Report what is wrong with a program that was found."""
        has_shell = self.item.is_wrapped or not self.item.host.quirks.starts_without_shell
        fault = runnable.find_fault(file, self.path, self.survey.site.platform, has_shell=has_shell)
        if fault:
            yield Finding("ML201", self.subject, fault.problem, fault.fix)

    def _refuse(self, name: str, refused: LaunchError) -> Finding:
        """Return the finding that no program was found, or none that is executable."""
        if isinstance(refused, NotExecutable):
            return Finding("ML201", self.subject, refused.problem, refused.fix)
        title = self.item.host.title
        if correction := self._split(name):
            problem = f"the command is a whole command line, which {title} takes for one name"
            return Finding("ML201", self.subject, problem, f"write {correction}")
        if name[0] == "~" or "$" in name:
            problem = f"{title} does not expand {name}, and there is no such file"
            whole = expand_home(name, self.survey.site.home)
            fix = f"write {whole if whole != name else 'its path'}"
            return Finding("ML201", self.subject, problem, fix)
        if "/" in name:
            manager = _MANAGED.search(name)
            fix = (
                f"write a path that {manager[1]} keeps when versions come and go" if manager else ""
            )
            return Finding("ML201", self.subject, refused.problem, fix or refused.fix)
        problem = f"{name} is not on the PATH that {title} gives ({shorten_path(self.path)})"
        elsewhere = self._find_in_shell(name)
        if not elsewhere:
            return Finding("ML201", self.subject, problem, refused.fix)
        fix = self._explain(name, elsewhere)
        is_launcher = elsewhere == self.survey.launcher and self.item.is_wrapped
        repair = offer_path(self.survey, self.item) if is_launcher else None
        if os.path.exists(elsewhere):
            found = "your shell finds" if self._find_on_path(name) else "it is installed as"
            problem = f"{problem}; {found} {elsewhere}"
        else:
            fix = "run: mcp-launch doctor --fix"  # the script that entries name was never written
        return Finding("ML201", self.subject, problem, fix, repair)

    def _split(self, name: str) -> str:
        """Return how to write a command with its arguments apart; empty if it has none."""
        item = self.item
        shape = planned_changes.find_shape(item.document, item.host, item.path)
        try:
            words = shlex.split(name)
        except ValueError:
            return ""
        if shape is None or len(words) == 1 or name not in item.words:
            return ""
        for place in self.places or ["/"]:
            try:
                plan.find_program(words[0], self.path, place)
            except LaunchError:
                continue
            at = item.words.index(name)
            whole = [*item.words[:at], *words, *item.words[at + 1 :]]
            return wrap.spell_command(item.document, shape, whole, item.words)
        return ""

    def _find_in_shell(self, name: str) -> str:
        if "/" in name:
            return ""
        found = self._find_on_path(name)
        return found or (self.survey.launcher if name == "mcp-launch" else "")

    def _find_on_path(self, name: str) -> str:
        """Return the program that the shell finds; "" if it finds none."""
        path, project = self.survey.environ.get("PATH"), self.survey.site.project
        try:
            return plan.find_program(name, path, project)
        except (CommandNotFound, NotExecutable):
            return ""

    def _explain(self, name: str, elsewhere: str) -> str:
        # With its path alone, npx would not find its node.
        fault = runnable.find_fault(elsewhere, self.path, self.survey.site.platform, has_shell=True)
        if fault:
            directory = os.path.dirname(elsewhere)
            return f"set PATH in the entry's variables to {directory}:{self.path}"  # to be copied
        return f"replace {name} with {elsewhere}"


def _find_key(item: Item, word: str) -> tuple[str | int, ...]:
    """Return where a word of the command is in an entry."""
    if word not in item.words[1:]:
        return ("command",)  # it was expanded, or is a profile's
    at = item.words.index(word, 1)
    return ("command", at) if isinstance(item.entry.get("command"), list) else ("args", at - 1)


def _find_argument(words: list[str]) -> str:
    """Return the file that an interpreter should run; "" if it is uncertain."""
    if not _TAKE_A_FILE.match(os.path.basename(words[0])):
        return ""
    first = next((word for word in words[1:] if word not in {"-u", "-E", "-s", "-S", "-I"}), "")
    is_path = "/" in first and first[0] not in "-~" and not {"$", "\0"} & set(first)
    return first if is_path else ""
