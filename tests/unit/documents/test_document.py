"""How a word is written into a configuration file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcp_launch.documents.document import Document

if TYPE_CHECKING:
    from mcp_launch.documents.document import Kind

# For each format: a file that holds one word, and what stands around this word.
FILES: dict[Kind, tuple[str, str]] = {
    "json": ('{"a": [', "]}\n"),
    "toml": ("a = [", "]\n"),
    "yaml": ("a:\n  - ", "\n"),
}


@pytest.mark.parametrize("kind", FILES)
@given(word=st.text(st.characters(codec="utf-8"), max_size=8))
@example(word="\x85")  # a line break in YAML, which is read as a space unless it is escaped
@example(word="a \u2028 b\u2029")  # two more
@example(word="\x7f")  # refused by TOML
@example(word="\x80\x9f\ufffe\uffff")  # refused by YAML
@example(word='\ufeff\t\n\r "\\ \U0001f600')
def test_a_word_is_read_as_it_was_written(kind: Kind, word: str) -> None:
    before, after = FILES[kind]
    document = Document(kind, f'{before}"old"{after}', "file")

    changed = document.apply([(*document.spots["a", 0].value, document.spell(word))])

    assert Document(kind, changed, "file").value == {"a": [word]}
