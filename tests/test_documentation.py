"""The README and the topics: short enough, without broken links, with commands that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from documented_commands import list_faults
from mcp_launch.commands.help import TOPICS, read_topic

from mcp_launch.hosts.configured import HOSTS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FILES = [ROOT / "README.md", *sorted((ROOT / "mcp_launch" / "help").glob("*.md"))]

# What a reader takes in at one sitting, code included.
WORDS = 2000

COLUMNS = 160

SECTIONS = [
    "Install",
    "What you see",
    "What you gain",
    "Daily commands",
    "Hosts",
    "Limits",
    "Remove it",
    "Read more",
]

GENERATED = re.compile(r"^<!-- [^\n]*made by.*?^<!-- until here -->$", re.MULTILINE | re.DOTALL)

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_the_readme_is_short() -> None:
    assert len(README.split()) <= WORDS


def test_the_readme_says_first_what_it_is_for_and_how_to_see_it() -> None:
    first, second, *_ = re.findall(r"^```sh\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)

    assert first.endswith("mcp-launch demo\n")
    assert second.endswith("pytest\n")
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == SECTIONS


def test_the_readme_leads_to_every_topic() -> None:
    assert [topic for topic in TOPICS if f"mcp_launch/help/{topic}.md" not in README] == []


def test_the_readme_names_every_host_and_the_versions_in_the_tests() -> None:
    versions = tomllib.loads((ROOT / "tests/hosts/versions.toml").read_text(encoding="utf-8"))
    no_hosts = {"everything", "node", "chromium", "vscode"}  # of VS Code, its own version is named
    tested = [pin["version"] for name, pin in versions.items() if name not in no_hosts]

    hosts = README.partition("## Hosts")[2].partition("\n## ")[0]
    assert [host.title for host in HOSTS.values() if host.title not in hosts] == []
    assert [version for version in tested if version not in hosts] == []


def test_the_figures_in_the_readme_are_measured_ones() -> None:
    gains = README.partition("## What you gain")[2].partition("\n## ")[0]

    for figure in re.findall(r"\d+(?:\.\d+)? %", gains):
        assert f"| {figure} |" in read_topic("figures")


@each_file
def test_lines_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()

    # The rows of a table cannot be broken.
    assert [line for line in lines if len(line) > COLUMNS and not line.startswith("| ")] == []


@each_file
def test_every_command_exists(path: Path) -> None:
    assert list_faults(path.read_text(encoding="utf-8")) == []


@each_file
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text(encoding="utf-8"))

    assert [link for link in links if not leads_somewhere(path, link)] == []


def leads_somewhere(path: Path, link: str) -> bool:
    """Return whether a relative link leads to a file and, if it names one, a heading."""
    file, _, anchor = link.partition("#")
    target = (path.parent / file).resolve() if file else path
    if not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {name_anchor(heading) for heading in headings}


def name_anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize("topic", TOPICS)
def test_code_fits_a_small_terminal(topic: str) -> None:
    # What is generated is as wide as its command makes it.
    text = GENERATED.sub("", read_topic(topic))
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    lines += [line[4:] for line in text.splitlines() if line.startswith("    ")]

    assert [line for line in lines if len(line) > 76] == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_character_can_be_shown_in_ascii(topic: str) -> None:
    """Where a terminal shows only ASCII, these have a replacement."""
    text = GENERATED.sub("", read_topic(topic))

    assert {one for one in text if not one.isascii()} <= set("→←…–—•“”‘’")  # noqa: RUF001  # meant
