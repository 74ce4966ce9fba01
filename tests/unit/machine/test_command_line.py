"""What a command line runs."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_launch.machine.command_line import list_programs, name_program


@pytest.mark.parametrize(
    ("command", "programs"),
    [
        ("server --port 1", ["server"]),
        ("python -m mcp_docs --x", ["python", "mcp_docs"]),
        ("python3.12 -Im mcp_docs", ["python3.12", "mcp_docs"]),
        ("python -X utf8 server.py data", ["python", "server.py"]),
        ("python -c 'import mcp'", ["python"]),
        ("python - mcp", ["python"]),
        ("node --require x server.js", ["node", "server.js"]),
        ("node -e mcp", ["node"]),
        ("node --title=mcp server.js", ["node", "server.js"]),
        ("npx -y @scope/mcp@1", ["npx", "@scope/mcp@1"]),
        ("npx --package mcp-docs docs", ["npx", "mcp-docs", "docs"]),
        ("npx --package=mcp-docs docs", ["npx", "mcp-docs", "docs"]),
        ("npx -c 'mcp x'", ["npx"]),
        ("uvx --from mcp-docs docs", ["uvx", "mcp-docs", "docs"]),
        ("uv run --with mcp python -m docs", ["uv", "python", "docs"]),
        ("uv tool run docs", ["uv", "docs"]),
        ("uvx", ["uvx"]),
        ("docker run -i --rm -e A=b mcp/docs", ["mcp/docs"]),
        ("docker ps", ["ps"]),
        ("docker", ["docker"]),
        ("sh server.sh mcp", ["sh", "server.sh"]),
        ("sh -c mcp", ["sh"]),
        ("bash", ["bash"]),
        ("clumsies mcp serve", ["clumsies", "mcp"]),
        ("clumsies mcp list", ["clumsies"]),
        ("clumsies mcp", ["clumsies"]),
        ("codex mcp-server", ["codex", "mcp-server"]),
    ],
)
def test_the_words_that_name_what_is_run(command: str, programs: list[str]) -> None:
    assert list_programs(shlex.split(command)) == programs


def test_npx_shows_its_command_line_as_one_word() -> None:
    assert list_programs(["npm exec mcp-docs --x"]) == ["npm", "mcp-docs"]


@given(st.lists(st.text(), min_size=1).filter(lambda argv: argv[0].strip() != ""))
def test_any_command_line_runs_something_of_its_own(argv: list[str]) -> None:
    found = list_programs(argv)

    assert found
    assert set(found) <= {*argv, *argv[0].split(), *(word.partition("=")[2] for word in argv)}


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("/usr/bin/mcp-docs", "mcp-docs"),
        ("/mcp/bin/server", "server"),
        ("/x/node_modules/.bin/docs", "docs"),
        ("/x/node_modules/@scope/docs/dist/index.js", "@scope/docs"),
        ("/x/node_modules/a/node_modules/b/index.js", "b"),
        ("/x/site-packages/mcp_docs/__main__.py", "mcp_docs"),
        ("npm:@scope/docs", "@scope/docs"),
        ("@scope/docs@1.2", "@scope/docs@1.2"),
        ("ghcr.io/me/docs:1", "ghcr.io/me/docs:1"),
        ("localhost.local:5000/docs", "localhost.local:5000/docs"),
        ("dir/server.py", "server.py"),
    ],
)
def test_a_word_names_a_program_a_package_or_an_image(word: str, name: str) -> None:
    assert name_program(word) == name
