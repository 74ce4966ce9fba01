"""What README, pages and examples say exists and works."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest
from command_line import run_command
from documented_commands import list_faults

from mcp_launch.launch import options, profile_file

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
HELP = ROOT / "mcp_launch" / "help"
FILES = [README, *sorted(HELP.glob("*.md"))]

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


@each_file
def test_every_command_option_and_code_exists(path: Path) -> None:
    assert list_faults(path.read_text(encoding="utf-8")) == []


@each_file
def test_every_link_leads_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text(encoding="utf-8"))

    assert [link for link in links if not leads_somewhere(path, link)] == []


def leads_somewhere(path: Path, link: str) -> bool:
    """Return whether a relative link leads to a file and, if it names one, a heading."""
    file, _, anchor = link.partition("#")
    target = (path.parent / file).resolve() if file else path
    if not anchor:
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
    return anchor in {name_anchor(heading) for heading in headings}


def name_anchor(heading: str) -> str:
    """Return the anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_the_readme_leads_to_every_page() -> None:
    linked = re.findall(r"mcp_launch/help/(\w+)\.md", README.read_text(encoding="utf-8"))

    assert set(linked) == {path.stem for path in HELP.iterdir()}


def test_the_page_about_options_has_every_option_and_source() -> None:
    page = (HELP / "options.md").read_text(encoding="utf-8")

    named = [*options.TAKE_A_VALUE, *options.SWITCHES, *options.SOURCES]
    assert [name for name in named if not re.search(rf"`{name}[` ]", page)] == []


def test_the_page_about_profiles_has_every_key() -> None:
    page = (HELP / "profiles.md").read_text(encoding="utf-8")

    assert [key for key in profile_file.KEYS if f"`{key}`" not in page] == []


def test_the_page_about_hosts_shows_the_releases_that_the_tests_run() -> None:
    pins = tomllib.loads((ROOT / "tests/hosts/versions.toml").read_text(encoding="utf-8"))
    shown = run_command("explain", "hosts").stdout

    for name in ("codex", "claude", "goose", "copilot", "opencode", "qwen", "kimi", "vscode"):
        assert f" | {pins[name]['version']} | measured | " in shown


# Where each example belongs, and for each of its servers the directory in the project and the
# variables that it then gets.
EXAMPLES: dict[str, tuple[str, dict[str, tuple[str, set[str]]]]] = {
    "claude.mcp.json": ("project/.mcp.json", {"docs": ("part", set()), "worktree": ("", set())}),
    "codex.toml": (
        "home/.codex/config.toml",
        {
            "docs": ("part", set()),
            "audit": ("part", {"AUDIT_THREAD", "AUDIT_KEY"}),
            "browser": ("part", set()),
        },
    ),
    "profile.toml": (
        "home/.config/mcp-launch/config.toml",
        {"audit": ("", {"AUDIT_URL", "AUDIT_ROOT", "AUDIT_KEY"})},
    ),
    "vscode.jsonc": ("project/.vscode/mcp.json", {"docs": ("part", {"OTHER"})}),
}


@pytest.mark.parametrize("name", [path.name for path in sorted((ROOT / "configs").iterdir())])
def test_an_example_gives_its_servers_what_it_says(
    name: str, tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where, servers = EXAMPLES[name]
    write(tmp_path / where, (ROOT / "configs" / name).read_text(encoding="utf-8"), 0o600)
    for file in (".env", ".env.audit"):
        write(project / "part" / file, "AUDIT_KEY=k\nKEY=k\n")
    for program in ("npx", "uvx", "audit-server"):
        write(tmp_path / "bin" / program, "#!/bin/sh\n", 0o755)
    monkeypatch.chdir(project / "part")

    for server, (place, variables) in servers.items():
        done = run_command("env", server, "-v", "--json", PATH=f"{tmp_path}/bin", OTHER="o")
        shown = json.loads(done.stdout)
        assert (done.returncode, shown["problems"]) == (0, [])
        assert shown["frame"]["cwd"]["value"] == str(project / place).rstrip("/")
        assert variables <= {one["name"] for one in shown["variables"]}


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
