"""A client of the Agent Client Protocol: drives one process of a host with several sessions."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from typing import IO, TYPE_CHECKING, Any

from hosts.fake_models import LIMIT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hosts.workspace import Workspace

_ABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}


class Agent:
    """A host as an editor runs it: one process, sessions in any directories."""

    def __init__(
        self, workspace: Workspace, name: str, words: Sequence[str], env: dict[str, str], cwd: str
    ) -> None:
        pipe = subprocess.PIPE
        self.process = workspace.start(name, *words, cwd=cwd, env=env, stdin=pipe, stdout=pipe)
        self._answers: dict[int, dict[str, Any]] = {}
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._count = 0
        threading.Thread(target=self._read, args=[self.process.stdout], daemon=True).start()
        self._ask("initialize", protocolVersion=1, clientCapabilities=_ABILITIES)

    def start_sessions(self, *projects: str) -> list[str]:
        """Start sessions at once, and return their ids."""
        numbers = [self._send("session/new", cwd=one, mcpServers=[]) for one in projects]
        return [str(self._receive(number)["sessionId"]) for number in numbers]

    def prompt(self, words: Mapping[str, str]) -> None:
        """Send prompts to several sessions at once, and wait until all turns have ended."""
        for number in self.send_prompts(words):
            self._receive(number)

    def send_prompts(self, words: Mapping[str, str]) -> list[int]:
        """Send prompts to several sessions at once, and return the numbers of the requests."""
        return [self._send_prompt(session, text) for session, text in words.items()]

    def _send_prompt(self, session: str, words: str) -> int:
        text = [{"type": "text", "text": words}]
        return self._send("session/prompt", sessionId=session, prompt=text)

    def _ask(self, method: str, **params: object) -> Any:
        return self._receive(self._send(method, **params))

    def _send(self, method: str, **params: object) -> int:
        self._count += 1
        self._write({"id": self._count, "method": method, "params": params})
        return self._count

    def _receive(self, number: int) -> Any:
        deadline = time.monotonic() + LIMIT
        with self._changed:
            while number not in self._answers:
                assert self._changed.wait(deadline - time.monotonic()), f"{number}: no answer"
        answer = self._answers[number]
        assert "result" in answer, answer
        return answer["result"]

    def _write(self, message: dict[str, Any]) -> None:
        assert self.process.stdin
        with self._writing:
            self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
            self.process.stdin.flush()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            if not line.startswith(b"{"):
                continue  # some print to stdout what is no message
            message = json.loads(line)
            if "method" in message and "id" in message:
                self._write({"id": message["id"], "result": _allow(message)})
            elif "id" in message:
                with self._changed:
                    self._answers[message["id"]] = message
                    self._changed.notify_all()


def _allow(request: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a user who allows everything."""
    if request["method"] != "session/request_permission":
        return {}
    options = request["params"]["options"]
    chosen = next(one for one in options if one["kind"].startswith("allow"))
    return {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}
