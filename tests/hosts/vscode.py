"""VS Code as a host: one window in a browser, and an extension that does what a test asks for."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hosts.browser import Browser
from hosts.fake_models import LIMIT, Answer
from hosts.workspace import Observation, find_free_port, make_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hosts.workspace import Workspace

# The member of `_meta` in which VS Code itself names a chat.
META = "vscode.conversationId"

# In seconds: between two looks at a port or a page, which nothing announces.
_INTERVAL = 0.05

_EXTENSION = Path(__file__).parent / "vscode_extension"
_ID = "tests.remote-control"

_SETTINGS = {
    "security.workspace.trust.enabled": False,
    "telemetry.telemetryLevel": "off",
    "workbench.startupEditor": "none",
    "extensions.autoCheckUpdates": False,
}


def configure_all(
    workspace: Workspace, project: str, commands: Mapping[str, Sequence[str]]
) -> None:
    """Write the settings, and a project's configuration with several servers."""
    entries = make_entries(commands, type="stdio")
    workspace.write(f"{project}/.vscode/mcp.json", {"servers": entries})
    data = ".local/share/code-server"
    workspace.write(f"{data}/User/settings.json", _SETTINGS)
    shutil.copytree(_EXTENSION, workspace.home / data / "extensions" / f"{_ID}-1.0.0")


@contextlib.contextmanager
def open_window(workspace: Workspace, project: str) -> Iterator[VsCode]:
    """Open a project in VS Code, and wait until our extension runs."""
    path = str(workspace.place / "extension")
    with socket.socket(socket.AF_UNIX) as extensions:
        extensions.bind(path)
        extensions.listen()
        extensions.settimeout(LIMIT)
        port = find_free_port()
        process = workspace.start(
            "vscode",
            *("--auth", "none", "--bind-addr", f"127.0.0.1:{port}"),
            *("--disable-telemetry", "--disable-update-check", "--enable-proposed-api", _ID),
            before=[str(workspace.programs["node"])],
            cwd=workspace.home,
            env=workspace.environment(TESTS_SOCKET=path),
        )
        _wait(lambda: _answers(port), "VS Code does not listen")
        browser = Browser(workspace, f"http://127.0.0.1:{port}/?folder={project}")
        connection, _ = extensions.accept()
        connection.settimeout(LIMIT)
        window = VsCode(process, browser, connection)
        try:
            yield window
        finally:
            window.close()


class Chatted(NamedTuple):
    """A chat's own id, and what a server saw during its call."""

    chat: str
    sight: Observation


class VsCode:
    """A window, in which the extension acts as the user or as another extension."""

    def __init__(self, process: Any, browser: Browser, connection: socket.socket) -> None:
        self.process = process
        self._browser = browser
        self._connection = connection
        self._lines = connection.makefile("rb")
        self._count = 0
        self.extension_host: int = json.loads(self._lines.readline())[1]

    def start_servers(self) -> None:
        """Start all servers, and wait until the probe's tools are there."""
        self._do("start", "look")

    def call(self, tool: str) -> Observation:
        """Return what the server sees when an extension calls it outside any chat."""
        return _observe("", self._do("call", tool))

    def begin_call(self, tool: str) -> None:
        """Call a tool that never answers."""
        self._send("call", tool)

    def chat(self, tool: str, *, is_new: bool = False) -> Chatted:
        """Return what the server sees when it is called in a chat, the last one or a new one."""
        chat, text = self._do("chat", tool, is_new, self._count)
        return Chatted(chat, _observe(chat, text))

    def begin_chats(self, count: int) -> list[str]:
        """Begin a turn in each of so many new chats, and leave them open; return the chats' ids."""
        return [self._do("begin", self._count) for _ in range(count)]

    def call_at_once(self, chats: Sequence[str], tool: str) -> list[Observation]:
        """Return what servers see when they are called in open turns at the same time."""
        numbers = [self._send("callIn", chat, tool) for chat in chats]
        answers = self._receive(numbers)
        return [_observe(*told) for told in zip(chats, answers, strict=True)]

    def begin_calls(self, chats: Sequence[str], tool: str) -> None:
        """Call a tool that never answers, in several open turns."""
        for chat in chats:
            self._send("callIn", chat, tool)

    def show_output(self, server: str, wanted: str) -> str:
        """Show the output of a server, and return the page once it has these words."""
        self._send("execute", "workbench.mcp.showOutput", f"mcp.config.ws0.{server}")
        _wait(lambda: wanted in self.read_page(), f"VS Code does not show: {wanted}")
        return self.read_page()

    def read_page(self) -> str:
        """Return everything that can be read in the window, without its line breaks."""
        return " ".join(self._browser.read_page().split())

    def close(self) -> None:
        """Close the connections; the processes end with the workspace."""
        self._lines.close()
        self._connection.close()
        self._browser.close()

    def _do(self, deed: str, *words: object) -> Any:
        return self._receive([self._send(deed, *words)])[0]

    def _receive(self, numbers: Sequence[int]) -> list[Any]:
        results: dict[int, Any] = {}
        while not results.keys() >= set(numbers):
            number, result, *fault = json.loads(self._lines.readline())
            assert number not in numbers or not fault, fault
            results[number] = result
        return [results[number] for number in numbers]

    def _send(self, deed: str, *words: object) -> int:
        self._count += 1
        self._connection.sendall(json.dumps([self._count, deed, *words]).encode() + b"\n")
        return self._count


def _observe(asker: str, text: str) -> Observation:
    return Observation(Answer(asker, "look", text))


def _answers(port: int) -> bool:
    with socket.socket() as any_socket:
        return any_socket.connect_ex(("127.0.0.1", port)) == 0


def _wait(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + LIMIT
    while not is_so():
        assert time.monotonic() < deadline, otherwise
        time.sleep(_INTERVAL)
