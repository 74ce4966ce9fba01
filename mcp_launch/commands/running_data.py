"""The data of `mcp-launch ps --json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_launch.machine.process_snapshot import ConnectedClient, KnownPool, Server
    from mcp_launch.machine.running import Census, HostProcess, Session

VERSION = 1


def describe(census: Census) -> dict[str, Any]:
    """Return everything as data; keys may be added, but never change their meaning."""
    return {
        "version": VERSION,
        "sees_all": census.sees_all,
        "hosts": [_describe_host(host) for host in census.hosts],
        "ownerless": [_describe_server(server) for server in census.ownerless],
    }


def _describe_host(host: HostProcess) -> dict[str, Any]:
    return {
        "host": host.name,
        "title": host.title,
        "role": host.role or None,
        "pid": host.pid,
        "age": host.age,
        "memory": _describe_memory(host),
        "not_running": len(host.absent),
        "saved": host.saved,
        "clients": None if host.clients is None else [*map(_describe_client, host.clients)],
        "note": host.note or None,
        "sessions": [_describe_session(session) for session in host.sessions],
    }


def _describe_client(client: ConnectedClient) -> dict[str, Any]:
    return {"pid": client.pid or None, "terminal": client.terminal or None}


def _describe_session(session: Session) -> dict[str, Any]:
    return {
        "session": session.session or None,
        "thread": session.thread or None,
        "title": session.title or None,
        "project": session.project or None,
        "memory": _describe_memory(session),
        "servers": [_describe_server(server) for server in session.servers],
    }


def _describe_memory(what: HostProcess | Session | Server) -> dict[str, object]:
    return {"bytes": what.memory.amount, "kind": what.memory.kind}


def _describe_pool(pool: KnownPool) -> dict[str, object]:
    return {"pool": pool.pid or None, "sessions": pool.sessions}


def _describe_server(server: Server) -> dict[str, object]:
    return {
        "server": server.name,
        "pid": server.pid,
        "launcher": server.launcher or None,
        "pids": list(server.processes),
        "command": list(server.command),
        "project": server.project or None,
        "age": server.age,
        "memory": _describe_memory(server),
        "stdin": server.stdin._asdict(),
        "stdout": server.stdout._asdict(),
        "earlier_session": server.earlier or None,
        "is_unrecorded": server.is_unrecorded,
        "launch": server.launch._asdict() if server.launch else None,
        "calls_last_minute": server.recent.in_minute if server.recent else None,
        "failures_last_hour": server.recent.failed_in_hour if server.recent else None,
        "shared": _describe_pool(server.pool) if server.pool else None,
        "why_ownerless": server.why_ownerless or None,
    }
