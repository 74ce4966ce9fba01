"""Preview a launch: every step up to the start, without starting anything.

The steps are those of `launch`. Where a launch would stop, the preview records the error and
leaves out its cause, so that it can still show everything else.

`env` shows one preview; the doctor's checks call `predict` for each entry.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mcp_launch import launch, state
from mcp_launch.errors import (
    CommandNotFound,
    LaunchError,
    NotExecutable,
    PlaceRefused,
    ProfileRefused,
    SourceMissing,
)
from mcp_launch.launch import context, environment, plan, profile
from mcp_launch.launch.plan import Dotenv
from mcp_launch.launch.profile import Profile
from mcp_launch.machine import host_environment, preview_inputs
from mcp_launch.machine.preview_inputs import NO_COMMAND, split
from mcp_launch.values import Found, Missing, expand_home

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.documents.positions import Path
    from mcp_launch.hosts import Sighting
    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.machine.preview_inputs import Situation
    from mcp_launch.machine.survey import Item, Survey


# Previews already made: most checks of the doctor need one for every entry.
_PREDICTED: WeakKeyDictionary[Survey, dict[tuple[str, str, Path], Preview]] = WeakKeyDictionary()


def predict(survey: Survey, item: Item) -> Preview:
    """Return the preview of an entry, as its host would start it now.

    An unwrapped entry is treated as if it were wrapped: `decided` and `problems` show the
    effect of wrapping it. `command`, `server_environ`, `places` and `profile` show it as it is.
    """
    known = _PREDICTED.setdefault(survey, {})
    key = (item.host.name, item.file.path, item.path)
    if key not in known:
        known[key] = Preview(preview_inputs.look_at_entry(survey, item))
    return known[key]


class Preview:
    """What a launch would find out and decide, and what would stop it."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.server = profile.name_server(split(situation.arguments)[0], situation.environ)
        self.problems: list[LaunchError] = []
        self.refused: LaunchError | None = None  # why options or profiles are invalid
        self.failed: dict[str, LaunchError] = {}  # requested variables that have no value
        self.program: Found | Missing = Missing(["no command was given"])  # the server's file
        self.place_refused: PlaceRefused | None = None
        self.dotenv_refused: SourceMissing | None = None
        sighting = context.look(situation.table, situation.line, situation.environ)
        sighting.cwd = situation.cwd
        self.wanted = self._load()
        self.asked = copy.copy(self.wanted)  # as requested; `wanted` loses what has no value
        self.asked.env, self.asked.literals = dict(self.wanted.env), dict(self.wanted.literals)
        self.found = self._resolve(sighting)
        self.dotenv = self._read_dotenv()
        self.decided = self._decide()
        self._find_program()

    @property
    def profile(self) -> Profile | None:
        """Return the profile as requested; None if the launcher is not used, or refuses it."""
        return self.asked if self.situation.is_launched and self.refused is None else None

    @property
    def command(self) -> list[str]:
        """Return the server's own command.

        Empty if the launcher refuses the launch, or if only the host can expand its program.
        """
        argv, item = self.wanted.command, self.situation.item
        is_solved = item is None or host_environment.is_solved(item, argv[0])
        # An invalid profile stops the launch, too, but the entry's own command is known.
        is_known_anyway = isinstance(self.refused, ProfileRefused)
        is_stopped = self.refused is not None and not is_known_anyway and self.situation.is_launched
        is_known = argv[0] != NO_COMMAND and is_solved and "\0" not in argv[0]
        return argv if is_known and not is_stopped else []

    @property
    def server_environ(self) -> dict[str, str]:
        """Return the environment that the server gets now: from its host, or from the launcher."""
        return self.decided.environ if self.profile else self.situation.environ

    @property
    def places(self) -> list[str]:
        """Return the directories where the server may start; empty: unknown."""
        places = [*self.situation.places]
        wanted = self.profile.cwd if self.profile else "session"
        if wanted in {"session", "keep"}:
            return places
        if wanted == "project_root":
            roots = map(context.find_project_root, places)
            return [root.value for root in roots if isinstance(root, Found)]
        wanted = expand_home(wanted, self.found.home)
        if os.path.isabs(wanted):
            return [wanted]
        return [os.path.join(place, wanted) for place in places] or [wanted]

    @property
    def is_place_known(self) -> bool:
        """Return whether the host is sure to start it in one directory: it is a project's entry."""
        return len(self.situation.places) == 1 and self._is_of_project()

    def list_homes(self) -> list[str]:
        """Return the homes, and `/`, where the server may start if the host chooses.

        Empty for an entry outside of projects, because its host may be started anywhere, unless
        that host starts servers in directories of its own.
        """
        item, wanted = self.situation.item, self.profile
        if item is None or wanted is None or wanted.cwd not in {"session", "project_root"}:
            return []
        is_known = item.starts_anywhere or self._is_of_project()
        return [one for one in self.situation.places if is_known and self.found.name_home(one)]

    def _is_of_project(self) -> bool:
        item = self.situation.item
        return item is not None and (item.is_of_project or item.path[0] == "projects")

    def list_stopping(self) -> list[LaunchError]:
        """Return the problems that would stop the server as its host starts it now.

        An unwrapped one only needs its program: our own errors do not concern it.
        """
        if self.situation.is_launched:
            return self.problems
        return [one for one in self.problems if isinstance(one, (CommandNotFound, NotExecutable))]

    def _load(self) -> Profile:
        """Return the profile that the launch asks for, or as much of it as is valid."""
        arguments = self.situation.arguments
        for at, words in enumerate((arguments, *_list_less(arguments))):
            try:
                wanted = profile.load(words, self.situation.environ)
            except LaunchError as error:
                if at == 0:
                    self._refuse(error)
            else:
                self._check_sharing(wanted)
                return wanted
        given, words = split(arguments)
        try:
            return Profile(given, words or [NO_COMMAND], [])
        except LaunchError:
            return Profile({}, words or [NO_COMMAND], [])

    def _check_sharing(self, wanted: Profile) -> None:
        try:
            launch.refuse_sharing(wanted)
        except LaunchError as error:
            if self.refused is None:
                self._refuse(error)

    def _refuse(self, error: LaunchError) -> None:
        self.refused = error
        self.problems.append(error)

    def _resolve(self, sighting: Sighting) -> Context:
        situation, wanted = self.situation, self.wanted
        line = situation.line
        sighting.list_confirmed_threads = lambda: launch.list_taken_threads(
            situation.table, line, wanted, situation.environ
        )
        found = context.find_context(sighting, line)
        if situation.item is not None:
            _imagine(found, line)
            found.assume_host_environ(situation.around)
        try:
            if situation.item is None:
                context.verify_lineage(situation.table, line, strict=wanted.strict)
            launch.refuse_guess(wanted, found)
        except LaunchError as error:
            self.problems.append(error)
        return found

    def _read_dotenv(self) -> Dotenv:
        try:
            return launch.read_dotenv(self.wanted, self.found)
        except SourceMissing as error:
            self._give_up("dotenv", error)
            self.dotenv_refused = error
            self.wanted.dotenv = []
            return Dotenv({}, "")

    def _decide(self) -> Plan:
        facts = (self.found, self.situation.environ, self.dotenv)
        try:
            environment.decide_cwd(
                self.wanted.cwd,
                self.found,
                origin=self.wanted.cwd_origin,
                is_strict=self.wanted.strict,
            )
        except PlaceRefused as error:
            self._give_up("cwd", error)
            self.failed["PWD"] = self.place_refused = error
            self.wanted.cwd = "/"  # any directory will do: it is not shown
        for kind in ("literals", "env"):
            for name in list(getattr(self.wanted, kind)):
                alone = copy.copy(self.wanted)
                alone.literals, alone.env = {}, {}
                getattr(alone, kind)[name] = getattr(self.wanted, kind)[name]
                try:
                    plan.decide(alone, *facts)
                except SourceMissing as error:
                    self.problems.append(error)
                    self.failed[name] = error
                    del getattr(self.wanted, kind)[name]
        decided = plan.decide(self.wanted, *facts)
        for name in self.failed:
            decided.environ.pop(name, None)
        return decided

    def _give_up(self, source: str, error: LaunchError) -> None:
        """Drop every variable that comes from a source which failed."""
        self.problems.append(error)
        for name, variable in list(self.wanted.env.items()):
            if variable.source == source:
                self.failed[name] = error
                del self.wanted.env[name]

    def _find_program(self) -> None:
        argv, environ = self.decided.argv, self.decided.environ
        is_relative = "/" in argv[0] and not os.path.isabs(argv[0])
        if argv[0] == NO_COMMAND:
            return
        if is_relative and self.place_refused:
            self.program = Missing(["it is relative to the working directory"])
            return
        try:
            file = plan.find_program(argv[0], environ.get("PATH"), self.decided.cwd.value)
            self.decided.program = file
            plan.leave_out_runner(
                self.decided, self.wanted, state.find_directory(self.situation.environ)
            )
            self.program = Found(self.decided.program, self._explain_program())
        except LaunchError as error:
            self.problems.append(error)
            self.program = Missing([error.problem])

    def _explain_program(self) -> str:
        runner = self.decided.runner
        if runner is None:
            return "the file to execute"
        does = "is left out" if runner.is_left_out else "is not left out"
        return f"{os.path.basename(self.wanted.command[0])} {does}: {runner.why}"


def _imagine(found: Context, line: Lineage) -> None:
    """Adapt a context to a host that is not starting a server now."""
    process = line.process
    found.contradiction = None  # a running host is busy with other sessions
    if process is not None:
        runs = f"process {process.identity.pid} ({found.host_title}) runs now"
    else:
        runs = f"no {found.host_title} runs here now"
        for name in found.facts.told_later:
            setattr(found, name, Missing([f"{runs} to show it"]))
    found.host = Found(found.host.value, f"it has the entry; {runs}")


def _list_less(arguments: list[str]) -> Iterator[list[str]]:
    """Yield the words after `run` with fewer and fewer of the parts that may be invalid."""
    given, words = split(arguments)
    if not words:
        yield [*arguments, NO_COMMAND]  # a profile may give everything but the command
    given.pop("--server", None)
    own = [word for name, texts in given.items() for word in _spell(name, texts)]
    yield [*own, "--", *(words or [NO_COMMAND])]


def _spell(option: str, texts: list[str]) -> list[str]:
    return [f"{option}={text}" for text in texts] or [option]
