"""The examples in configs/ and the documentation say what the program understands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fakes import make_context
from mcp_launch.commands.help import read_topic

from mcp_launch.config_files.planned_changes import Wish, look
from mcp_launch.config_files.site import Site
from mcp_launch.hosts.configured import HOSTS
from mcp_launch.launch import options, plan, profile, profile_file
from mcp_launch.launch.plan import Dotenv
from mcp_launch.launch.profile_tables import Table
from mcp_launch.values import Found

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"

# Each example, its host, and what the plans for its servers are: directory and variables.
EXAMPLES: dict[str, tuple[str, dict[str, tuple[str, dict[str, str]]]]] = {
    "codex.toml": (
        "codex",
        {
            "docs": ("/work/app", {"CODEX_THREAD_ID": "t-1"}),
            "audit": ("/work/app", {"AUDIT_THREAD": "t-1", "AUDIT_KEY": "key"}),
            "browser": ("/work/app", {}),
        },
    ),
    "claude.mcp.json": ("claude", {"docs": ("/work/app", {}), "worktree": ("/work", {})}),
    "claude-desktop.json": ("claude-desktop", {"docs": ("/home/me/notes", {})}),
    "cursor.json": ("cursor", {"docs": ("/work/app/${workspaceFolder}", {})}),
    "vscode.jsonc": ("vscode", {"docs": ("/work/app", {"OTHER": "o"})}),
    "gemini.json": ("gemini", {"audit": ("/work/app", {"AUDIT_KEY": "key"})}),
    "opencode.jsonc": ("opencode", {"docs": ("/work/app", {})}),
    "zed.jsonc": ("zed", {"docs": ("/work", {})}),
    "windsurf.json": ("windsurf", {"docs": ("/home/me/work", {})}),
    "cline.json": ("cline", {"docs": ("/home/me/work", {})}),
    "copilot.json": ("copilot", {"docs": ("/work/app", {})}),
    "goose.yaml": ("goose", {"audit": ("/work/app", {"AUDIT_SESSION": "s-1"})}),
    "amp.jsonc": ("amp", {"docs": ("/work/app", {})}),
    "antigravity.json": ("antigravity", {"docs": ("/work/app", {})}),
    "continue.yaml": ("continue", {"docs": ("/work/app", {})}),
    "crush.json": ("crush", {"docs": ("/work/app", {})}),
    "droid.json": ("droid", {"docs": ("/work/app", {})}),
    "grok.toml": ("grok", {"docs": ("/work/app", {})}),
    "junie.json": ("junie", {"docs": ("/work/app", {})}),
    "kilo.jsonc": ("kilo", {"docs": ("/work/app", {})}),
    "kimi.json": ("kimi", {"docs": ("/work/app", {})}),
    "kiro.json": ("kiro", {"docs": ("/work/app", {})}),
    "lmstudio.json": ("lmstudio", {"docs": ("/home/me/work", {})}),
    "openhands.json": ("openhands", {"docs": ("/work/app", {"AUDIT_KEY": "key"})}),
    "qwen.json": ("qwen", {"docs": ("/work/app", {})}),
    "warp.json": ("warp", {"docs": ("/work", {})}),
    "vibe.toml": ("vibe", {"audit": ("/work/app", {"AUDIT_KEY": "key"})}),
}

# Examples that are not a host's.
OTHERS = {"profile.toml", "mcp-launch-export.service", "otel-collector.yaml"}

ENVIRON = {"PATH": "/bin", "OTHER": "o", "ANTHROPIC_API_KEY": "secret", "HOME": "/nowhere"}


def decide(wanted: profile.Profile) -> plan.Plan:
    context = make_context(
        thread=Found("t-1", "a test"),
        session=Found("s-1", "a test"),
        project_root=Found("/work", "a test"),
    )
    dotenv = Dotenv({"AUDIT_KEY": "key", "KEY": "key"}, ".env")
    return plan.decide(wanted, context, ENVIRON, dotenv, lambda _: True)


def test_every_host_has_an_example() -> None:
    assert {host for host, _ in EXAMPLES.values()} == set(HOSTS)
    assert set(EXAMPLES) | OTHERS == {path.name for path in CONFIGS.iterdir()}


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_an_example_gives_its_plans(name: str) -> None:
    host = HOSTS[EXAMPLES[name][0]]
    [file, *_] = host.list_files(Site("/nowhere", "/nowhere", {}))
    text = (CONFIGS / name).read_text(encoding="utf-8")

    change = look(host, file, text, Wish("/bin/mcp-launch"))

    assert {entry.name for entry in change.entries} == set(EXAMPLES[name][1])
    for entry in change.entries:
        assert entry.words[0].endswith("mcp-launch")
        assert entry.words[1] == "run"
        wanted = profile.load(entry.words[2:], ENVIRON)
        decided = decide(wanted)
        cwd, variables = EXAMPLES[name][1][entry.name]
        assert decided.cwd.value == cwd
        assert variables.items() <= decided.environ.items()
        assert wanted.command[0] in {"npx", "uvx", "audit-server"}


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_an_example_is_commented(name: str) -> None:
    text = (CONFIGS / name).read_text(encoding="utf-8")

    assert HOSTS[EXAMPLES[name][0]].title in text.partition(":")[0] + text.partition("//")[2][:40]


def test_the_example_of_a_profile_gives_its_plan() -> None:
    content = (CONFIGS / "profile.toml").read_bytes()

    servers = profile_file.parse(content, "profile.toml")["servers"]

    record = Table(servers["audit"])
    values = {name: texts for name, texts in record.options.items() if texts is not None}
    decided = decide(profile.Profile(values, record.command, [record]))
    assert decided.argv == ["audit-server", "--stdio"]
    assert decided.cwd.value == "/work"
    assert "ANTHROPIC_API_KEY" not in decided.environ
    wanted = {"AUDIT_URL": "https://localhost/", "CODEX_THREAD_ID": "t-1", "AUDIT_ROOT": "/work"}
    assert (wanted | {"AUDIT_KEY": "key"}).items() <= decided.environ.items()
    assert servers["browser"]["command"] == []


def test_the_example_of_a_profile_has_every_key() -> None:
    text = (CONFIGS / "profile.toml").read_text(encoding="utf-8")

    for key in ("command", "args", "cwd", "env_vars", "env", "dotenv", "pass_env"):
        assert re.search(rf"^{key} = ", text, re.MULTILINE)


def test_the_topics_name_every_option_source_key_and_host() -> None:
    for option in re.findall(r"^  (--[a-z-]+)", options.USAGE, re.MULTILINE):
        assert f"\n**`{option}" in read_topic("options")
    for source in options.SOURCES:
        assert f"`{source}`" in read_topic("sources")
    for key in profile_file.KEYS:
        assert f"`{key}`" in read_topic("profiles")
    for host in HOSTS.values():
        assert host.title in read_topic("wrap")


def test_the_usage_names_every_source() -> None:
    for source in options.SOURCES:
        assert source in options.USAGE
