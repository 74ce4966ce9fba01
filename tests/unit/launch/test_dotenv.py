"""Which `.env` files a launch reads, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from fakes import make_context

from mcp_launch.errors import SourceMissing
from mcp_launch.launch import dotenv, profile
from mcp_launch.values import Found, Missing

if TYPE_CHECKING:
    from pathlib import Path

    from mcp_launch.launch.plan import Dotenv

NO_ROOT = Missing(["no .git"])


def load(place: Path, *files: str, root: Path | None = None, home: str = "/home/me") -> Dotenv:
    """Return what a launch in this directory reads if these files are named."""
    named = [word for file in files for word in ("--dotenv", file)]
    context = make_context(
        place=Found(str(place), "inherited"),
        project_root=Found(str(root), ".git in it") if root else NO_ROOT,
        home=home,
    )
    return dotenv.load(profile.load([*named, "--", "server"], {}), context)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")


def test_the_nearest_file_inside_the_project_is_read(tmp_path: Path) -> None:
    write(tmp_path / ".env", "A=far\n")
    write(tmp_path / "sub" / ".env", "A=near\n")
    (tmp_path / "sub" / "below").mkdir()

    found = load(tmp_path / "sub" / "below", root=tmp_path)

    assert found.values == {"A": "near"}
    assert found.searched == f"{tmp_path}/sub/.env"
    inside = tmp_path / "sub" / "below"
    found = load(inside, root=inside)
    assert (found.values, found.searched) == ({}, f"any .env in {inside} or above")
    # Without a root only the directory itself is looked at.
    assert load(inside).values == {}
    assert load(tmp_path).values == {"A": "far"}


def test_of_several_files_the_later_one_wins(tmp_path: Path) -> None:
    write(tmp_path / "one.env", "A=1\nB=1\n")
    write(tmp_path / "two.env", "B=2\n")

    found = load(tmp_path, "one.env", str(tmp_path / "two.env"))

    assert found.values == {"A": "1", "B": "2"}
    assert found.searched == f"{tmp_path}/one.env or {tmp_path}/two.env"


def test_a_file_may_be_in_the_home(tmp_path: Path) -> None:
    write(tmp_path / "home" / "my.env", "A=mine\n")

    assert load(tmp_path, "~/my.env", home=str(tmp_path / "home")).values == {"A": "mine"}


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"A=1\nB='open\n", "line 2: not valid dotenv syntax"),
        (b"A=\xff\n", "is not valid UTF-8"),
        (None, "my.env does not exist"),
    ],
    ids=["a quote that is not closed", "not UTF-8", "not there"],
)
def test_a_file_that_cannot_be_read_ends_the_launch(
    content: bytes | None, problem: str, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "my.env").write_bytes(content)

    with pytest.raises(SourceMissing) as refused:
        load(tmp_path, "my.env")

    assert str(tmp_path / "my.env") in refused.value.problem
    assert problem in refused.value.problem
