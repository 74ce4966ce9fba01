"""A browser without a window, as VS Code's: it opens one page, and returns what a user reads."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosts.workspace import Workspace

# One process, because the parts of Chromium cannot share fonts where there is no sandbox.
_OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--single-process",
    "--no-zygote",
    "--in-process-gpu",
    "--disable-webgl",
    "--disable-dev-shm-usage",
    "--window-size=1400,900",
    "--remote-debugging-pipe",
)

# Its own fonts, wherever it was unpacked.
_FONTS = "<fontconfig><dir>{fonts}</dir><cachedir>{cache}</cachedir></fontconfig>"

# The debugging protocol is read from descriptor 3 and written to 4. Not every sh can do this.
_CONNECT = 'exec "$0" "$@" 3<&{requests} 4>&{answers}'


class Browser:
    """Chromium with one page, controlled over its debugging protocol."""

    def __init__(self, workspace: Workspace, address: str) -> None:
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        assert min(requests, answers) > 4  # others are open, and so these do not collide
        self.process = workspace.start(
            "chromium",
            *_OPTIONS,
            f"--user-data-dir={workspace.place}/browser",
            before=["bash", "-c", _CONNECT.format(requests=requests, answers=answers)],
            env=_make_environment(workspace),
            pass_fds=[requests, answers],
        )
        os.close(requests)
        os.close(answers)
        self._unread = b""
        self._count = 0
        target = self._ask("Target.createTarget", url=address)["targetId"]
        attached = self._ask("Target.attachToTarget", targetId=target, flatten=True)
        self._page: str = attached["sessionId"]

    def read_page(self) -> str:
        """Return the text of the page, as it is now."""
        told = self._ask("Runtime.evaluate", self._page, expression="document.body.innerText")
        text: str = told["result"]["value"]
        return text

    def close(self) -> None:
        """Close the connection; the browser itself ends with the workspace."""
        os.close(self._requests)
        os.close(self._answers)

    def _ask(self, method: str, page: str | None = None, **params: object) -> Any:
        self._count += 1
        request = {"id": self._count, "method": method, "params": params}
        if page:
            request["sessionId"] = page
        os.write(self._requests, json.dumps(request).encode() + b"\0")
        while (answer := self._read()).get("id") != self._count:
            pass  # events, which nobody asked for
        assert "result" in answer, answer
        return answer["result"]

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._unread:
            data = os.read(self._answers, 1 << 16)
            assert data, "the browser has ended"
            self._unread += data
        message, _, self._unread = self._unread.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told


def _make_environment(workspace: Workspace) -> dict[str, str]:
    unpacked = workspace.programs["chromium"].parent
    config = workspace.place / "fonts.conf"
    cache = workspace.place / "fonts"
    text = _FONTS.format(fonts=unpacked / "fonts" / "fonts", cache=cache)
    config.write_text(text, encoding="utf-8")
    libraries = str(unpacked / "al2023" / "lib")
    return workspace.environment(FONTCONFIG_FILE=str(config), LD_LIBRARY_PATH=libraries)
