"""Show what users wrote without showing their secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = "***"

# Names of what is nobody's business.
_NAMES = (
    r"(?<!mon)key(?!board|map|word|pad)|token|secret|passw|passphrase|credential|cookie|dsn"
    r"|auth(?!or(?!i[sz]))|bearer|(?<![a-z])(?:pass|pat|jwt)(?![a-z])|(?<=[_-])pwd(?![a-z])"
)
_NAME = re.compile(_NAMES, re.IGNORECASE)
_ASSIGNED = re.compile(rf"""((?:{_NAMES})\w*["']?\s*[:=]\s*)("[^"]*"|'[^']*')""", re.IGNORECASE)

# The same without quotes: in an address, a connection string, a shell's command line.
_UNQUOTED = re.compile(rf"""((?:{_NAMES})[\w-]*=)(?!["'*])[^\s"'&;]+""", re.IGNORECASE)

# … and as the value of an option, in a script.
_OPTION = re.compile(rf"""(\s--?[\w-]*(?:{_NAMES})[\w-]*\s+)(?![-"'])[^\s"']+""", re.IGNORECASE)

# What stands in a header: the scheme may be shown, `X-Api-Key` has none.
_SCHEME = re.compile(r"\b(bearer|basic)\s+[\w.~+/-]{8,}=*", re.IGNORECASE)
_HEADER = re.compile(r"""\b((?:\w+-)+(?:key|token|secret|auth)\s*:\s*)[^\s"',]+""", re.IGNORECASE)

# Values that say by their form what they are, whatever they are called.
_VALUE = re.compile(
    r"""\b(?:
        sk-[\w-]{16,}                     # OpenAI, Anthropic
        | gh[pousr]_\w{20,} | github_pat_\w{20,}
        | glpat-[\w-]{16,}
        | xox[abprs]-[\w-]{10,}
        | AKIA[0-9A-Z]{16}
        | AIza[\w-]{30,}
        | npm_\w{30,} | pypi-[\w-]{30,} | hf_\w{20,} | gsk_\w{20,}
        | [sr]k_(?:live|test)_\w{16,} | ntn_\w{20,} | lin_api_\w{20,}
        | eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*  # a JWT
    )""",
    re.VERBOSE,
)
_PASSWORD_IN_URL = re.compile(r"(\w+://[^\s:/@]*:)[^\s/]+(?=@)")

# A name, not a text that has "=" in it somewhere.
_PLAIN = re.compile(r"[\w.-]+")

# Shorter ones are in too many other words to be looked for.
_SHORTEST = 6


def is_secret_name(name: str) -> bool:
    """Tell whether what has this name is likely to be a secret."""
    return bool(_NAME.search(name))


def looks_secret(text: str) -> bool:
    """Tell whether a text is a secret by its form."""
    return bool(_VALUE.search(text) or _PASSWORD_IN_URL.search(text))


def mask(words: list[str]) -> list[str]:
    """Return a command without what looks like a secret in it."""
    masked = []
    for before, word in zip(["", *words], words, strict=False):
        name, equals, _ = word.partition("=")
        if equals and is_secret_name(name) and _PLAIN.fullmatch(name):
            masked.append(f"{name}={MASK}")
        elif before.startswith("-") and is_secret_name(before) and "=" not in before:
            masked.append(MASK)
        else:
            masked.append(mask_text(word))
    return masked


def mask_text(text: str) -> str:
    """Return a text without what is a secret by its form, or is assigned to a secret's name."""
    text = _ASSIGNED.sub(rf'\1"{MASK}"', text)
    for form in (_UNQUOTED, _OPTION, _HEADER):
        text = form.sub(rf"\1{MASK}", text)
    text = _SCHEME.sub(rf"\1 {MASK}", text)
    return _PASSWORD_IN_URL.sub(rf"\1{MASK}", _VALUE.sub(MASK, text))


class Scrubber:
    """Takes known secrets out of whatever is shown, wherever they turn up in it."""

    def __init__(self, secrets: Iterable[str]) -> None:
        known = {secret for secret in secrets if len(secret) >= _SHORTEST}
        # The longest first: one may be a part of another.
        self._known = sorted(known, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return a text that can be shown."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        return mask_text(text)
