"""What a launch would be: every step up to the start, without starting anything.

Every step is the one that `launch` takes. Where a launch would stop, the error is noted here,
and what caused it is left out, so that everything else can still be seen.

`env` shows one preview; the doctor's checks ask `predict` for that of each entry.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mcp_launch import launch
from mcp_launch.errors import (
    CommandNotFound,
    LaunchError,
    NotExecutable,
    PlaceRefused,
    SourceMissing,
)
from mcp_launch.launch import context, environment, plan, profile
from mcp_launch.launch.plan import Dotenv
from mcp_launch.launch.profile import Profile
from mcp_launch.machine import host_environment, preview_inputs
from mcp_launch.machine.preview_inputs import NO_COMMAND, split
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.documents.positions import Path
    from mcp_launch.hosts.host import Sighting
    from mcp_launch.launch.context import Context, Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.machine.preview_inputs import Situation
    from mcp_launch.machine.survey import Item, Survey


# What was predicted already: most checks of the doctor ask for every entry.
_PREDICTED: WeakKeyDictionary[Survey, dict[tuple[str, str, Path], Preview]] = WeakKeyDictionary()


def predict(survey: Survey, item: Item) -> Preview:
    """Return what a launch of an entry would be, as its host would start it now.

    An entry that is not wrapped is looked at as if it were: `decided` and `problems` are what
    wrapping it would bring. `command`, `server_environ`, `places` and `profile` are as it is now.
    """
    known = _PREDICTED.setdefault(survey, {})
    key = (item.host.name, item.file.path, item.path)
    if key not in known:
        known[key] = Preview(preview_inputs.look_at_entry(survey, item))
    return known[key]


class Preview:
    """What a launch would know and decide, and what would stop it."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.server = profile.name_server(split(situation.arguments)[0], situation.environ)
        self.problems: list[LaunchError] = []
        self.refused: LaunchError | None = None  # why options or profiles make no sense
        self.failed: dict[str, LaunchError] = {}  # variables that were asked for in vain
        self.program: Found | Missing = Missing(["no command was given"])  # its file
        self.place_refused: PlaceRefused | None = None
        sighting = context.look(situation.table, situation.line, situation.environ)
        sighting.cwd = situation.cwd
        self.wanted = self._load(sighting)
        self.asked = copy.copy(self.wanted)  # `wanted` loses what cannot be had
        self.asked.env, self.asked.literals = dict(self.wanted.env), dict(self.wanted.literals)
        self.found = self._resolve(sighting)
        self.dotenv = self._read_dotenv()
        self.decided = self._decide()
        self._find_program()

    @property
    def profile(self) -> Profile | None:
        """Return what the launcher is asked for; None if it is not used, or refuses."""
        return self.asked if self.situation.is_launched and self.refused is None else None

    @property
    def command(self) -> list[str]:
        """Return the server's own command; nothing if the launcher refuses it.

        Nor if its program is a text that only the host can replace.
        """
        argv, item = self.decided.argv, self.situation.item
        is_solved = item is None or host_environment.is_solved(item, argv[0])
        is_stopped = self.refused is not None and self.situation.is_launched
        is_known = argv[0] != NO_COMMAND and is_solved and "\0" not in argv[0]
        return argv if is_known and not is_stopped else []

    @property
    def server_environ(self) -> dict[str, str]:
        """Return what the server gets as things are: from its host, or through the launcher."""
        return self.decided.environ if self.profile else self.situation.environ

    @property
    def places(self) -> list[str]:
        """Return the directories in one of which the server starts; none: nobody knows."""
        places = [*self.situation.places]
        wanted = self.profile.cwd if self.profile else "session"
        if wanted in {"session", "keep"}:
            return places
        if wanted == "project_root":
            roots = map(context.find_project_root, places)
            return [root.value for root in roots if isinstance(root, Found)]
        if wanted == "~" or wanted.startswith("~/"):
            return [self.found.home + wanted[1:]]
        return [os.path.join(place, wanted) for place in places] or [wanted]

    @property
    def is_place_known(self) -> bool:
        """Tell whether it is certain where the host starts it: of a project, in one place."""
        return len(self.situation.places) == 1 and self._is_of_project()

    def list_homes(self) -> list[str]:
        """Return the homes, and `/`, in which the server may start if the host chooses where.

        Of an entry that is not a project's nobody knows where its host is started, unless that
        host starts servers in places of its own.
        """
        item, wanted = self.situation.item, self.profile
        if item is None or wanted is None or wanted.cwd not in {"session", "project_root"}:
            return []
        is_known = item.host.starts_anywhere or self._is_of_project()
        return [one for one in self.situation.places if is_known and self.found.name_home(one)]

    def _is_of_project(self) -> bool:
        item = self.situation.item
        return item is not None and (item.is_of_project or item.path[0] == "projects")

    def list_stopping(self) -> list[LaunchError]:
        """Return what would stop the server as its host starts it now.

        One that is not wrapped needs its program, and nothing that is only ours.
        """
        if self.situation.is_launched:
            return self.problems
        return [one for one in self.problems if isinstance(one, (CommandNotFound, NotExecutable))]

    def _load(self, sighting: Sighting) -> Profile:
        """Return what is wanted; as much of it as makes sense."""
        host, arguments = self.situation.line.host, self.situation.arguments
        for at, words in enumerate((arguments, *_list_less(arguments))):
            try:
                return profile.load(
                    words,
                    self.situation.environ,
                    lambda: host.find_place(sighting).value,
                    is_launch=False,
                )
            except LaunchError as error:
                if at == 0:
                    self.refused = error
                    self.problems.append(error)
        given, words = split(arguments)
        try:
            return Profile(given, words or [NO_COMMAND], [])
        except LaunchError:
            return Profile({}, words or [NO_COMMAND], [])

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
            self.wanted.cwd = "/"  # any will do: it is not shown
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
        """Leave out every variable that depends on what is not there."""
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
            self.program = Missing(["it is relative to the directory"])
            return
        try:
            file = plan.find_program(argv[0], environ.get("PATH"), self.decided.cwd.value)
            self.program = Found(file, "the file that is run")
        except LaunchError as error:
            self.problems.append(error)
            self.program = Missing([error.problem])


def _imagine(found: Context, line: Lineage) -> None:
    """Say of a host that starts nothing now how far it could be asked."""
    process = line.process
    found.contradiction = None  # a process that runs now is at work on something else
    if process is not None:
        runs = f"process {process.identity.pid} ({found.host_title}) runs now"
    else:
        runs = f"no {found.host_title} runs here now"
        for name in found.facts.told_later:
            setattr(found, name, Missing([f"{runs}, which could tell"]))
    found.host = Found(found.host.value, f"it has the entry; {runs}")


def _list_less(arguments: list[str]) -> Iterator[list[str]]:
    """Return the words after `run` with less and less of what may be wrong with them."""
    given, words = split(arguments)
    if not words:
        yield [*arguments, NO_COMMAND]  # a profile without a command may say the rest
    given.pop("--server", None)
    own = [word for name, texts in given.items() for word in _spell(name, texts)]
    yield [*own, "--", *(words or [NO_COMMAND])]


def _spell(option: str, texts: list[str]) -> list[str]:
    return [f"{option}={text}" for text in texts] or [option]
