"""Fixed values of a profile, with what they borrow from the environment."""

from __future__ import annotations

from mcp_launch.errors import SourceMissing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


def expand(text: str, name: str, environ: Mapping[str, str]) -> str:
    """Return a text with the values of ${NAME} and ${NAME:-default} in it; $${ is ${."""
    made = ""
    while (begin := text.find("${")) >= 0:
        if text[:begin].endswith("$"):
            made, text = made + text[: begin - 1] + "${", text[begin + 2 :]
            continue
        inside, closed, rest = text[begin + 2 :].partition("}")
        wanted, has_default, default = inside.partition(":-")
        if not closed or "${" in inside:
            raise SourceMissing(
                f"no value for {name}: a ${{ in the profile has no end, or another one in it",
                fix="write ${NAME} or ${NAME:-default} ($${ is a plain ${)",
            )
        value = environ.get(wanted) or (default if has_default else environ.get(wanted))
        if value is None:
            raise SourceMissing(
                f"no value for {name}: {wanted} is not in the launcher's environment",
                fix=f"set {wanted}, or write ${{{wanted}:-default}} in the profile",
            )
        made, text = made + text[:begin] + value, rest
    return made + text
