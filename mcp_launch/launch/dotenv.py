"""Read the `.env` files that a profile names, with python-dotenv."""

from __future__ import annotations

import os

from mcp_launch.errors import SourceMissing
from mcp_launch.launch.plan import Dotenv
from mcp_launch.values import expand_home, walk_upward

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mcp_launch.launch.context import Context
    from mcp_launch.launch.profile import Profile


def load(profile: Profile, context: Context) -> Dotenv:
    """Return all values of the named files; a later file overrides an earlier one.

    If none is named, the nearest `.env` is read, from the session's directory up to the
    project's root.
    """
    files = [locate(file, context) for file in profile.dotenv] or _find_nearest(context)
    values: dict[str, str | None] = {}
    for file in files:
        values.update(_read(file))
    return Dotenv(values, " or ".join(files) or f"any .env in {context.place.value} or above")


def _find_nearest(context: Context) -> list[str]:
    top = getattr(context.project_root, "value", context.place.value)
    for directory in walk_upward(context.place.value):
        if os.path.isfile(f"{directory}/.env"):
            return [f"{directory}/.env"]
        if directory == top:
            break
    return []


def locate(file: str, context: Context) -> str:
    """Return the path of a dotenv file, which may be relative to the session's directory."""
    return os.path.join(context.place.value, expand_home(file, context.home))


def _read(path: str) -> dict[str, str | None]:
    from io import StringIO

    from dotenv import dotenv_values
    from dotenv.parser import parse_stream

    try:
        # Read only once: it may be a pipe, `--dotenv <(op inject …)`.
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
            for binding in parse_stream(StringIO(text)):
                if binding.error:
                    raise SourceMissing(
                        f"{path}, line {binding.original.line}: not valid dotenv syntax",
                        fix="write NAME=value, close every quote, and begin comments with #",
                    )
        return dotenv_values(stream=StringIO(text))
    except OSError as error:
        raise SourceMissing(
            f"cannot read the dotenv file {path}: {error.strerror}",
            fix="create it, or name the right file with --dotenv FILE "
            "(relative to the session's directory)",
        ) from None
    except UnicodeDecodeError:
        raise SourceMissing(
            f"the dotenv file {path} is not valid UTF-8", fix="save it as UTF-8"
        ) from None
    except ValueError:
        raise SourceMissing(
            f"{path} cannot be a file: its name contains a NUL",
            fix="name the right file with --dotenv FILE",
        ) from None
