"""What is a secret in what users wrote, and how the rest is shown without it.

A secret is known by the name that stands before it, or by its own form. One that was seen where
that can be told is taken out of every other text as well (`Scrubber`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mcp_launch.launch.environment import ANYWHERE
from mcp_launch.launch.options import SOURCES, SPELLINGS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MASK = "***"

_NAME = re.compile(ANYWHERE, re.IGNORECASE)

# Keys that say where a secret is, not what it is.
_ELSEWHERE = re.compile(r"\w*_env_vars?|env_(?:http_headers|keys|vars)", re.IGNORECASE)

# Where a secret stands in a text. Its end may be missing: what is long is cut. Names are no
# longer than forty characters on either side, or texts without spaces would take forever.
_OPTIONS = rf"(?:^|\s)--?(?!-?no-)(?i:[\w-]{{0,40}}{ANYWHERE}[\w-]{{0,40}})"
_PLACES = tuple(
    re.compile(pattern, re.VERBOSE | re.DOTALL)
    for pattern in (
        # In quotes behind its name: in an object, a table, a script. A KeyError has no secret.
        rf"""(?i:{ANYWHERE}(?!\w{{0,40}}error|\w{{0,40}}_env_var)[\w-]{{0,40}})\\?["']?\s*[:=]\s*
             (?P<quote>\\?["'])(?P<secret>(?:(?!(?P=quote))(?:\\.|.))+)""",
        # Without quotes: in an address, a connection string, a shell's command line.
        rf"""(?i:{ANYWHERE}(?!\w{{0,40}}_env_var)[\w-]{{0,40}}=)(?P<secret>[^\s"'\\&;][^\s"'&;]*)""",
        # As the value of an option, in a script.
        rf"""{_OPTIONS}\s+(?P<quote>["'])(?P<secret>(?:(?!(?P=quote)).)+)""",
        rf"""{_OPTIONS}\s+(?P<secret>[^\s"'-][^\s"']*)""",
        # In a header: the scheme may be shown, `X-Api-Key` has none.
        r"""(?i:\b(?:(?:\w{1,40}-){1,6}(?:key|token|secret|auth)|(?:proxy-)?authorization
             |password)\s*:\s*(?:(?:bearer|basic|digest|token)\s+)?)(?P<secret>[^\s"',]+)""",
        r"""(?i:\bcookie\s*:\s*)(?P<secret>[^\s"'][^"'\n]*)""",
        r"""\b(?i:bearer|basic)\s+(?P<secret>(?=[\w.~+/-]*[\dA-Z])[\w.~+/-]{8,}=*)""",
    )
)

# Secrets that say by their form what they are, whatever they are called.
_FORMS = (
    re.compile(
        r"""\b(?P<secret>
            sk-[\w-]{16,}                     # OpenAI, Anthropic
            | gh[pousr]_\w{20,} | github_pat_\w{20,}
            | glpat-[\w-]{16,}
            | xox[abprs]-[\w-]{10,} | xapp-[\w-]{10,}
            | A[KS]IA[0-9A-Z]{16}
            | AIza[\w-]{30,}
            | npm_\w{30,} | pypi-[\w-]{30,} | hf_\w{20,} | gsk_\w{20,}
            | [sr]k_(?:live|test)_\w{16,} | ntn_\w{20,} | lin_api_\w{20,}
            | dop_v1_\w{20,} | figd_[\w-]{20,} | shpat_\w{20,} | tvly-[\w-]{16,} | pplx-\w{20,}
            | SG\.[\w-]{16,}\.[\w-]{16,}
            | eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*  # a JWT
        )""",
        re.VERBOSE,
    ),
    # The password in an address; a token in its place may stand alone.
    re.compile(r"\w://[^\s:/@]*:(?P<secret>[^\s/]+)(?=@)"),
    re.compile(r"\bhttps?://(?P<secret>[\w.~%+-]{16,})(?=@)"),
    # Addresses that are a secret themselves: whoever has one may post, or command a bot.
    re.compile(
        r"""(?i:\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/
            |\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/
            |\.webhook\.office\.com/|\boutlook\.office(?:365)?\.com/webhook/
            |\bhooks\.zapier\.com/hooks/|\bapi\.telegram\.org/(?:file/)?bot
            |\bmaker\.ifttt\.com/trigger/[^/\s]{1,80}/(?:json/)?with/key/
            )(?P<secret>[^\s"'<>?\#]+)""",
        re.VERBOSE,
    ),
    # What signs an address, or opens it.
    re.compile(
        r"""[?&](?i:sig|signature|x-(?:amz|goog)-signature|hmac|code)=
            (?P<secret>[^\s"'&\#]{12,})""",
        re.VERBOSE,
    ),
)

# What stands where a secret would: a variable, a source of `run`, what we put there ourselves.
_STANDS_IN = re.compile(
    r"(?:(?i:bearer|basic|token)\s+)?(?:\$\{(?:\w+:)?[\w.][\w./-]*\}|\$[A-Z_][A-Z0-9_]*"
    rf"|\{{(?:env|file):[^}}]*\}}|\*\*\*|(?:SOURCE|{'|'.join((*SOURCES, *SPELLINGS))})[,.;)]?)"
)
_SCHEME = re.compile(r"(?:bearer|basic|digest|token)\s+", re.IGNORECASE)

# A name, not a text that has "=" in it somewhere; and an option that takes a value.
_PLAIN = re.compile(r"[\w.-]+")
_OPTION = re.compile(r"-(?!-no-)[\w.-]+")

# What `-p` means to these is not a password: a package, an interpreter, a port, a text to run.
_OTHERWISE = {
    "npx",
    "npm",
    "pnpm",
    "yarn",
    "bunx",
    "uv",
    "uvx",
    "docker",
    "podman",
    "node",
    "nerdctl",
}
_PORT_OR_PACKAGE = re.compile(r"[\d.:\[\]-]+(?:/\w+)?|@?[\w.-]+(?:/[\w.-]+)+(?:@[\w.^~-]+)?")

# In a comment names and values are not quoted.
_COMMENT = re.compile(r"(?:^|\s)(?:\#|//|/\*).*", re.DOTALL)
_NOTED = re.compile(rf"""(?i:{ANYWHERE}[\w-]{{0,40}})["']?\s*[:=]\s*(?P<secret>[^\s"',]+)""")

# What is hidden behind its name, but not looked for elsewhere: it is in too many other texts.
_SHORTEST = 6
_COMMON = re.compile(r"[a-z]{1,15}|\d{1,8}|[A-Z]+(?:_[A-Z]+)+|[.~]{0,2}/[^+=]*")


def is_secret_name(name: str) -> bool:
    """Tell whether what has this name is likely to be a secret."""
    return bool(_NAME.search(name)) and not _ELSEWHERE.fullmatch(name)


def looks_secret(text: str) -> bool:
    """Tell whether a text is a secret by its form."""
    return any(_is_one(found["secret"]) for form in _FORMS for found in form.finditer(text))


def is_common(text: str) -> bool:
    """Tell whether a text is a plain word, a number or a path, which can be shown anywhere."""
    return len(text) < _SHORTEST or bool(_COMMON.fullmatch(text) or _STANDS_IN.fullmatch(text))


def mask(words: list[str]) -> list[str]:
    """Return a command without what looks like a secret in it."""
    masked = []
    for before, word in zip(["", *words], words, strict=False):
        secret = _find_named(before, word) or _find_password(words, before, word)
        masked.append(word.removesuffix(secret) + MASK if secret else mask_text(word))
    return masked


def mask_text(text: str) -> str:
    """Return a text without what is a secret by its form, or has a secret's name before it."""
    for place in (*_PLACES, *_FORMS):
        text = place.sub(_hide, text)
    return text


def mask_comment(line: str) -> str:
    """Return a line of a file without what has a secret's name before it in a comment."""
    return _COMMENT.sub(lambda found: _NOTED.sub(_hide, found.group()), line)


def list_in_variables(variables: Mapping[str, str]) -> Iterator[str]:
    """Return the secrets among variables, and those that are a part of one."""
    for name, text in variables.items():
        yield from list_in_value(text, name)


def list_in_words(words: list[str]) -> Iterator[str]:
    """Return the secrets in a command."""
    for before, word in zip(["", *words], words, strict=False):
        yield _find_named(before, word)
        yield from list_in_value(word)


def list_in_value(value: object, name: str = "") -> Iterator[str]:
    """Return the secrets in an entry, or in anything else that was read from a host's file."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not _ELSEWHERE.fullmatch(str(key)):
                # Of a secret's own table, each part is one.
                yield from list_in_value(one, f"{name} {key}" if is_secret_name(name) else str(key))
    elif isinstance(value, list):
        yield from list_in_words([one for one in value if isinstance(one, str)])
        for one in value:
            yield from list_in_value(one, name)
    elif isinstance(value, str):
        if is_secret_name(name) and _is_one(value):
            yield value
            yield _SCHEME.sub("", value, 1)
        for place in (*_PLACES, *_FORMS):
            yield from (found["secret"] for found in place.finditer(value))


def _find_named(before: str, word: str) -> str:
    """Return the part of a word of a command that is a secret because of a name before it."""
    name, equals, value = word.partition("=")
    if equals and _PLAIN.fullmatch(name) and is_secret_name(name):
        secret = value
    elif _OPTION.fullmatch(before) and is_secret_name(before) and not word.startswith("--"):
        secret = word
    else:
        return ""
    return secret if _is_one(secret) else ""


def _find_password(words: list[str], before: str, word: str) -> str:
    """Return a word that is a password behind `-p`, as far as its program uses it for one."""
    if before != "-p" or word.startswith("-") or is_common(word):
        return ""
    is_otherwise = not _OTHERWISE.isdisjoint(one.rpartition("/")[2] for one in words)
    return "" if is_otherwise or _PORT_OR_PACKAGE.fullmatch(word) else word


def _is_one(text: str) -> bool:
    return not _STANDS_IN.fullmatch(text)


def _hide(found: re.Match[str]) -> str:
    text, (start, end) = found.group(), found.span("secret")
    if not _is_one(found["secret"]):
        return text
    return text[: start - found.start()] + MASK + text[end - found.start() :]


class Scrubber:
    """Takes known secrets out of whatever is shown, wherever they turn up in it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A key may have many lines, and be shown by one of them.
        known = {line.strip() for secret in secrets for line in secret.splitlines()}
        # The longest first: one may be a part of another.
        self._known = sorted({one for one in known if not is_common(one)}, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return a text that can be shown."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        return mask_text(text)

    def clean_all(self, told: dict[str, Any]) -> dict[str, Any]:
        """Return data that can be shown, whatever texts are in it."""
        return {key: self._clean_value(value) for key, value in told.items()}

    def _clean_value(self, value: object) -> object:
        if isinstance(value, dict):
            return self.clean_all(value)
        if isinstance(value, list):
            return [self._clean_value(one) for one in value]
        return self.clean(value) if isinstance(value, str) else value
