"""The check of documented commands finds them, and finds what is wrong with them."""

from __future__ import annotations

import pytest
from documented_commands import find_commands, list_faults

TEXT = """\
Run `mcp-launch wrap --host codex docs`, or `cd app && mcp-launch ps --json`; `mcp-launch` is a
command prefix, and `mcp-launch.toml` a file.

```sh
$ mcp-launch doctor --live    # starts every server
mcp-launch wrap docs -- --pass-env safe | less
mcp-launch run --server docs \\
    --cwd project_root -- npx -y --not-ours
```

    mcp-launch logs --since 2h

```text
ML201 error: mcp-launch is not on the PATH
  fix: wrap it: mcp-launch wrap docs (it is yours)
```

```toml
command = "mcp-launch"
args = ["run", "--nonsense"]
```
"""


def test_commands_are_found_in_spans_and_blocks_but_not_in_sentences_and_files() -> None:
    assert find_commands(TEXT) == [
        ["doctor", "--live"],
        ["wrap", "docs", "--", "--pass-env", "safe"],
        ["run", "--server", "docs", "--cwd", "project_root", "--", "npx", "-y", "--not-ours"],
        ["wrap", "docs", "it", "is", "yours"],
        ["logs", "--since", "2h"],
        ["wrap", "--host", "codex", "docs"],
        ["ps", "--json"],
    ]
    assert list_faults(TEXT) == []


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("warp docs", "there is no such command"),
        ("wrap --hosts codex", "there is no option --hosts"),
        ("wrap docs -- --pass-envs safe", "run has no option --pass-envs"),
        ("run --sever docs -- npx", "run has no option --sever"),
        ("doctor [--lives] [--fix [--yes]]", "there is no option --lives"),
        ("--versions", "there is no option --versions"),
        ("explain ML999", "there is no code ML999"),
    ],
)
def test_what_does_not_exist_is_found(command: str, fault: str) -> None:
    [found] = list_faults(f"Run `mcp-launch {command}`.")

    assert found.endswith(f": {fault}")


@pytest.mark.parametrize(
    "command",
    [
        "run [OPTIONS] [--] COMMAND [ARGS...]",
        "COMMAND --help",
        "logs -n 50 docs",
        "doctor --fix [--yes] --host=codex",
        "env docs --explain --start",
        "env -- npx -y --what PACKAGE",
        "explain ML206 ml2",
        "explain MLxxx",
        "-V",
    ],
)
def test_a_command_with_placeholders_is_right(command: str) -> None:
    assert list_faults(f"```sh\nmcp-launch {command}\n```") == []
