"""Find secrets in what users wrote, and mask them in everything that is shown.

A secret is recognised by the name before it, or by its own form. Once recognised in one place,
it is masked in every other text as well (`Scrubber`).
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any

from mcp_launch.launch.environment import ANYWHERE, CHOSEN_BY_PEOPLE
from mcp_launch.launch.options import SOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MASK = "***"

_NAME = re.compile(ANYWHERE, re.IGNORECASE)
_TYPED = re.compile(CHOSEN_BY_PEOPLE, re.IGNORECASE)  # its value may be a number

# Keys that name the place of a secret, not its value.
_ELSEWHERE = re.compile(r"\w*_env_vars?|env_(?:http_headers|keys|vars)", re.IGNORECASE)

# Where a secret appears in a text. Its end may be missing, because long texts are cut. Names are
# limited to forty characters on either side, or texts without spaces would take forever.
_OPTIONS = rf"(?:^|\s)--?(?!-?no-)(?i:[\w-]{{0,40}}{ANYWHERE}[\w-]{{0,40}})"
_PLACES = tuple(
    re.compile(pattern, re.VERBOSE | re.DOTALL)
    for pattern in (
        # In quotes after its name: in an object, a table, a script. A KeyError has no secret.
        rf"""(?i:{ANYWHERE}(?!\w{{0,40}}error|\w{{0,40}}_env_var)[\w-]{{0,40}})\\?["']?\s*[:=]\s*
             (?P<quote>\\?["'])(?P<secret>(?:(?!(?P=quote))(?:\\.|.))+)""",
        # Without quotes: in an address, a connection string, a shell's command line.
        rf"""(?i:{ANYWHERE}(?!\w{{0,40}}_env_var)[\w-]{{0,40}}=)(?P<secret>[^\s"'\\&;][^\s"'&;]*)""",
        # As the value of an option, in a script.
        rf"""{_OPTIONS}\s+(?P<quote>["'])(?P<secret>(?:(?!(?P=quote)).)+)""",
        rf"""{_OPTIONS}\s+(?P<secret>[^\s"'-][^\s"']*)""",
        # The user and password of curl; other programs' `-u` may be a user and group.
        r"""\bcurl\b[^|;&\n]{0,200}?\s(?:-u|--user)[\s=]{0,3}["']?[^\s:"']{1,80}:
             (?P<secret>[^\s"']+)""",
        # In a header: the scheme may be shown, `X-Api-Key` has none.
        r"""(?i:\b(?:(?:\w{1,40}-){1,6}(?:key|token|secret|auth)|(?:proxy-)?authorization
             |password)\s*:\s*(?:(?:bearer|basic|digest|token)\s+)?)(?P<secret>[^\s"',]+)""",
        r"""(?i:\bcookie\s*:\s*)(?P<secret>[^\s"'][^"'\n]*)""",
        r"""\b(?i:bearer|basic)\s+(?P<secret>(?=[\w.~+/-]*[\dA-Z])[\w.~+/-]{8,}=*)""",
    )
)

# Secrets recognised by their form, whatever their name.
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
    # A private key; its end may be missing, because long texts are cut.
    re.compile(
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?P<secret>.+?)(?=-----END|\Z)",
        re.DOTALL,
    ),
    # The password in a URL; a token may take its place, without a user name.
    re.compile(r"\w://[^\s:/@]*:(?P<secret>[^\s/]+)(?=@)"),
    re.compile(r"\bhttps?://(?P<secret>[\w.~%+-]{16,})(?=@)"),
    # URLs that are secrets themselves: anyone who has one can post, or command a bot.
    re.compile(
        r"""(?i:\bhooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/
            |\bdiscord(?:app)?\.com/api/(?:v\d+/)?webhooks/
            |\.webhook\.office\.com/|\boutlook\.office(?:365)?\.com/webhook/
            |\bhooks\.zapier\.com/hooks/|\bapi\.telegram\.org/(?:file/)?bot
            |\bmaker\.ifttt\.com/trigger/[^/\s]{1,80}/(?:json/)?with/key/
            )(?P<secret>[^\s"'<>?\#]+)""",
        re.VERBOSE,
    ),
    # A parameter that signs a URL, or grants access to it.
    re.compile(
        r"""[?&](?i:sig|signature|x-(?:amz|goog)-signature|hmac|code)=
            (?P<secret>[^\s"'&\#]{12,})""",
        re.VERBOSE,
    ),
)

