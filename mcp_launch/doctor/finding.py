"""What the doctor can find: a stable code for each, a level and a title.

A code never changes its meaning: scripts rely on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from mcp_launch.machine.subject import Subject
    from mcp_launch.machine.wrap_hint import Reach

Level = Literal["error", "warning", "note"]

# Worst first.
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


class Check(NamedTuple):
    """One thing that can be wrong."""

    level: Level
    title: str


CHECKS: dict[str, Check] = {
    "ML001": Check("error", "a check could not run"),
    # The launcher itself.
    "ML010": Check("error", "mcp-launch is not installed where hosts could find it"),
    "ML011": Check("warning", "mcp-launch is installed where it will not last"),
    "ML012": Check("error", "the directory for leases and logs cannot be used"),
    "ML013": Check("error", "a profile cannot be used"),
    "ML015": Check("warning", "the doctor's ignore list is invalid"),
    "ML017": Check("note", "files outside this project are wrapped, or wrapped files are gone"),
    "ML018": Check("warning", "a policy of a profile matches no tool"),
    "ML019": Check("warning", "a profile applies to no server"),
    # What the hosts' files say.
    "ML101": Check("error", "a configuration file cannot be read"),
    "ML102": Check("warning", "the host ignores a key"),
    "ML103": Check("error", "Codex refuses a source in env_vars"),
    "ML104": Check("warning", "the host ignores cwd"),
    "ML105": Check("warning", "a relative cwd depends on where Codex's daemon was started"),
    "ML106": Check("error", "a variable in the entry is not replaced"),
    "ML107": Check("warning", "the same server is in several scopes"),
    "ML108": Check("error", "the host refuses the server's name"),
    "ML109": Check("warning", "Codex does not trust the project"),
    "ML110": Check("warning", "Claude Code has not approved a project's server"),
    "ML111": Check("error", "a secret is in a file that Git tracks"),
    "ML112": Check("warning", "an agent has too little time to answer"),
    "ML113": Check("error", "the package is not what its name suggests"),
    "ML114": Check("error", "Codex has no mcp-server any more"),
    "ML115": Check("warning", "the command begins with cmd /c"),
    "ML116": Check("error", "the launcher of a wrapped entry is gone"),
    "ML117": Check("note", "the entry is not wrapped"),
    "ML118": Check("warning", "a managed allowlist compares commands"),
    "ML119": Check("warning", "a plugin defines the same server"),
    "ML120": Check("error", "Codex refuses a key of the entry"),
    "ML121": Check("error", "the launcher refuses the entry"),
    "ML122": Check("error", "the host skips the entry"),
    "ML123": Check("note", "the host does not notice that a server's tools have changed"),
    "ML124": Check("error", "the entry has no command that its host could start"),
    "ML125": Check("note", "a wrapped entry needs the program where it is"),
    "ML126": Check("error", "a variable of the entry stops the launcher"),
    # What a server gets when its host starts it.
    "ML201": Check("error", "the command is not found"),
    "ML202": Check("note", "the command depends on a version manager"),
    "ML203": Check("error", "the command is not executable"),
    "ML204": Check("error", "the command cannot be run on this machine"),
    "ML205": Check("error", "the host strips a variable that the server needs"),
    "ML206": Check("warning", "servers inherit the host's credentials"),
    "ML207": Check("error", "the directory of the entry does not exist"),
    "ML208": Check("note", "the host starts the server in a home or in /"),
    "ML209": Check("error", "a remote server needs a variable that is not set"),
    # What a server does when it is started.
    "ML301": Check("error", "the server does not start"),
    "ML302": Check("error", "the server does not answer"),
    "ML303": Check("warning", "the server is too slow for its host"),
    "ML304": Check("warning", "the server prints lines that are not messages"),
    "ML305": Check("warning", "the server has too many tools for its host"),
    "ML306": Check("warning", "a tool's name is refused by its host"),
    "ML307": Check("warning", "the server keeps running after its input ends"),
    "ML308": Check("warning", "the server leaves processes behind"),
    "ML309": Check("error", "the server and its host speak different protocols"),
    # What runs now.
    "ML401": Check("warning", "the host of a server is gone"),
    "ML402": Check("warning", "several generations of a server run under one host"),
    "ML403": Check("error", "servers of different hosts share a pipe"),
    "ML404": Check("error", "a server's identity is contradictory"),
    "ML405": Check("note", "the session of a server has changed"),
    "ML406": Check("warning", "sessions share a server through agent-deck's pool"),
    "ML407": Check("note", "a lease is stale"),
    "ML408": Check("note", "a server runs in a home or in /"),
    "ML409": Check("note", "servers that nobody calls take much memory"),
    "ML410": Check("warning", "a server runs in its host's directory, not in its session's"),
    "ML411": Check("note", "sessions run their own servers, although they could share one"),
}


class Repair(NamedTuple):
    """What `--fix` can safely do about a finding."""

    what: str  # for a person: "wrap docs in ~/.codex/config.toml"; the same text for the same act
    act: Callable[[], None]  # raises LaunchError when it cannot be done


class Finding(NamedTuple):
    """One thing that is wrong."""

    code: str
    subject: Subject
    message: str  # what is wrong, in a sentence without its full stop
    fix: str  # what to do, in the imperative
    repair: Repair | None = None
    reach: Reach | None = None  # which files the wrap command would change, if wrapping is the fix
    servers: tuple[str, ...] = ()  # all that it is about, if several
    details: tuple[str, ...] = ()  # lines that a program printed

    @property
    def level(self) -> Level:
        """The severity of the finding."""
        return CHECKS[self.code].level

    @property
    def title(self) -> str:
        """The meaning of the code, in a few words."""
        return CHECKS[self.code].title


def report_failure(subject: Subject, what: str, error: Exception) -> Finding:
    """Return the finding that a check failed for an unexpected reason."""
    return Finding(
        "ML001",
        subject,
        f"{what} failed: {type(error).__name__}: {error}",
        "report this to the maintainers; all other checks ran",
    )
