"""What came out of a launch, for each party: as it was recorded, or as it comes out now."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playbooks import Playbook, Step

# Steps that answer a question of the core's, in the middle of an event.
ANSWERS = {("plan", "decided"), ("plan", "refused"), ("plan", "unfit"), ("caller", "changed")}


@dataclass
class Outcome:
    """What came out of a launch, for each party."""

    host: bytes = b""
    servers: dict[str, bytes] = field(default_factory=dict)
    starts: list[Any] = field(default_factory=list)  # directory and held variables
    wanted: list[Any] = field(default_factory=list)  # session, thread and place of plans
    ends: list[tuple[str, str]] = field(default_factory=list)  # server and how
    closed: set[str] = field(default_factory=set)  # what was closed while it was in use
    refusals: list[str] = field(default_factory=list)
    failure: tuple[str, str, int] | None = None
    exit_code: int | None = None
    totals: dict[str, Any] = field(default_factory=dict)
    timers: list[str] = field(default_factory=list)  # that fired, but for the lease's
    unheard: int = 0  # events after the end
    # How much the host and the servers had got before each event: nothing may be late.
    progress: list[tuple[int, int]] = field(default_factory=list)

    def note_progress(self, step: Step) -> None:
        """Take note of how much has come out before an event."""
        if step.verb != "broken" and (step.party, step.verb) not in ANSWERS:
            sent = sum(len(data) for data in self.servers.values())
            self.progress.append((len(self.host), sent))

    def list_differences(self, other: Outcome) -> dict[str, tuple[object, object]]:
        """Return what differs, by name, as it is here and there."""
        mine, theirs = self._flatten(), other._flatten()
        return {
            name: (mine.get(name), theirs.get(name))
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        }

    def _flatten(self) -> dict[str, object]:
        servers = {name: data for name, data in self.servers.items() if data}
        rest = {name: value for name, value in vars(self).items() if name != "servers"}
        return rest | servers


def describe_recording(playbook: Playbook) -> Outcome:
    """Return what came out of the recorded launch."""
    outcome = Outcome()
    unused: set[str] = set()  # ends of servers that have ended or closed them
    for step in playbook.steps:
        if step.is_input:
            outcome.note_progress(step)
            unused |= {f"{step.party} {what}" for what in _UNUSED_AFTER.get(step.verb, ())}
            if step.party == "timer" and step.verb != "lease":
                outcome.timers.append(step.verb)
        elif step.verb == "data" and step.party == "host":
            outcome.host += step.value
        elif step.party == "launch":
            _describe_end(outcome, step)
        elif step.party == "plan":
            outcome.wanted.append([_value(step.value[name]) for name in _WANTED])
        elif step.party == "log" and step.value.startswith("refused: "):
            outcome.refusals.append(step.value)
        elif step.party == "host" and step.verb in {"close", "close-input"}:
            outcome.closed.add(f"{step.party} {step.verb}")
        elif step.party.startswith("server-"):
            _describe_server(outcome, step, unused)
    return outcome


_UNUSED_AFTER = {
    "exited": ("input", "output"),
    "gone": ("input", "output"),
    "end": ("output",),
    "broken": ("input",),
}

_WANTED = ("session", "thread", "place")


def _describe_end(outcome: Outcome, step: Step) -> None:
    if step.verb == "exit":
        outcome.exit_code = step.value
    elif step.verb == "failed":
        outcome.failure = (step.value["problem"], step.value["fix"], step.value["exit_code"])
    else:
        outcome.totals = {
            name: step.value[name] for name in ("outlasted_input", "noise", "unanswered")
        }


def _describe_server(outcome: Outcome, step: Step, unused: set[str]) -> None:
    if step.verb == "data":
        outcome.servers[step.party] = outcome.servers.get(step.party, b"") + step.value
    elif step.verb == "start":
        outcome.starts.append((step.value["cwd"][0], step.value["held"]))
    elif step.verb in {"replaced", "input-ended"}:
        outcome.ends.append((step.party, step.verb))
    elif step.verb == "signal":
        outcome.ends.append((step.party, f"signal {step.value}"))
    elif step.verb.startswith("close"):
        what = "output" if step.verb == "close-output" else "input"
        outcome.closed |= {f"{step.party} {what}"} - unused


def _value(recorded: Any) -> str | None:
    return recorded[0] if isinstance(recorded, list) else None
