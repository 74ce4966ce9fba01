"""What becomes of a server: one table.

A server that does not run is the normal case. Deferred start, rest, crash, replacement and restart
are the same few rows: a server is absent, it is needed, it starts, it is greeted, it is ready.
Why it is absent is a reason for people (`why_absent`), not a state.
"""

from __future__ import annotations

STATES = ("absent", "starting", "greeting", "ready", "draining", "ending")

EVENTS = {
    "needed": "a request waits for it, or a user wants it back",
    "started": "its process runs",
    "failed": "it could not be started, or did not complete the handshake in time",
    "hailed": "its first client says `initialize`",
    "greeted": "it has answered the greeting, or there is none",
    "refused": "it refuses the greeting of a client that still waits for the answer",
    "unfit": "another is to take its place: another caller's turn, or a restart was asked for",
    "idle": "nobody needs it",
    "drained": "it has answered everything that it had, or its time for that is over",
    "gone": "all its processes are gone",
}

# (state, event): (next state, what the core does then). What is not here changes nothing.
LIFE = {
    ("absent", "needed"): ("starting", "start"),
    ("starting", "started"): ("greeting", "greet"),
    ("starting", "failed"): ("absent", "fail"),
    ("starting", "gone"): ("absent", "fail"),
    ("greeting", "greeted"): ("ready", "restore"),
    ("greeting", "refused"): ("ready", "flush"),
    ("greeting", "failed"): ("ending", "give_up"),
    ("greeting", "gone"): ("absent", "fail"),
    ("ready", "hailed"): ("greeting", "greet"),
    ("ready", "unfit"): ("draining", "drain"),
    ("ready", "idle"): ("ending", "rest"),
    ("ready", "gone"): ("absent", "bury"),
    ("draining", "drained"): ("ending", "replace"),
    ("draining", "gone"): ("absent", "bury"),
    ("ending", "gone"): ("absent", "bury"),
}
