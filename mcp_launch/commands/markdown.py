"""Show a Markdown text: laid out on a terminal, as it is in a pipe.

The texts are read in the repository as well, so what only serves there (comments, which mark
generated parts) is left out here. Colours are those of the terminal's own palette, without a
background, so that they can be read on dark and on light ones. A terminal without any styles
(TERM=dumb) gets the marks of headings and of code instead, since it could not tell them apart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, ClassVar

from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    ListItem,
    Markdown,
    MarkdownElement,
    TableElement,
)
from rich.segment import Segment
from rich.table import Table
from rich.text import Text
from rich.theme import Theme

from mcp_launch.commands.screen import Screen, say

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markdown_it.token import Token
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

# Longer lines are hard to read.
_WIDTH = 100

# A comment with its line, and with the blank line below it if there is one above: a table that is
# not followed by a blank line would take the next paragraph for a row.
_COMMENT = re.compile(r"(?<=\n\n)<!--.*?-->\n+|^<!--.*?-->\n", re.MULTILINE | re.DOTALL)

_THEME = Theme(
    {
        "markdown.h1": "bold underline",
        "markdown.h2": "bold",
        "markdown.h3": "bold italic",
        "markdown.code": "bold cyan",
        "markdown.code_block": "cyan",
        "markdown.item.number": "none",
        "markdown.table.border": "dim",
        "markdown.table.header": "bold",
    }
)

# For terminals that do not show Unicode.
_ASCII = str.maketrans(
    {"→": "->", "←": "<-", "…": "...", "–": "-", "—": "--", "•": "*"}  # noqa: RUF001  # meant
    | dict.fromkeys("“”", '"')
    | dict.fromkeys("‘’", "'")  # noqa: RUF001  # meant
)


def show_markdown(text: str, screen: Screen | None = None) -> None:
    """Print a Markdown text: laid out on a terminal, otherwise as plain Markdown."""
    screen = screen or Screen(soft_wrap=False)
    text = _COMMENT.sub("", text).strip()
    if screen.options.ascii_only:
        text = text.translate(_ASCII)
    if not screen.is_terminal:
        say(text)
        return
    with screen.use_theme(_THEME):
        screen.print(_Layout(text), width=min(screen.width, _WIDTH), soft_wrap=False)


class _Heading(Heading):
    """A heading at the left margin."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the heading, with its mark if it could not be told from a paragraph."""
        del options
        mark = "" if console.color_system else "#" * int(self.tag[1:]) + " "
        yield Text(mark) + self.text


class _Code(CodeBlock):
    """Lines of a file or of a terminal, indented and otherwise as they are."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the lines; one that is too long is folded, since none of it may be missing."""
        style = console.get_style(self.style_name)
        text = Text(self.text.plain.rstrip(), style, overflow="fold")
        return _indent(text, console, options, "    ")


class _Item(ListItem):
    """An item of a list, with a mark that every terminal can show."""

    def render_bullet(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the lines of an item without a number."""
        return _indent(self.elements, console, options, " - ")

    def render_number(
        self, console: Console, options: ConsoleOptions, number: int, last_number: int
    ) -> RenderResult:
        """Return the lines of an item with a number."""
        mark = f" {number}.".ljust(len(f" {last_number}. "))
        return _indent(self.elements, console, options, mark)


class _Quote(BlockQuote):
    """A quotation, indented."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the lines of the quotation."""
        return _indent(self.elements, console, options, "    ")


def _indent(
    content: RenderableType, console: Console, options: ConsoleOptions, mark: str
) -> RenderResult:
    """Return the lines of something, the first one after a mark."""
    inner = options.update(width=options.max_width - len(mark))
    for number, line in enumerate(console.render_lines(content, inner, pad=False)):
        yield Segment(" " * len(mark) if number else mark)
        yield from line
        yield Segment.line()


class _Rows(TableElement):
    """A table without the empty lines above and below it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return the table."""
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge = False
            yield table


class _Layout(Markdown):
    """Markdown as it looks on our screens."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "blockquote_open": _Quote,
        "list_item_open": _Item,
        "table_open": _Rows,
    }

    def __init__(self, text: str) -> None:
        # "default" does not fill lines up with spaces; addresses are shown, as not all
        # terminals have links.
        super().__init__(text, justify="default", hyperlinks=False)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return everything; code keeps its marks if it could not be told from words."""
        if not console.color_system:
            _mark_code(self.parsed)
        yield from super().__rich_console__(console, options)


def _mark_code(tokens: Iterable[Token]) -> None:
    for token in tokens:
        if token.type == "code_inline":
            token.content = f"`{token.content}`"
        _mark_code(token.children or ())
