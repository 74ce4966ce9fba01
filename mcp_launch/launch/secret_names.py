"""By which names a secret is known: the hosts' own variables, and words in any other name.

Who masks a text asks for the words anywhere in a name: to hide too much does little harm. Who
accuses a file of holding a secret asks for names that end with one: AUTH_METHOD and MAX_TOKENS
are not secrets. A launch needs only the hosts' own, so nothing is compiled here.
"""

from __future__ import annotations

# What hosts use to reach their models and each other: no business of a server's.
HOSTS_OWN = (
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_FOUNDRY_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "AZURE_OPENAI_API_KEY",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_MESSAGING_TOKEN",
    "CLAUDE_CODE_OAUTH_*",
    "CLAUDE_CODE_SESSION_ACCESS_TOKEN",
    "CODEX_ACCESS_TOKEN",
    "CODEX_API_KEY",
    "COPILOT_GITHUB_TOKEN",
    "CURSOR_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENAI_API_KEY",
    "OPENAI_FEDERATION_RULE_ID",
    "OPENAI_IDENTITY_TOKEN*",
    "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
    "OPENROUTER_API_KEY",
    "WINDSURF_API_KEY",
    "XAI_API_KEY",
)

# Each word as it is found anywhere in a name, and as a name ends that means a secret for
# certain (empty: it never does).
_WORDS = (
    (r"(?<!mon)key(?!board|map|word|pad)", "key"),
    ("token", "token"),
    ("secret", "secret"),
    ("passw", "password|passwd"),
    ("passphrase", "passphrase"),
    ("credential", "credentials?"),
    ("cookie", "cookie"),
    ("dsn", "dsn"),
    (r"auth(?!or(?!i[sz]))", "authorization"),
    ("bearer", ""),
    (r"(?<![a-z])(?:pat|jwt)(?![a-z])", ""),
    (r"pw(?![a-z])", ""),
    # SMTP_PASS and USERPASS; but neither BYPASS, COMPASS nor GIT_ASKPASS, which is a program,
    # nor `--pass-env`, which is an option of ours.
    (r"(?<!by)(?<!com)(?<!tres)(?<!multi)(?<!kee)(?<!ask)pass(?![a-z]|[_-]env)", ""),
    # MYSQL_PWD and DBPWD; but neither PWD nor OLDPWD.
    (r"(?<=[a-z_;-])(?<!old)(?<!old_)pwd(?![a-z])", ""),
)

# Patterns to be matched in any case. The last: what people choose, which may be a plain word.
ANYWHERE = f"(?:{'|'.join(word for word, _ in _WORDS)})"
AT_THE_END = f"(?:{'|'.join(ending for _, ending in _WORDS if ending)})$"
CHOSEN_BY_PEOPLE = "(?:password|passwd|passphrase|secret)$"