# Placeholders for a secret: a variable, a source of `run`, our own mask.
_PLACEHOLDER = re.compile(
    r"(?:(?i:bearer|basic|token)\s+)?(?:\$\{(?:\w+:)?[\w.][\w./-]*\}|\$[A-Z_][A-Z0-9_]*"
    rf"|\{{(?:env|file):[^}}]*\}}|\*\*\*|(?:SOURCE|{'|'.join(SOURCES)})[,.;)]?)"
)
_SCHEME = re.compile(r"(?:bearer|basic|digest|token)\s+", re.IGNORECASE)

# A name, not a text that contains "=" somewhere; and an option that takes a value.
_PLAIN = re.compile(r"[\w.-]+")
_OPTION = re.compile(r"-(?!-no-)[\w.-]+")

# Programs whose `-p` is not a password: a package, an interpreter, a port, a text to run.
_OTHER_MEANING = {
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

# The option of `run` that gives the server a variable.
_SET = "--set"

# Values masked after their name, but not searched for elsewhere: too many other texts have them.
_SHORTEST = 6
_COMMON = re.compile(r"[a-z]{1,15}|\d{1,8}|[A-Z]+(?:_[A-Z]+)+|[.~]{0,2}/[^+=]*")


def is_secret_name(name: str) -> bool:
    """Return whether a value with this name is likely to be a secret.

    `launch.environment.is_host_secret` has the few that hosts need for themselves.
    """
    return bool(_NAME.search(name)) and not _ELSEWHERE.fullmatch(name)


def looks_secret(text: str) -> bool:
    """Return whether a text has the form of a secret."""
    return any(map(_is_real, list_by_form(text)))


def list_by_form(text: str) -> Iterator[str]:
    """Return what has the form of a secret in a text, whatever is written before it."""
    return (found["secret"] for form in _FORMS for found in form.finditer(text))


def is_common(text: str) -> bool:
    """Return whether a text is a plain word, a number or a path, which is safe to show."""
    return len(text) < _SHORTEST or bool(_COMMON.fullmatch(text) or _PLACEHOLDER.fullmatch(text))


def join(words: Sequence[str]) -> str:
    """Return words as a shell takes them, with what is masked unquoted."""
    return shlex.join(words).replace(shlex.quote(MASK), MASK)


def mask(words: list[str]) -> list[str]:
    """Return a command with everything that looks like a secret masked."""
    masked = []
    for before, word in zip(["", *words], words, strict=False):
        secret = _find_named(before, word) or _find_password(words, before, word)
        masked.append(word.removesuffix(secret) + MASK if secret else mask_text(word))
    return masked


def mask_text(text: str) -> str:
    """Return a text with its secrets masked, known by their form or by the name before them."""
    for place in (*_PLACES, *_FORMS):
        text = place.sub(_hide, text)
    return text


def list_in_variables(variables: Mapping[str, str]) -> Iterator[str]:
    """Return the secrets among the values of variables, whole or as a part of one."""
    for name, text in variables.items():
        yield from list_in_value(text, name)


def list_in_words(words: list[str]) -> Iterator[str]:
    """Return the secrets in a command."""
    for before, word in zip(["", *words], words, strict=False):
        yield _find_named(before, word)
        yield _find_password(words, before, word)
        yield from list_in_value(word)


def list_in_value(value: object, name: str = "") -> Iterator[str]:
    """Return the secrets in an entry, or in any other value from a host's file."""
    if isinstance(value, dict):
        for key, one in value.items():
            if not _ELSEWHERE.fullmatch(str(key)):
                # In a table with a secret's name, every value is a secret.
                yield from list_in_value(one, f"{name} {key}" if is_secret_name(name) else str(key))
    elif isinstance(value, list):
        yield from list_in_words([one for one in value if isinstance(one, str)])
        for one in value:
            yield from list_in_value(one, name)
    elif isinstance(value, str):
        if is_secret_name(name) and _is_real(value):
            yield value
            yield _SCHEME.sub("", value, 1)
        for place in (*_PLACES, *_FORMS):
            yield from (found["secret"] for found in place.finditer(value))


def _find_named(before: str, word: str) -> str:
    """Return the part of a command's word that is a secret because of the name before it."""
    name, equals, value = word.partition("=")
    if name == _SET:
        before, (name, equals, value) = name, value.partition("=")
    # As in the `env` of an entry, any value of our own option may be a secret.
    is_secret = before == _SET or (_PLAIN.fullmatch(name) and is_secret_name(name))
    if equals and is_secret:
        secret = value
    elif _OPTION.fullmatch(before) and is_secret_name(before) and not word.startswith("--"):
        secret = word
    else:
        return ""
    return secret if _is_real(secret) else ""


def _find_password(words: list[str], before: str, word: str) -> str:
    """Return a word that is a password after `-p`, if the program uses `-p` for that."""
    if before in {"-u", "--user"} and "curl" in words:
        return word.partition(":")[2]
    if before != "-p" or word.startswith("-") or is_common(word):
        return ""
    has_other_meaning = not _OTHER_MEANING.isdisjoint(one.rpartition("/")[2] for one in words)
    return "" if has_other_meaning or _PORT_OR_PACKAGE.fullmatch(word) else word


def _is_real(text: str) -> bool:
    return not _PLACEHOLDER.fullmatch(text)


def _hide(found: re.Match[str]) -> str:
    text, (start, end) = found.group(), found.span("secret")
    if not _is_real(found["secret"]):
        return text
    return text[: start - found.start()] + MASK + text[end - found.start() :]


class Scrubber:
    """Masks known secrets wherever they appear in what is shown."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # A key may have many lines, and any one of them may be shown.
        known = {line.strip() for secret in secrets for line in secret.splitlines()}
        # Longest first: one may be a part of another.
        self._known = sorted({one for one in known if not is_common(one)}, key=len, reverse=True)

    def clean(self, text: str) -> str:
        """Return a text with its secrets masked."""
        for secret in self._known:
            text = text.replace(secret, MASK)
        return mask_text(text)

    def clean_all(self, data: dict[str, Any]) -> dict[str, Any]:
        """Return data with the secrets masked in all its texts."""
        return {key: self._clean_value(value) for key, value in data.items()}

    def clean_sent(self, data: dict[str, Any], name: str = "") -> dict[str, Any]:
        """Return data from a host with the secrets masked in all its texts, names and numbers.

        Below the name of a secret, everything is one, also in a pair of `name` and `value`.
        """
        label = data.get("name")
        if isinstance(label, str) and is_secret_name(label):
            return {
                self.clean(key): value if key == "name" else self._clean_sent_value(value, label)
                for key, value in data.items()
            }
        return {
            self.clean(key): self._clean_sent_value(value, f"{name} {key}")
            for key, value in data.items()
        }

    def _clean_sent_value(self, value: object, name: str) -> object:
        if isinstance(value, dict):
            return self.clean_sent(value, name)
        if isinstance(value, list):
            words = [one for one in value if isinstance(one, str)]
            masked = mask(words) if len(words) == len(value) else value
            return [self._clean_sent_value(one, name) for one in masked]
        if isinstance(value, str):
            is_secret = is_secret_name(name) and value and _is_real(value)
            return MASK if is_secret else self.clean(value)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return MASK if is_number and any(map(_TYPED.search, name.split())) else value

    def _clean_value(self, value: object) -> object:
        if isinstance(value, dict):
            return self.clean_all(value)
        if isinstance(value, list):
            return [self._clean_value(one) for one in value]
        return self.clean(value) if isinstance(value, str) else value
