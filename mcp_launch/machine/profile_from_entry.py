"""Make a profile from a host's entry.

By default the profile has the settings only, and the entry keeps its command and its variables,
so that nothing is in two places. A whole profile also has these. What only the host can expand
(`${NAME}` in most of them) stays in the entry, or is taken from the environment it gives us.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from mcp_launch import masking
from mcp_launch.config_files import wrap
from mcp_launch.config_files.profile_text import Table
from mcp_launch.errors import UsageError
from mcp_launch.launch import options, profile, profile_file
from mcp_launch.machine import host_environment, preview_inputs
from mcp_launch.values import expand_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from mcp_launch.machine.survey import Item, Survey

    # What of an entry goes into a profile; its command with the settings, its variables with both.
    Content = Literal["settings", "command", "everything"]

# What a profile without any setting suggests.
_SUGGESTIONS = (
    "Settings that you may want:",
    'cwd = "project_root"',
    'pass_env = "safe"',
    'env_vars = [{ name = "PROJECT", source = "project_root" }]',
)


class ProfileDraft(NamedTuple):
    """A profile made from an entry."""

    table: Table
    masked: Table  # the same without its secrets
    notes: list[str]


def name_profile(item: Item) -> str:
    """Return the name under which the entry's launches look for a profile."""
    return profile.name_server(item.options, item.variables) or item.name


def make(survey: Survey, item: Item, content: Content, *, is_projects: bool) -> ProfileDraft:
    """Return the profile for an entry.

    Raises:
        UsageError: Its options are unknown, it would put a secret into a project's file, or move
            what only the host expands.

    """
    if item.is_wrapped:
        options.split(item.words[2:])  # a later version may have written options into it
    elif wrap.is_wrapped_otherwise(item.words):
        raise UsageError(
            f"the entry of {item.name} starts mcp-launch through another program",
            fix=f"write {item.name}'s profile by hand, or let the entry start mcp-launch itself",
        )
    maker = _Maker(survey, item, is_projects=is_projects)
    maker.take_options()
    maker.take_cwd()
    maker.take_env_vars()
    if content == "everything":
        maker.take_variables()
    if content != "settings":
        maker.take_command()
    return maker.finish()


