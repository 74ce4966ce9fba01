"""Tasks belong to the launch that they were made for, even if it connects again."""

from __future__ import annotations

from mcp_launch import protocol
from mcp_launch.broker.pool.subscriptions import Subscriptions
from mcp_launch.broker.routing import TASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.broker.backend import Backend
    from mcp_launch.broker.connection import HostConnection
    from mcp_launch.protocol.json_text import Json, Message


class Tasks(Subscriptions):
    """Keeps the tasks of one connection from the others."""

    def _refuse_task(
        self, connection: HostConnection, backend: Backend, said: Message, line: bytes
    ) -> bool:
        """Return whether a request concerns another session's task, or all of them."""
        task = protocol.get_member(said, "params", "taskId")
        owner = backend.task_hosts.get(task) if isinstance(task, str) else None
        is_others = owner not in {None, self._members[connection.name].owner}
        if not is_others and said["method"] != f"{TASKS}list":
            return False
        text = "several sessions share this server, and this task is another's"
        if said["method"] == f"{TASKS}list":
            text = "several sessions share this server, so its tasks cannot be listed"
        refusal = protocol.make_refusal(line, f"[mcp-launch] {text}")
        if key := protocol.read_key(line):
            self.answer(connection, key, refusal)
        return True

    def _name_owner(self, connection: str) -> str:
        """Return the launch that a task belongs to; empty if it is gone."""
        member = self._members.get(connection)
        return member.owner if member is not None else ""

    def _find_owner(self, backend: Backend, task: Json) -> str:
        """Return the connection that a task was made for; empty if it is not known."""
        owner = backend.task_hosts.get(task) if isinstance(task, str) else None
        for name in backend.connections if owner else []:
            if self._members[name].owner == owner:
                return name
        return ""

    def _cancel_tasks(self, backend: Backend, owner: str) -> None:
        if any(member.owner == owner for member in self._members.values()):
            return  # it has connected again
        for task in sorted(backend.tasks):
            if backend.task_hosts.get(task) == owner:
                backend.tasks.discard(task)
                self._ask(backend, "tasks/cancel", {"taskId": task})
