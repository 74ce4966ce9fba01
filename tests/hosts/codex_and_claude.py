"""The two hosts that tests run in turn."""

from __future__ import annotations

from hosts import claude, codex

HOSTS = {"codex": codex, "claude": claude}
