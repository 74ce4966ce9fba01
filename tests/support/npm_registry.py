"""A registry of npm packages on loopback, with one tiny package in it."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

# How long an archive is held at most.
_LIMIT = 60.0

NAME = "@tiny/server"
PROGRAM = "tiny-server"

# Answers every request with what a server can see of its start.
SERVER = """#!/usr/bin/env node
const facts = { version: require("./package.json").version, argv: process.argv,
  exec: process.execPath, cwd: process.cwd(), env: process.env, parent: process.ppid }
require("readline").createInterface({ input: process.stdin }).on("line", line => {
  const { id } = JSON.parse(line)
  console.log(JSON.stringify({ jsonrpc: "2.0", id, result: facts }))
})
"""


class NpmRegistry:
    """Serves the versions that were published."""

    def __init__(self, script: str = SERVER) -> None:
        self._script = script
        self.asked: list[str] = []
        self.is_asked_for_archive = threading.Event()
        self.may_send_archives = threading.Event()
        self.may_send_archives.set()
        self._archives: dict[str, bytes] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the library's name
                registry.asked.append(self.path)
                body = registry.answer(self.path)
                self.send_response(200 if body else 404)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def hold_archives(self) -> None:
        """Send no archive until `may_send_archives` is set."""
        self.may_send_archives.clear()

    def publish(self, version: str) -> None:
        """Add a version, which becomes the latest."""
        self._archives[version] = _pack(version, self._script)

    def answer(self, path: str) -> bytes:
        """Return the body of an answer; empty: there is none."""
        if path.endswith(".tgz"):
            self.is_asked_for_archive.set()
            self.may_send_archives.wait(_LIMIT)
            return self._archives[path.removesuffix(".tgz").rpartition("-")[2]]
        if not path.lower().startswith("/@tiny%2fserver"):
            return b""
        return json.dumps(
            {
                "name": NAME,
                "dist-tags": {"latest": list(self._archives)[-1]},
                "versions": {version: self._describe(version) for version in self._archives},
            }
        ).encode()

    def _describe(self, version: str) -> dict[str, Any]:
        digest = hashlib.sha512(self._archives[version]).digest()
        dist = {
            "tarball": f"{self.url}/tiny-server-{version}.tgz",
            "integrity": f"sha512-{base64.b64encode(digest).decode()}",
        }
        return {**_make_manifest(version), "dist": dist}

    def close(self) -> None:
        self.may_send_archives.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _make_manifest(version: str) -> dict[str, Any]:
    # Deprecated: npm prints a warning while it installs it.
    return {
        "name": NAME,
        "version": version,
        "bin": {PROGRAM: "server.js"},
        "deprecated": "there is a newer one",
    }


def _pack(version: str, script: str) -> bytes:
    packed = io.BytesIO()
    files = {"package.json": json.dumps(_make_manifest(version)), "server.js": script}
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return packed.getvalue()
