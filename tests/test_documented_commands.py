"""The check of documented commands finds what does not exist, and nothing else."""

from __future__ import annotations

import pytest
from documented_commands import list_faults

TEXT = """\
Run `mcp-launch wrap --host codex docs`, or `cd app && mcp-launch ps --json`; `mcp-launch` is a
command prefix, and `mcp-launch.toml` a file. See ML206, or `mcp-launch COMMAND --help`.

```sh
$ mcp-launch doctor --live    # starts every server
mcp-launch wrap docs -- --pass-env safe | less
mcp-launch run --server docs \\
    --cwd project_root -- npx -y --not-ours
```

    mcp-launch logs [SERVER] [--since 2h]
    mcp-launch env docs --explain --start

```text
ML201 error: mcp-launch is not on the PATH
  fix: wrap it: mcp-launch wrap docs (it is yours)
```
"""


def test_commands_that_exist_have_no_fault() -> None:
    assert list_faults(TEXT) == []


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("warp docs", "there is no such command"),
        ("wrap --hosts codex", "there is no option --hosts"),
        ("wrap docs -- --pass-envs safe", "there is no option --pass-envs"),
        ("run --sever docs -- npx", "there is no option --sever"),
        ("doctor [--lives] [--fix [--yes]]", "there is no option --lives"),
        ("--versions", "there is no option --versions"),
        ("explain ML999", "there is no code ML999"),
        ("explain optoins", "optoins is not explained"),
    ],
)
def test_what_does_not_exist_is_found(command: str, fault: str) -> None:
    for text in (f"Run `mcp-launch {command}`.", f"    $ mcp-launch {command}  # comment\n"):
        assert list_faults(text)[-1].endswith(fault)
