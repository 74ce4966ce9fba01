"""What `uvx` would start: only tools that were installed with `uv tool install` are resolved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from npm_caches import HOUR, Machine, set_age, write

Change = Callable[[Machine, Path], object]


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


def change_receipt(old: str, new: str) -> Change:
    def change(machine: Machine, tool: Path) -> None:
        del machine
        receipt = tool / "uv-receipt.toml"
        write(receipt, receipt.read_text(encoding="utf-8").replace(old, new))
        set_age(receipt, HOUR)

    return change


def change_packages(_: Machine, tool: Path) -> None:
    other = tool / "lib/python3.12/site-packages/other-1.0.dist-info"
    other.mkdir()
    set_age(other, 5.0)


def set_variable(name: str, value: str) -> Change:
    return lambda machine, _: machine.environ.update({name: value})


def write_setting(name: str) -> Change:
    return lambda machine, _: write(machine.home / ".config/uv" / name, "")


MORE = "uv-receipt.toml names more than"
# What makes the doubt, and a part of the reason.
DOUBTS: dict[str, tuple[Change, str]] = {
    "another Python": (set_variable("UV_PYTHON", "3.12"), ""),
    "another index": (set_variable("UV_INDEX", "https://example.org"), ""),
    "a relative directory": (set_variable("UV_TOOL_DIR", "x"), ""),
    "a relative home for data": (set_variable("XDG_DATA_HOME", "x"), ""),
    "no home": (set_variable("HOME", ""), ""),
    "settings": (write_setting("uv.toml"), "uv.toml"),
    "a version of Python": (write_setting(".python-version"), ".python-version"),
    "from a directory": (change_receipt('" }]', '", directory = "/x" }]'), MORE),
    "from Git": (change_receipt('" }]', '", git = "https://example.org" }]'), MORE),
    "with extras": (change_receipt('" }]', '", extras = ["a"] }]'), MORE),
    "with another": (change_receipt('" }]', '" }, { name = "other" }]'), MORE),
    "with constraints": (
        change_receipt("entrypoints", 'constraints = [{ name = "other" }]\nentrypoints'),
        MORE,
    ),
    "with options": (change_receipt(",\n]\n", ",\n]\n\n[tool.options]\nno-index = true\n"), MORE),
    "an interpreter that is not uv's": (
        lambda _, tool: write(tool / "pyvenv.cfg", "home = /usr/bin\n"),
        "another interpreter",
    ),
    "changed packages": (change_packages, "was changed"),
    "a script in the place of uvx": (
        lambda machine, _: write(machine.usr / "bin/uvx", "#!/bin/sh\n", 0o755),
        "is not uv's own uvx",
    ),
}


@pytest.mark.parametrize(("make", "why"), DOUBTS.values(), ids=list(DOUBTS))
def test_a_doubt_leaves_it_to_uvx(machine: Machine, make: Change, why: str) -> None:
    tool = machine.install_tool()
    change_receipt('" }]', '", specifier = "==1.2.0" }]')(machine, tool)
    assert machine.find("uvx", "tiny-server")
    change_receipt('", specifier = "==1.2.0" }]', '" }]')(machine, tool)

    make(machine, tool)

    assert why in machine.keep("uvx", "tiny-server").why


def test_a_second_interpreter_of_uv_is_a_doubt(machine: Machine) -> None:
    tool = machine.install_tool()
    interpreters = tool.parents[1] / "python"
    (interpreters / "cpython-3.12").symlink_to("cpython-3.12.9-linux-x86_64-gnu")
    (interpreters / ".temp").mkdir()
    assert machine.find("uvx", "tiny-server")

    (interpreters / "cpython-3.13.1-linux-x86_64-gnu").mkdir()
    assert "another interpreter" in machine.keep("uvx", "tiny-server").why


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
    machine.install_tool(version="1.0.0")
    assert machine.keep("uvx", "tiny-server@1.2.0").install is None
    assert machine.keep("uvx", "--from", "other", "tiny-server").install is None


def test_a_cache_that_a_setting_moves_is_not_said_to_lack_a_tool(machine: Machine) -> None:
    file = write(machine.home / ".config/uv/uv.toml", 'index-url = "x"')
    assert machine.keep("uvx", "tiny-server").install
    write(file, 'cache-dir = "/elsewhere"')
    assert machine.keep("uvx", "tiny-server").install is None

    file.unlink()
    machine.environ["UV_CACHE_DIR"] = "cache"
    assert machine.keep("uvx", "tiny-server").install is None


def test_a_cache_that_cannot_be_read_is_not_said_to_lack_a_tool(machine: Machine) -> None:
    install = machine.keep("uvx", "tiny-server").install
    cache = machine.home / ".cache/uv/environments-v2"
    cache.parent.mkdir(parents=True)
    cache.symlink_to(cache)  # a loop

    assert install
    assert not install.is_missing()
