"""`mcp-launch help`: the topics of the documentation, on the terminal.

Each topic is a Markdown file in `mcp_launch/help`, which the README links to as well. Its first
line is a title, and the sentence after that says what it is about.
"""

from __future__ import annotations

import re
from pathlib import Path

from mcp_launch.commands.output import show_markdown
from mcp_launch.commands.screen import say
from mcp_launch.errors import UsageError, suggest
from mcp_launch.hosts.configured import describe_hosts
from mcp_launch.launch.options import USAGE

DIRECTORY = Path(__file__).parents[1] / "help"

TOPICS = sorted(path.stem for path in DIRECTORY.glob("*.md"))

# Which topic has more about a command that has none of its own.
RELATED: dict[str, str] = {}

# The sentence that stands for a table that would be stale in a file.
_TABLE_OF_HOSTS = "`mcp-launch explain hosts` prints the table of all hosts here."

# A link to another file of the repository: only its text is of use on a terminal.
_LOCAL_LINK = re.compile(r"\[([^]]+)\]\((?!https?:)[^)]+\)")


def run(topic: str, command_help: str = "") -> int:
    """Show one topic, after the help text of the command of that name; or list the topics.

    Raises:
        UsageError: There is neither a topic nor a command of that name.

    """
    if not topic:
        _list_topics()
        return 0
    if topic == "run":
        command_help = USAGE  # which the launch path parses itself
    if command_help:
        say(command_help.rstrip())
        if topic in TOPICS:
            say("")
        elif topic in RELATED:
            say(f"\nMore: mcp-launch help {RELATED[topic]}")
    elif topic not in TOPICS:
        raise UsageError(
            f"there is no help topic {topic!r}",
            fix=f"{suggest(topic, [*TOPICS, *RELATED])}list them: mcp-launch help",
        )
    if topic in TOPICS:
        show_markdown(_LOCAL_LINK.sub(r"\1", read_topic(topic)))
    return 0


def read_topic(topic: str) -> str:
    """Return the Markdown text of a topic."""
    text = (DIRECTORY / f"{topic}.md").read_text(encoding="utf-8")
    return text.replace(_TABLE_OF_HOSTS, describe_hosts())


def summarize(topic: str) -> str:
    """Return the sentence that says what a topic is about."""
    paragraph = read_topic(topic).split("\n\n")[1]
    return paragraph.replace("\n", " ").replace("`", "")


def _list_topics() -> None:
    say("mcp-launch --help lists the commands, mcp-launch help COMMAND shows one of them.")
    say("mcp-launch help TOPIC shows more about:")
    wide = max(map(len, TOPICS))
    for topic in TOPICS:
        say(f"  {topic.ljust(wide)}  {summarize(topic)}")
