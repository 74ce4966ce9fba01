"""What is a secret, and what only looks like one."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_launch import masking
from mcp_launch.masking import Scrubber

SECRET = "tango-Foxtrot-17"
LONG = "0123456789abcdefABCDEF0123456789abcdef"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["--header", f"Authorization: Bearer {SECRET}"], "Authorization: Bearer ***"),
        (["-H", f"Authorization: {SECRET}"], "Authorization: ***"),
        (["--header", f"X-API-Key:{SECRET}"], "X-API-Key:***"),
        ([f"--header=X-API-Key: {SECRET}"], "--header=X-API-Key: ***"),
        (["-H", f"Cookie: a=1; session={SECRET}"], "Cookie: ***"),
        ([f"https://x/?user=1&token={SECRET}"], "https://x/?user=1&token=***"),
        ([f"https://x/?api_key={SECRET}&user=1"], "https://x/?api_key=***&user=1"),
        ([f"--url=https://x/?api_key={SECRET}"], "--url=https://x/?api_key=***"),
        (["-e", f"DB_PASS={SECRET}"], "DB_PASS=***"),
        (["-e", f"MYSQL_PWD={SECRET}"], "MYSQL_PWD=***"),
        (["-e", f"GITHUB_PAT={SECRET}"], "GITHUB_PAT=***"),
        (["-e", f"API_KEY={SECRET}+/a=="], "API_KEY=***"),
        (["-e", f"API_KEY={SECRET} {SECRET}"], "API_KEY=***"),
        (["--pass", SECRET], "***"),
        (["--token", "plain"], "***"),
        ([f"--auth-token={SECRET}"], "--auth-token=***"),
        ([f"Server=db;Password={SECRET};Port=1"], "Server=db;Password=***;Port=1"),
        ([f"Server=db;Uid=sa;Pwd={SECRET}"], "Server=db;Uid=sa;Pwd=***"),
        ([f"AccountName=x;AccountKey={SECRET}+/x=="], "AccountName=x;AccountKey=***"),
        (["postgres://u:p@ssw0rd@h/db"], "postgres://u:***@h/db"),
        (["redis://:hunter@h"], "redis://:***@h"),
        (["-e", f"MY_PW={SECRET}"], "MY_PW=***"),
        (
            [f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----"],
            "-----BEGIN RSA PRIVATE KEY-----***-----END RSA PRIVATE KEY-----",
        ),
        ([f"-----BEGIN PRIVATE KEY----- {SECRET} {SECRET}"], "-----BEGIN PRIVATE KEY-----***"),
        (["-e", f"PW={SECRET}"], "PW=***"),
        (["run", "--set", "PLAIN=word"], "PLAIN=***"),
        (["run", "--set=PLAIN=word=x"], "--set=PLAIN=***"),
        (["-e", f"ROOTPW={SECRET}"], "ROOTPW=***"),
        (["-e", f"DBPWD={SECRET}"], "DBPWD=***"),
        (["-e", f"USERPASS={SECRET}"], "USERPASS=***"),
        (["--pw", SECRET], "***"),
        (
            [f"https://hooks.slack.com/services/T0/B0/{SECRET}"],
            "https://hooks.slack.com/services/***",
        ),
        (
            [f"--to=https://discord.com/api/webhooks/17/{SECRET}?wait=1"],
            "--to=https://discord.com/api/webhooks/***?wait=1",
        ),
        ([f"https://api.telegram.org/bot17:{SECRET}/get"], "https://api.telegram.org/bot***"),
        ([f"https://{SECRET}@sentry.io/42"], "https://***@sentry.io/42"),
        ([f"https://x.net/b?sv=1&sig={SECRET}%3D&se=2"], "https://x.net/b?sv=1&sig=***&se=2"),
        (["-c", f"exec server --token {SECRET} --port 1"], "exec server --token *** --port 1"),
        (["-c", f"exec server --token '{SECRET} 2'"], "exec server --token '***'"),
        (["-c", f'export TOKEN="{SECRET}"; server'], 'export TOKEN="***"; server'),
        (["-c", f"TOKEN={SECRET} server"], "TOKEN=***"),
        ([f'{{"apiKey": "{SECRET}", "port": 1}}'], '{"apiKey": "***", "port": 1}'),
        ([f'{{\\"apiKey\\": \\"{SECRET}\\"}}'], '{\\"apiKey\\": \\"***\\"}'),
        ([f'{{"apiKey": "{SECRET}'], '{"apiKey": "***'),
        ([f'{{"apiKey": "a\\"{SECRET}"}}'], '{"apiKey": "***"}'),
        ([f'{{"apiKey": "${{KEY:-{SECRET}}}"}}'], '{"apiKey": "***"}'),
        *[
            ([f"{before}{LONG}"], "***")
            for before in ("sk-ant-", "sk_live_", "rk_test_", "gsk_", "ntn_", "lin_api_", "ghp_")
        ],
        *[([f"{before}{LONG}"], "***") for before in ("github_pat_", "glpat-", "xoxb-", "hf_")],
    ],
)
def test_a_secret_is_not_shown(words: list[str], shown: str) -> None:
    assert masking.mask(words)[-1] == shown
    said = Scrubber(masking.list_in_words(words)).clean(f"cannot use {words[-1]}")
    assert not any(secret in said for secret in (SECRET, LONG, "p@ss", "hunter"))


@pytest.mark.parametrize(
    "words",
    [
        ["AUTHOR=me-and-myself"],
        ["--author", "me-and-myself"],
        ["KEYBOARD=qwertz-1"],
        ["--keymap", "emacs-2"],
        ["monkey=banana-3"],
        ["PWD=/home/me"],
        ["OLDPWD=/home/me/before"],
        ["OLD_PWD=/home/me/before"],
        ["BYPASS=localhost-1"],
        ["GIT_ASKPASS=/usr/bin/askpass-1"],
        ["https://me@example.org/a"],
        ["https://discord.com/api/v10/gateway"],
        ["https://example.org/?code=short"],
        ["ssh://git@github.com/a/b"],
        ["--pass-env", "safe,LANG"],
        ["--no-auth", "server.py"],
        ["server", "-p", "127.0.0.1:8080"],
        ["docker", "run", "-p", "host-1:80"],
        ["/opt/bin/mcp-launch", "run", "--", "npx", "-p", "some-mcp-2"],
        ["server", "-p", "@scope/package@1.2"],
        ["see # token: in a message"],
        ["--use-token", "--verbose"],
        ["KeyError: 'CLAUDE_PROJECT_DIR'"],
        ["AuthenticationError: 'no such user'"],
        ['add it to the entry: "env": {"GITHUB_TOKEN": "$GITHUB_TOKEN"}'],
        ['"env": {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}'],
        ['"headers": {"Authorization": "Bearer ${env:TOKEN}"}'],
        ['"environment": {"TOKEN": "{env:TOKEN}"}'],
        ['bearer_token_env_var = "GITHUB_TOKEN"'],
        ["--token", "${input:token}"],
        ["--env", "API_TOKEN=dotenv"],
        ["give it with --env API_TOKEN=SOURCE (thread, session)"],
        ["Authorization: Bearer $TOKEN"],
        ["postgres://me:${PASSWORD}@h"],
        ["http://localhost:3000/@scope/package"],
        ["a basic installation"],
    ],
)
def test_what_is_no_secret_is_shown(words: list[str]) -> None:
    assert masking.mask(words) == words
    assert Scrubber(masking.list_in_words(words)).clean(" ".join(words)) == " ".join(words)


def test_a_password_behind_a_letter_is_not_shown() -> None:
    assert masking.mask(["mysql-server", "-p", SECRET]) == ["mysql-server", "-p", "***"]


@pytest.mark.parametrize(
    "value",
    [
        {"env": {"DB_PASSWORD": SECRET}},
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"env": {"DATABASE_URL": f"postgres://me:{SECRET}@h/db"}},
        {"args": ["-c", f"server --key {SECRET}"]},
        {"args": ["--api-key", SECRET]},
        {"args": ["-c", f"TOKEN={SECRET} server"]},
        {"args": ["--header", f"X-API-Key:{SECRET}"]},
        {"args": [f"--header=Authorization: Bearer {SECRET}"]},
        {"args": [f"https://x/?profile=p&api_key={SECRET}"]},
        {"tokens": [SECRET]},
        {"credentials": {"first": [{"second": SECRET}]}},
        {"env": {"PRIVATE_KEY": f"-----BEGIN-----\n{SECRET}\n-----END-----"}},
    ],
)
def test_what_was_seen_as_a_secret_is_known_everywhere(value: object) -> None:
    scrubber = Scrubber(masking.list_in_value(value))

    assert scrubber.clean(f"cannot log in with {SECRET}.") == "cannot log in with ***."
    assert scrubber.clean_all({"said": [f"<{SECRET}>"], "code": 1}) == {
        "said": ["<***>"],
        "code": 1,
    }


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"env": {"AUTH_MODE": "docker"}}, "docker is not found"),
        ({"env": {"MAX_TOKENS": "100000"}}, "port 100000"),
        ({"env": {"GOOGLE_CREDENTIALS": "/etc/google"}}, "/etc/google/x.json is gone"),
        ({"bearer_token_env_var": "GITHUB_TOKEN_2"}, "Codex does not pass GITHUB_TOKEN_2 on"),
        ({"env_http_headers": {"Authorization": "MY_VARIABLE_2"}}, "MY_VARIABLE_2 is not set"),
        ({"env_keys": ["MY_TOKEN_2"]}, "MY_TOKEN_2 is not set"),
        ({"env_vars": [{"name": "MY_TOKEN_2", "source": "local"}]}, "MY_TOKEN_2 is not set"),
        ({"env": {"TOKEN_NAME": "GITHUB_TOKEN"}}, "Codex does not pass GITHUB_TOKEN on"),
    ],
)
def test_a_common_word_is_no_secret_wherever_it_is(value: object, text: str) -> None:
    assert Scrubber(masking.list_in_value(value)).clean(text) == text


@pytest.mark.parametrize(
    "word",
    ["KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIALS", "COOKIE", "DSN"],
)
def test_a_name_that_ends_like_a_secrets_is_masked(word: str) -> None:
    assert masking.is_secret_name(f"MY_{word}")


@pytest.mark.parametrize(
    ("given", "masked"),
    [
        ({"user": "me", "password": "letmein"}, {"user": "me", "password": "***"}),
        ({"password": "20241225", "api_key": "/abc"}, {"password": "***", "api_key": "***"}),
        ({"passwd": 12345678, "n": 12345678}, {"passwd": "***", "n": 12345678}),
        ({"db": {"password": {"value": 1234}}}, {"db": {"password": {"value": "***"}}}),
        (
            {"headers": [{"name": "X-Api-Key", "value": "abcdEFGH"}]},
            {"headers": [{"name": "X-Api-Key", "value": "***"}]},
        ),
        ({"args": ["curl", "-u", "me:hunter2"]}, {"args": ["curl", "-u", "me:***"]}),
        ({"password": "${PASSWORD}", "n": None}, {"password": "${PASSWORD}", "n": None}),
        ({"password": "", "path": "/a/b"}, None),
        ({"name": "read", "value": "x", "max_tokens": 200}, None),
    ],
)
def test_arguments_of_a_call_are_masked_by_their_names(given: Any, masked: Any) -> None:
    assert Scrubber([]).clean_sent(given) == (given if masked is None else masked)
