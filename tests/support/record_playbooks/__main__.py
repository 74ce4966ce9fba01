"""Record the process tests of the core: `python tests/support/record_playbooks`.

The tests run in an environment of nothing but what they need: some servers show all of
theirs, and nothing of this machine belongs into a recording.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[1])

from record_playbooks.keep import REPOSITORY, keep  # noqa: E402  # found only now

TARGET = REPOSITORY / "tests" / "playbooks" / "recorded"

TESTS = ("replacement", "answers", "corners", "relay", "server_stdout", "identity", "promises")

PROCESSES = 2


def record(directory: str) -> int:
    """Run the tests with recorded launchers."""
    environ = {
        "PATH": os.defpath,
        "HOME": directory,
        "LANG": "C.UTF-8",
        "MCP_LAUNCH_RECORD": directory,
    }
    files = [f"tests/processes/test_{name}.py" for name in TESTS]
    words = ["-q", "-p", "no:cacheprovider", "-n", str(PROCESSES), *files]
    command = [sys.executable, "-m", "pytest", *words]
    return subprocess.run(command, cwd=REPOSITORY, env=environ, check=False).returncode


def main() -> int:
    """Replace the recordings by new ones."""
    with tempfile.TemporaryDirectory() as directory:
        code = record(directory)
        shutil.rmtree(TARGET, ignore_errors=True)
        count, left_out = keep(Path(directory), TARGET)
    sys.stdout.write(f"{count} kept\n")
    for reason, names in left_out.items():
        sys.stdout.write(f"{len(names)} left out, {reason}:\n")
        sys.stdout.writelines(f"  {name}\n" for name in sorted(set(names)))
    return code


if __name__ == "__main__":
    sys.exit(main())
