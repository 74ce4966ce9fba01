"""An index of Python packages on loopback, with one wheel that it sends when the test lets it."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# How long the wheel is held at most.
_LIMIT = 60.0


class PythonIndex:
    """Serves the package that a wheel belongs to."""

    def __init__(self, wheel: Path) -> None:
        self.is_asked_for_wheel = threading.Event()
        self.may_send_wheel = threading.Event()
        index = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:  # the library's name
                if self.path.endswith(".whl"):
                    kind, self.body = "application/zip", wheel.read_bytes()
                else:
                    link = f'<a href="/{wheel.name}">{wheel.name}</a>'
                    kind, self.body = "text/html", f"<!DOCTYPE html>{link}".encode()
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(self.body)))
                self.end_headers()

            def do_GET(self) -> None:
                if self.path.endswith(".whl"):
                    index.is_asked_for_wheel.set()
                    index.may_send_wheel.wait(_LIMIT)
                self.do_HEAD()
                self.wfile.write(self.body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self.may_send_wheel.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