class _Maker:
    def __init__(self, survey: Survey, item: Item, *, is_projects: bool) -> None:
        self._survey = survey
        self._item = item
        self._is_projects = is_projects
        self._keys: dict[str, Any] = {}
        self._variables: dict[str, dict[str, Any]] = {}  # in env_vars, by name
        self._literals: dict[str, str] = {}
        self._notes: list[str] = []

    def take_options(self) -> None:
        for option, texts in self._item.options.items():
            key = option[2:].replace("-", "_")
            if option == "--env":
                for text in texts:
                    name, _, source = text.strip().partition("=")
                    self._add_variable(name, source, is_required=True)
            elif option == "--set":
                self._take_fixed(dict(options.split_fixed(text) for text in texts))
            elif option == "--pass-env":
                words = texts[-1].split(",")
                self._keys[key] = words[0] if words[0] in {"all", "safe"} else words
            elif option == "--dotenv":
                self._keys[key] = texts[0] if len(texts) == 1 else texts
            elif option in {"--max-servers", "--max-concurrent"}:
                self._keys[key] = _read_number(texts[-1])
            elif option in options.SWITCHES:
                self._keys[key] = True
            elif option != "--server":
                self._keys[key] = texts[-1]

    def _take_fixed(self, given: dict[str, str]) -> None:
        for name, text in given.items():
            if self._is_projects and (masking.is_secret_name(name) or masking.looks_secret(text)):
                raise UsageError(
                    f"the value of {name} (--set) may be a secret, which must not be in a "
                    "project's file",
                    fix="leave out --project, or take it from a dotenv file",
                )
        self._literals |= given
        for name in given:
            self._variables.pop(name, None)

    def take_cwd(self) -> None:
        cwd, item = self._item.cwd, self._item
        if not isinstance(cwd, str) or not cwd or "cwd" in self._keys:
            return
        if not preview_inputs.has_cwd(item) or not preview_inputs.list_places(self._survey, item):
            return  # the host ignores it, or nobody knows what it is relative to
        if not host_environment.is_solved(item, cwd):
            self._notes.append(f"cwd = {cwd} stays in the entry: only {item.host.title} expands it")
            return
        expands = item.host.quirks.texts.expands_tilde
        self._keys["cwd"] = expand_home(cwd, self._survey.site.home) if expands else cwd

    def take_env_vars(self) -> None:
        known = self._item.host.quirks.environment.has_env_vars
        wanted = self._item.entry.get("env_vars") if known else None
        for one in wanted if isinstance(wanted, list) else []:
            facts = one if isinstance(one, dict) else {"name": one}
            source = str(facts.get("source", "local"))
            if source not in options.SOURCES and source not in options.SPELLINGS:
                self._notes.append(
                    f"{facts.get('name')} stays in the entry: we do not know {source}"
                )
            else:
                self._add_variable(str(facts.get("name")), source, is_required=source != "local")

    def take_variables(self) -> None:
        """Take the entry's variables: their values, or in a project's file only their names."""
        for name, text in self._item.variables.items():
            if self._is_projects or self._is_expanded(text):
                self._add_variable(name, "local", is_required=self._is_projects)
            elif self._check_name(name) and name not in {*self._variables, *self._literals}:
                # In a profile, ${ begins a reference.
                self._literals[name] = text.replace("${", "$${")

    def take_command(self) -> None:
        words = self._item.command
        if not words:
            raise UsageError(
                f"the entry of {self._item.name} has no command: it is in a profile already",
                fix="leave out --whole and --move",
            )
        is_secret = masking.mask(words) != words
        if self._is_projects and is_secret:
            raise UsageError(
                f"the command of {self._item.name} has a secret in it, which must not be in a "
                "project's file",
                fix="pass it to the server in a variable, or leave out --project",
            )
        if any(self._is_expanded(word) for word in words):
            raise UsageError(
                f"{self._item.host.title} expands a variable in the command of {self._item.name}, "
                "and would not in a profile",
                fix="write the value itself into the entry, or leave the command there",
            )
        if self._item.host.quirks.texts.expands_tilde:
            words = [expand_home(word, self._survey.site.home) for word in words]
        self._keys = {"command": words[0], "args": words[1:], **self._keys}

    def finish(self) -> ProfileDraft:
        keys = {
            **self._keys,
            "env": self._literals,
            "env_vars": [
                one["name"] if one.keys() == {"name"} else one for one in self._variables.values()
            ],
        }
        keys = {key: keys[key] for key in profile_file.KEYS if keys.get(key)}
        remarks = [] if "command" in keys else [*self._list_remarks(bool(keys))]
        hidden = dict(keys)
        if "command" in keys:
            program, *words = masking.mask([keys["command"], *keys.get("args", [])])
            hidden |= {"command": program, **({"args": words} if words else {})}
        if "env" in keys:
            hidden["env"] = dict.fromkeys(keys["env"], masking.MASK)
        name = name_profile(self._item)
        return ProfileDraft(Table(name, keys, remarks), Table(name, hidden, remarks), self._notes)

    def _list_remarks(self, has_keys: bool) -> Iterator[str]:  # noqa: FBT001  # internal
        yield f"The command stays in {self._item.host.title}'s entry."
        if not has_keys:
            yield from _SUGGESTIONS

    def _add_variable(self, name: str, source: str, *, is_required: bool) -> None:
        if not self._check_name(name) or name in {*self._variables, *self._literals}:
            return
        one: dict[str, Any] = {"name": name}
        if source != "local":
            one["source"] = source
        if is_required != (source != "local"):
            one["required"] = is_required
        self._variables[name] = one

    def _check_name(self, name: str) -> bool:
        """Return whether a profile can set a variable; else note that it stays in the entry."""
        is_own = name.startswith("MCP_LAUNCH_")
        if profile_file.NAME.fullmatch(name) and not is_own:
            return True
        why = "it is for mcp-launch" if is_own else "a profile does not take such a name"
        self._notes.append(f"{name} stays in the entry: {why}")
        return False

    def _is_expanded(self, text: str) -> bool:
        texts = self._item.host.quirks.texts
        if texts.replaces_nothing:
            return False
        is_borrowed = texts.borrowing is not None and texts.borrowing.search(text) is not None
        return is_borrowed or not host_environment.is_solved(self._item, text)


def _read_number(text: str) -> int | str:
    """Return the number; a text that is none as it is, because the parser says why."""
    return int(text) if text.isascii() and text.isdigit() else text
