"""What `uvx` would start: only tools that were installed with `uv tool install` are resolved."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from npm_caches import Machine, set_age, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.mark.parametrize(
    "words",
    [
        ["uvx", "tiny-server", "-a", "b"],
        ["uvx", "-q", "--", "tiny-server", "-a", "b"],
        ["uvx", "tiny-server@1.2.0", "-a", "b"],
        ["uvx", "--from", "tiny-server==1.2.0", "tiny-server", "-a", "b"],
        ["uvx", "--from=tiny-server", "tiny-server", "-a", "b"],
        ["uv", "tool", "run", "tiny-server", "-a", "b"],
    ],
    ids=" ".join,
)
def test_an_installed_tool_is_started_with_its_arguments(
    machine: Machine, words: list[str]
) -> None:
    tool = machine.install_tool()

    found = machine.find(*words)

    assert found.program == f"{tool}/bin/tiny-server"
    assert found.argv == ["tiny-server", "-a", "b"]
    assert found.why == f"tiny-server 1.2.0 in {tool}"
    assert found.variables == {
        "PATH": f"{tool}/bin:{machine.environ['PATH']}",
        "UV": f"{machine.usr}/bin/uv",
    }


@pytest.mark.parametrize(
    "words",
    [
        ["uvx"],
        ["uvx", "--from", "tiny-server"],
        ["uvx", "tiny-server@latest"],
        ["uvx", "tiny-server@1.1.0"],
        ["uvx", "tiny-server>=1"],
        ["uvx", "tiny-server[extra]"],
        ["uvx", "Tiny-Server"],
        ["uvx", "--with", "other", "tiny-server"],
        ["uvx", "--isolated", "tiny-server"],
        ["uvx", "--python", "3.12", "tiny-server"],
        ["uvx", "--from", "git+https://example.org/x", "tiny-server"],
        ["uvx", "--from", "tiny-server", "../tiny-server"],
        ["uvx", "--from", "tiny-server", "missing"],
        ["uvx", "python"],
        ["uvx", "other"],
    ],
    ids=" ".join,
)
def test_everything_else_is_left_to_uvx(machine: Machine, words: list[str]) -> None:
    machine.install_tool()
    machine.install_tool("python")

    assert machine.keep(*words)


def test_other_commands_of_uv_are_not_runners(machine: Machine) -> None:
    assert machine.resolve("uv", "run", "tiny-server") is None


@pytest.mark.parametrize(
    "environ",
    [
        {"UV_PYTHON": "3.12"},
        {"UV_INDEX": "https://example.org"},
        {"UV_TOOL_DIR": "x"},
        {"XDG_DATA_HOME": "x"},
        {"HOME": ""},
    ],
    ids=str,
)
def test_a_doubtful_environment_is_left_to_uvx(machine: Machine, environ: dict[str, str]) -> None:
    machine.install_tool()
    machine.environ |= environ

    assert machine.keep("uvx", "tiny-server")


@pytest.mark.parametrize("name", ["UV_TOOL_DIR", "XDG_DATA_HOME"])
def test_tools_that_were_moved_are_found(machine: Machine, tmp_path: Path, name: str) -> None:
    tool = machine.install_tool()
    moved = tmp_path / "moved"
    (tool.parent if name == "UV_TOOL_DIR" else tool.parents[2]).rename(moved)
    machine.environ[name] = str(moved)
    if name == "XDG_DATA_HOME":
        python = moved / "uv/python/cpython-3.12.9-linux-x86_64-gnu/bin"
        write(moved / "uv/tools/tiny-server/pyvenv.cfg", f"home = {python}\n")

    assert machine.find("uvx", "tiny-server").program.startswith(f"{moved}/")


@pytest.mark.parametrize("file", ["uv.toml", ".python-version"])
def test_settings_of_uv_are_left_to_uvx(machine: Machine, file: str) -> None:
    machine.install_tool()
    write(machine.home / ".config/uv" / file, "")

    assert file in machine.keep("uvx", "tiny-server").why


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('" }]', '", directory = "/x" }]'),
        ('" }]', '", git = "https://example.org" }]'),
        ('" }]', '", extras = ["a"] }]'),
        ('" }]', '" }, { name = "other" }]'),
        ("entrypoints", 'constraints = [{ name = "other" }]\nentrypoints'),
        (",\n]\n", ",\n]\n\n[tool.options]\nno-index = true\n"),
    ],
    ids=["directory", "git", "extras", "with another", "constraints", "options"],
)
def test_a_tool_that_was_installed_in_another_way_is_left_to_uvx(
    machine: Machine, old: str, new: str
) -> None:
    receipt = machine.install_tool() / "uv-receipt.toml"
    write(receipt, receipt.read_text(encoding="utf-8").replace(old, new))

    assert "uv-receipt.toml names more than" in machine.keep("uvx", "tiny-server").why


def test_a_tool_that_was_installed_in_one_version_is_started(machine: Machine) -> None:
    receipt = machine.install_tool() / "uv-receipt.toml"
    text = receipt.read_text(encoding="utf-8")
    write(receipt, text.replace('" }]', '", specifier = "==1.2.0" }]'))

    assert machine.find("uvx", "tiny-server")


def test_a_second_interpreter_of_uv_is_a_doubt(machine: Machine) -> None:
    tool = machine.install_tool()
    interpreters = tool.parents[1] / "python"
    (interpreters / "cpython-3.12").symlink_to("cpython-3.12.9-linux-x86_64-gnu")
    (interpreters / ".temp").mkdir()
    assert machine.find("uvx", "tiny-server")

    (interpreters / "cpython-3.13.1-linux-x86_64-gnu").mkdir()
    assert "another interpreter" in machine.keep("uvx", "tiny-server").why


def test_an_interpreter_that_is_not_uvs_is_a_doubt(machine: Machine) -> None:
    tool = machine.install_tool()
    write(tool / "pyvenv.cfg", "home = /usr/bin\n")

    assert "another interpreter" in machine.keep("uvx", "tiny-server").why


def test_a_tool_with_changed_packages_is_left_to_uvx(machine: Machine) -> None:
    tool = machine.install_tool()
    packages = tool / "lib/python3.12/site-packages"
    (packages / "other-1.0.dist-info").mkdir()
    set_age(packages / "other-1.0.dist-info", 5.0)

    assert "was changed" in machine.keep("uvx", "tiny-server").why


def test_a_script_in_the_place_of_uvx_is_kept(machine: Machine) -> None:
    machine.install_tool()
    write(machine.usr / "bin/uvx", "#!/bin/sh\n", 0o755)

    assert "is not uv's own uvx" in machine.keep("uvx", "tiny-server").why


@pytest.mark.parametrize("layout", ["environments-v2/0123/4567", "environments-v1/0123"])
@pytest.mark.parametrize("moved", ["", "UV_CACHE_DIR", "XDG_CACHE_HOME"])
def test_a_tool_without_an_environment_is_known_to_be_missing(
    machine: Machine, layout: str, moved: str
) -> None:
    cache = machine.home / ".cache"
    if moved:
        cache = machine.home / "elsewhere"
        machine.environ[moved] = str(cache)
    write(cache / "uv" / "environments-v2/0123/4567.lock", "")
    write(cache / "uv" / "environments-v2/0123/89ab/bin/other", "", 0o755)
    install = machine.keep("uvx", "--from", "tiny", "tiny-server").install

    assert install
    assert (install.runner, install.package) == ("uvx", "tiny")
    assert install.is_missing()
    home = cache if moved == "UV_CACHE_DIR" else cache / "uv"
    write(home / layout / "bin/tiny-server", "", 0o755)
    assert not install.is_missing()


@pytest.mark.parametrize(
    "words",
    [
        ["uvx", "tiny-server@latest", "-a"],
        ["uvx", "tiny-server[extra]>=1"],
        ["uvx", "-q", "--python=3.12", "--with", "other", "--", "tiny-server", "--from", "x"],
        ["uvx", "--from", "git+https://example.org/x", "tiny-server"],
        ["uv", "tool", "run", "--index", "https://example.org", "tiny-server"],
    ],
    ids=" ".join,
)
def test_a_tool_may_be_missing_in_whatever_way_it_is_named(
    machine: Machine, words: list[str]
) -> None:
    machine.environ["UV_INDEX"] = "https://example.org"
    install = machine.keep(*words).install

    assert install
    assert install.is_missing()
    write(machine.home / ".cache/uv/environments-v2/01/23/bin/tiny-server", "", 0o755)
    assert not install.is_missing()


@pytest.mark.parametrize(
    "words",
    [
        ["uvx"],
        ["uvx", "--isolated", "tiny-server"],
        ["uvx", "--no-cache", "tiny-server"],
        ["uvx", "--cache-dir", "x", "tiny-server"],
        ["uvx", "--from", "x", "./tiny-server"],
        ["uvx", "python"],
    ],
    ids=" ".join,
)
def test_a_tool_that_uvx_may_take_from_elsewhere_is_not_said_to_be_missing(
    machine: Machine, words: list[str]
) -> None:
    assert machine.keep(*words).install is None


def test_a_tool_of_the_user_is_not_said_to_be_missing(machine: Machine) -> None:
    machine.install_tool(version="1.0.0")

    assert machine.keep("uvx", "tiny-server@1.2.0").install is None
    assert machine.keep("uvx", "--from", "other", "tiny-server").install is None


def test_a_cache_that_a_setting_moves_is_not_said_to_lack_a_tool(machine: Machine) -> None:
    file = write(machine.home / ".config/uv/uv.toml", 'index-url = "x"')
    assert machine.keep("uvx", "tiny-server").install
    write(file, 'cache-dir = "/elsewhere"')

    assert machine.keep("uvx", "tiny-server").install is None


def test_a_cache_at_an_unclear_place_is_not_said_to_lack_a_tool(machine: Machine) -> None:
    machine.environ["UV_CACHE_DIR"] = "cache"

    assert machine.keep("uvx", "tiny-server").install is None


def test_a_cache_that_cannot_be_read_is_not_said_to_lack_a_tool(machine: Machine) -> None:
    install = machine.keep("uvx", "tiny-server").install
    cache = machine.home / ".cache/uv/environments-v2"
    cache.parent.mkdir(parents=True)
    cache.symlink_to(cache)  # a loop

    assert install
    assert not install.is_missing()
