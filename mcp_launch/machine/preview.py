"""What a launch would be: its whole story up to the start, told without starting anything.

Every step is the one that `launch` takes. Where it would stop there, it is noted here and
left out, so that everything else can still be seen.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, NamedTuple

from mcp_launch import launch
from mcp_launch.errors import (
    CommandNotFound,
    LaunchError,
    NotExecutable,
    PlaceRefused,
    ProfileRefused,
    SourceMissing,
)
from mcp_launch.launch import context, environment, lineage, options, plan, profile, profile_reader
from mcp_launch.launch.plan import Dotenv
from mcp_launch.launch.profile import Profile
from mcp_launch.machine.preview_inputs import NO_COMMAND, split
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp_launch.hosts.host import Sighting
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.lineage import Lineage
    from mcp_launch.launch.plan import Plan
    from mcp_launch.machine.preview_inputs import Situation
    from mcp_launch.state.profile_cache import Record


# Where a profile names the variables that it gives.
_GIVEN = ("literals", "variables")


class Value(NamedTuple):
    """A variable that the server would get."""

    name: str
    text: str
    origin: str
    is_set: bool  # by us; else it is handed on as it is


class Prospect:
    """What a launch would know and decide, and what would stop it."""

    def __init__(self, situation: Situation) -> None:
        self.situation = situation
        self.server = profile.name_server(split(situation.arguments)[0], situation.environ)
        self.problems: list[LaunchError] = []
        self.failed: dict[str, LaunchError] = {}  # variables that were asked for in vain
        self.program: Found | Missing = Missing(["no command was given"])  # its file
        self.has_place = True
        sighting = _look(situation)
        self.wanted = self._load(sighting)
        self.asked = copy.copy(self.wanted)  # `wanted` loses what cannot be had
        self.asked.env, self.asked.literals = dict(self.wanted.env), dict(self.wanted.literals)
        self.found = self._resolve(sighting)
        self.dotenv = self._read_dotenv()
        self.decided = self._decide()
        self._find_program()

    def list_values(self) -> Iterator[Value]:
        """Return every variable that the server would get: what we set, then the rest."""
        made = self.decided.set_variables
        environ = self.decided.environ
        for name in (name for name in made if name in environ):
            yield Value(name, environ[name], self._name_origin(name), is_set=True)
        for name in sorted(environ.keys() - made.keys()):
            origin = self.situation.origins.get(name, "inherited")
            yield Value(name, environ[name], origin, is_set=False)

    def list_notes(self) -> list[str]:
        """Return what is worth knowing, and stops nothing."""
        home = self.decided.place_note
        where = [f"the server's directory is {home}, not a project"] if home else []
        passed_over = self.wanted.passed_over
        without = [f"the launch would go on without it: {passed_over}"] if passed_over else []
        return [*self.situation.notes, *where, *without]

    def list_stopping(self) -> list[LaunchError]:
        """Return what would stop the server as its host starts it now.

        One that is not wrapped needs its program, and nothing that is only ours.
        """
        if self.situation.is_launched:
            return self.problems
        return [one for one in self.problems if isinstance(one, (CommandNotFound, NotExecutable))]

    def list_removed(self) -> dict[str, str]:
        """Return what the launcher would have and the server would not, and why."""
        got, situation = self.decided.environ, self.situation
        left = {name: self.tell_why_removed(name) for name in sorted(situation.environ)}
        left |= situation.withheld
        return {name: why for name, why in left.items() if name not in got}

    def tell_why_removed(self, name: str) -> str:
        """Return why an inherited variable is not handed on; nothing if it may be."""
        if name in self.failed:
            return "the launch would stop for it"
        if why := self.decided.kept_back.get(name):
            return f"kept back by --pass-env {','.join(self.wanted.pass_env)}: {why}"
        if options.is_own_variable(name):
            return "for the launcher, not for servers"
        if name in self.decided.unset_variables:
            return "not this session's"
        if name in self.asked.env:
            return f"asked for from {self.asked.env[name].source}, which has none"
        return "" if name else "no program can be given it"

    def list_profiles(self) -> Iterator[tuple[str, Record | None, str]]:
        """Return the files that may speak for the server, the more important first.

        Each with what it says, or why it says nothing.
        """
        environ = self.situation.environ
        own = profile.name_table(self.server)
        path = profile.locate_project_file(self.found.place.value)
        if self.server and path:
            record, refused = self._look_at_projects()
            yield path, record, _tell_why(path, own, refused)
        path = profile.locate_user_file(environ)
        tables: dict[str, Record] = {}
        refused = None
        try:
            tables = profile.look_at_users(self.server, environ, is_launch=False)
        except ProfileRefused as error:
            refused = error
        if self.server:
            yield path, tables.get(own), _tell_why(path, own, refused)
        if profile.DEFAULTS in tables:
            yield f"{profile.DEFAULTS} in {path}", tables[profile.DEFAULTS], ""

    def find_untrusted(self, name: str) -> ProfileRefused | None:
        """Return why a project's file may not be used, if it would give a variable."""
        _, refused = self._look_at_projects()
        if refused is None:
            return None
        path = profile.locate_project_file(self.found.place.value)
        try:
            told = profile_reader.read(path, None, is_projects=True)["servers"].get(self.server, {})
        except ProfileRefused:
            return refused  # nobody knows what it would give
        return refused if any(name in told.get(key, ()) for key in _GIVEN) else None

    def _look_at_projects(self) -> tuple[Record | None, ProfileRefused | None]:
        if not self.server:
            return None, None
        environ, place = self.situation.environ, self.found.place.value
        try:
            return profile.look_at_projects(self.server, environ, place, is_launch=False), None
        except ProfileRefused as refused:
            return None, refused

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
                self.problems += [error] if at == 0 else []
        given, words = split(arguments)
        try:
            return Profile(given, words or [NO_COMMAND], [])
        except LaunchError:
            return Profile({}, words or [NO_COMMAND], [])

    def _resolve(self, sighting: Sighting) -> Context:
        situation, wanted = self.situation, self.wanted
        line = situation.line
        sighting.list_confirmed_threads = lambda: launch.list_taken(
            situation.table, line, wanted, situation.environ
        )
        found = context.find_context(sighting, line)
        if situation.item is not None:
            _imagine(found, line)
            found.imagine_host_environ(situation.around)
        try:
            if situation.item is None:
                lineage.verify(situation.table, line, strict=wanted.strict)
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
            self.failed["PWD"] = error
            self.wanted.cwd = "/"  # any will do: it is not shown
            self.has_place = False
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
        if is_relative and not self.has_place:
            self.program = Missing(["it is relative to the directory"])
            return
        try:
            file = plan.find_program(argv[0], environ.get("PATH"), self.decided.cwd.value)
            self.program = Found(file, "the file that is run")
        except LaunchError as error:
            self.problems.append(error)
            self.program = Missing([error.problem])

    def _name_origin(self, name: str) -> str:
        origin = self.decided.set_variables[name]
        if name in self.dotenv.values and origin == self.dotenv.searched:
            return f"dotenv {origin}"
        if name in self.wanted.literals:
            records = self.list_profiles()
            says = [path for path, record, _ in records if record and name in record.literals]
            return " ".join([origin, *says[:1]])
        return origin


def _tell_why(path: str, table: str, refused: ProfileRefused | None) -> str:
    """Return why a file says nothing."""
    if refused is not None:
        return refused.problem
    return f"it has no {table}" if os.path.exists(path) else "there is no such file"


def _look(situation: Situation) -> Sighting:
    sighting = context.look(situation.table, situation.line, situation.environ)
    sighting.cwd = situation.cwd
    return sighting


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
