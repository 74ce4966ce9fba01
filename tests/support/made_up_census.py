"""A census without processes: servers, sessions and hosts with whatever a test needs."""

from __future__ import annotations

from typing import Any

from mcp_launch.machine.pipe_ends import End
from mcp_launch.machine.process_snapshot import LeasedLaunch, Server
from mcp_launch.machine.running import Census, HostProcess, Session
from mcp_launch.machine.units import Memory

HOME = "/home/ann"


def make_launch(**facts: Any) -> LeasedLaunch:
    """Return what a lease says of a launch."""
    usual: dict[str, Any] = {
        "id": "8fe1",
        "server": 1,
        "state": "confirmed",
        "evidence": "the call's _meta.threadId",
        "calls": 0,
        "last_call": None,
        "restarts": 0,
        "refusals": 0,
        "noise": 0,
        "place_note": "",
        "outer": "",
        "runner": None,
    }
    return LeasedLaunch(**(usual | facts))


def make_server(
    name: str, pid: int, *, megabytes: float = 46, launch: LeasedLaunch | None = None, **facts: Any
) -> Server:
    """Return one server; `launch=None` for one that we did not start."""
    usual: dict[str, Any] = {
        "roots": (),
        "processes": (pid,),
        "command": ("npx", name),
        "project": f"{HOME}/src/shop",
        "age": 7500.0,
        "stdin": End("held"),
        "stdout": End("held"),
        "launcher": pid - 1 if launch else 0,
    }
    server = Server(name=name, pid=pid, launch=launch, **(usual | facts))
    server.__dict__["shares"] = {pid: Memory(int(megabytes * 1_000_000))}  # not measured
    return server


def make_session(*servers: Server, thread: str = "", session: str = "", title: str = "") -> Session:
    """Return one session with its servers."""
    return Session(session or thread, thread, list(servers), title)


def make_host(*sessions: Session, title: str = "Codex", pid: int = 1050, **facts: Any) -> Any:
    """Return one process of a host with its sessions."""
    name = facts.pop("name", "codex")
    return HostProcess(pid, name, title, 7510.0, "", (), list(sessions))._replace(**facts)


def make_census(*hosts: HostProcess, **facts: Any) -> Census:
    """Return a census."""
    return Census(list(hosts), [])._replace(**facts)
