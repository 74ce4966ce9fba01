"""What `npx` would start: resolved only if there is no doubt."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from npm_caches import BINARY, HOUR, Machine, set_age, write

from mcp_launch.launch import runners
from mcp_launch.launch.runners.proof import Kept

if TYPE_CHECKING:
    from pathlib import Path

PINNED = "@tiny/envdump@1.0.0"
BY_NAME = "@tiny/envdump"


class Installed:
    """A machine on which the package is installed as it should be."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.installed = machine.install()
        self.package = self.installed / "node_modules/@tiny/envdump"


Change = Callable[[Installed], object]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.mark.parametrize(
    "words",
    [
        ["npx", "-y", PINNED, "a", "--b", "--", "c"],
        ["npx", PINNED, "a", "--b", "--", "c"],
        ["npx", "--yes", "-q", "--", PINNED, "a", "--b", "--", "c"],
        ["npx", "--no-install", PINNED, "a", "--b", "--", "c"],
        ["npm", "exec", "-y", "--", PINNED, "a", "--b", "--", "c"],
        ["npm", "x", PINNED, "a", "--", "--b", "--", "c"],
        ["npx", "-y", "-p", PINNED, "tiny-envdump", "a", "--b", "--", "c"],
        ["npx", "-y", f"--package={PINNED}", "tiny-envdump", "a", "--b", "--", "c"],
    ],
    ids=" ".join,
)
def test_an_installed_version_is_started_with_its_arguments(
    machine: Machine, words: list[str]
) -> None:
    installed = machine.install()

    found = machine.find(*words)

    assert found.program == f"{installed}/node_modules/.bin/tiny-envdump"
    assert found.argv == ["tiny-envdump", "a", "--b", "--", "c"]
    assert found.why == f"@tiny/envdump 1.0.0 in {installed}"


def test_the_program_gets_what_npx_adds_to_the_environment(machine: Machine) -> None:
    installed = machine.install()
    local = [f"{one}/node_modules/.bin" for one in (machine.project, *machine.project.parents[:-1])]
    gyp = f"{machine.npm}/node_modules/@npmcli/run-script/lib/node-gyp-bin"

    assert machine.find("npx", PINNED).variables == {
        "PATH": ":".join(
            [
                f"{installed}/node_modules/.bin",
                *local,
                "/node_modules/.bin",
                gyp,
                machine.environ["PATH"],
            ]
        ),
        "NODE": str(machine.node),
        "INIT_CWD": str(machine.project),
        "COLOR": "0",
        "EDITOR": "vi",
    }
    machine.environ["VISUAL"] = "emacs"
    link = machine.home / "link"
    link.symlink_to(machine.project)
    real, machine.project = machine.project, link
    by_path = machine.find(f"{machine.usr}/bin/npx", PINNED)
    assert by_path.variables["INIT_CWD"] == str(real)  # as the kernel names it
    assert (by_path.argv, by_path.variables["EDITOR"]) == (["tiny-envdump"], "emacs")


# Which version


def test_a_name_without_a_version_is_resolved_for_a_day(machine: Machine) -> None:
    installed = machine.install(BY_NAME, age=23 * HOUR)

    assert machine.find("npx", "-y", BY_NAME).why == (
        f"@tiny/envdump 1.0.0 in {installed}, checked 23 h ago"
    )
    for age in (25 * HOUR, -HOUR):  # a check in the future is none
        machine.install(BY_NAME, age=age)
        assert machine.keep("npx", BY_NAME).stamp
    machine.install(age=1000 * HOUR)
    assert machine.find("npx", PINNED)


def test_after_a_day_npx_looks_for_a_new_version(machine: Machine) -> None:
    machine.install(BY_NAME, age=25 * HOUR)

    kept = machine.keep("npx", "-y", BY_NAME)

    assert kept.why == "npx looks for a new version once a day, and does so now"
    assert kept.install is None
    assert kept.stamp.startswith(f"{machine.stamps}/")


def test_a_check_that_we_have_noted_counts_for_a_day(machine: Machine) -> None:
    machine.install(BY_NAME, age=100 * HOUR)
    kept = machine.keep("npx", BY_NAME)
    runners.note_check(kept)
    stamp = next(machine.stamps.iterdir())

    set_age(stamp, 1.0)
    assert "may still update" in machine.keep("npx", BY_NAME).why
    set_age(stamp, HOUR)
    assert machine.find("npx", BY_NAME)
    set_age(stamp, 25 * HOUR)
    assert machine.keep("npx", BY_NAME).stamp == str(stamp)


def test_settings_that_changed_after_the_check_make_npx_check_again(machine: Machine) -> None:
    machine.install(BY_NAME, age=5 * HOUR)
    file = write(machine.home / ".npmrc", "registry=https://example.org/\n")

    assert machine.keep("npx", BY_NAME).stamp
    set_age(file, 6 * HOUR)
    assert machine.find("npx", BY_NAME)


@pytest.mark.parametrize("where", ["project", "environment", "project's scope"])
def test_a_registry_of_its_own_is_left_to_npx_unless_the_version_is_exact(
    machine: Machine, where: str
) -> None:
    machine.install(BY_NAME)
    machine.install(PINNED)
    if where == "environment":
        machine.environ["npm_config_registry"] = "https://example.org/"
    else:
        key = "registry" if where == "project" else "@tiny:registry"
        set_age(write(machine.project / ".npmrc", f"{key}=https://example.org/"), 9 * HOUR)

    assert "a registry of its own" in machine.keep("npx", BY_NAME).why
    assert machine.find("npx", PINNED)


def test_a_registry_that_a_host_below_npm_passes_on_is_the_usual_one(machine: Machine) -> None:
    machine.install(BY_NAME)
    set_age(write(machine.home / ".npmrc", "registry = https://example.org"), 9 * HOUR)
    machine.environ["npm_config_registry"] = "https://example.org/"

    assert machine.find("npx", BY_NAME)


# What is in the cache


def test_a_package_that_is_not_installed_is_known_to_be_missing(machine: Machine) -> None:
    install = machine.keep("npx", "-y", PINNED).install

    assert install
    assert (install.runner, install.package) == ("npx", PINNED)
    assert install.is_missing()
    installed = machine.install()
    assert not install.is_missing()
    (installed / "concurrency.lock").mkdir()
    assert install.is_missing()

    # Half an installation, also for a profile that needs the runner.
    break_end(Installed(machine))
    machine.asked = ["npm_execpath"]
    kept = machine.keep("npm", "exec", "-y", "--", PINNED)
    assert kept.why.startswith("the profile asks for npm_execpath")
    assert kept.install
    assert kept.install.runner == "npm"
    assert kept.install.is_missing()


def test_only_for_an_npm_that_does_not_lock_its_cache_we_lock_it(machine: Machine) -> None:
    one, two = (machine.keep("npx", PINNED).install for _ in range(2))
    assert one
    assert two
    assert one.take_turn()
    assert two.take_turn()
    assert not machine.stamps.exists()

    (machine.npm / "node_modules/libnpmexec/lib/with-lock.js").unlink()
    one, two = (machine.keep("npx", PINNED).install for _ in range(2))

    assert one
    assert two
    assert one.take_turn()
    assert not two.take_turn()
    os.close(one.turn)
    assert two.take_turn()
    os.close(two.turn)


def test_what_cannot_be_written_stops_nothing_and_nobody_waits_for_it(machine: Machine) -> None:
    (machine.npm / "node_modules/libnpmexec/lib/with-lock.js").unlink()
    write(machine.stamps, "a file where the directory should be")
    install = machine.keep("npx", PINNED).install

    assert install
    assert install.take_turn()
    runners.note_check(Kept("due", f"{machine.stamps}/0123456789abcdef"))


def test_nobody_waits_for_a_package_that_is_there(machine: Machine) -> None:
    (machine.npm / "node_modules/libnpmexec/lib/with-lock.js").unlink()
    one, two = (machine.keep("npx", PINNED).install for _ in range(2))
    assert one
    assert two
    assert one.take_turn()
    machine.install()

    two.wait_for_turn()

    assert two.turn < 0
    os.close(one.turn)


@pytest.mark.parametrize(
    "path",
    [
        "work/project/node_modules/@tiny/envdump",
        "usr/lib/node_modules/@tiny/envdump",
        f"usr/bin/{PINNED}",
    ],
)
def test_a_package_that_npx_may_have_elsewhere_is_not_said_to_be_missing(
    machine: Machine, path: str
) -> None:
    (machine.usr.parent / path).mkdir(parents=True)

    assert machine.keep("npx", PINNED).install is None


@pytest.mark.parametrize("words", [["npx", "-c", PINNED], ["bunx", PINNED], ["pnpm", "dlx", "x"]])
def test_a_runner_that_we_do_not_understand_is_not_said_to_install(
    machine: Machine, words: list[str]
) -> None:
    assert machine.keep(*words).install is None


@pytest.mark.parametrize(
    "programs",
    [
        "x.js",
        {"envdump": "x.js", "other": "y.js"},
        {"tiny-envdump": "x.js", "other": "./x.js"},
    ],
    ids=["one without a name", "one of the package's name", "one with two names"],
)
def test_the_program_is_chosen_as_npx_does(machine: Machine, programs: object) -> None:
    packages = machine.install(bin=programs) / "node_modules"
    (packages / ".bin" / "envdump").symlink_to("../@tiny/envdump/x.js")
    is_named = isinstance(programs, dict) and "envdump" not in programs

    assert machine.find("npx", PINNED).argv == ["tiny-envdump" if is_named else "envdump"]


# The project


def test_a_program_of_the_project_is_preferred(machine: Machine) -> None:
    write(machine.project.parent / "node_modules/.bin/tool", "#!/bin/sh\n", 0o755)
    write(machine.project / "package.json", {"name": "mine"})

    found = machine.find("npx", "tool", "a")

    assert found.program == f"{machine.project.parent}/node_modules/.bin/tool"
    assert found.argv == ["tool", "a"]
    assert found.variables["PATH"].startswith(f"{machine.project.parent}/node_modules/.bin:")
    # What else the project has changes nothing.
    machine.install()
    write(machine.project / "package.json", {"name": "mine", "bin": {"mine": "x.js"}})
    write(machine.project / "node_modules/.package-lock.json", '{"node_modules/other": {}}')
    assert machine.find("npx", PINNED)


# npm's settings


@pytest.mark.parametrize("where", ["variable", "VARIABLE", "user", "global", "built in"])
def test_a_cache_that_was_moved_is_found(machine: Machine, tmp_path: Path, where: str) -> None:
    machine.install()
    (machine.home / ".npm").rename(tmp_path / "cache")
    files = {
        "user": machine.home / ".npmrc",
        "global": machine.usr / "etc/npmrc",
        "built in": machine.npm / "npmrc",
    }
    if where in files:
        write(files[where], f"; a comment\n\ncache = {tmp_path}/cache\n//host/:_authToken=x\n")
    else:
        name = "npm_config_cache"
        machine.environ[name if where == "variable" else name.upper()] = f"{tmp_path}/cache"

    assert machine.find("npx", PINNED).program.startswith(f"{tmp_path}/cache/_npx/")


def test_a_path_may_begin_with_the_home(machine: Machine) -> None:
    machine.install()
    (machine.home / ".npm").rename(machine.home / "cache")
    write(machine.home / ".npmrc", "cache=~/cache\nprefix=~/.global\n")
    assert machine.find("npx", PINNED)

    write(machine.home / ".global/bin/tiny-envdump", BINARY)
    assert machine.keep("npx", PINNED)


def test_variables_that_npm_gives_to_a_host_change_nothing(machine: Machine) -> None:
    machine.install()
    machine.environ |= {
        "npm_config_user_agent": "npm/11",
        "npm_config_yes": "true",
        "npm_config_prefix": str(machine.usr),
        "npm_config_userconfig": f"{machine.home}/.npmrc",
        "npm_config_globalconfig": f"{machine.usr}/etc/npmrc",
        "npm_config_init_module": f"{machine.home}/.npm-init.js",
        "npm_config_local_prefix": "/elsewhere",
        "npm_command": "exec",
        "npm_config_noproxy": "",
    }

    assert machine.find("npx", PINNED)


def test_a_variable_that_only_npm_sets_keeps_npx_if_the_profile_asks_for_it(
    machine: Machine,
) -> None:
    machine.install()
    machine.asked = ["npm_package_json"]
    assert "asks for npm_package_json" in machine.keep("npx", PINNED).why

    machine.environ["npm_package_json"] = "given"
    assert machine.find("npx", PINNED)


# The words


@pytest.mark.parametrize(
    "words",
    [
        ["npx"],
        ["npx", "-y"],
        ["npx", "-c", "x"],
        ["npx", "--registry=https://example.org", PINNED],
        ["npx", "--yes=false", PINNED],
        ["npx", "-w", "a", PINNED],
        ["npx", "-p", PINNED, "-p", "other", "tiny-envdump"],
        ["npx", "-p", PINNED],
        ["npx", "-p", PINNED, "./tiny-envdump"],
        ["npx", "."],
        ["npx", "./x"],
        ["npx", "user/repository"],
        ["npx", "github:user/repository"],
        ["npx", "https://example.org/x.tgz"],
        ["npx", "x.tgz"],
        ["npx", "x@file:y"],
        ["npx", "x@npm:y@1.0.0"],
        ["npx", "x@./y"],
        ["npx", "x@y.tgz"],
        ["npx", "x@"],
        ["npx", "@tiny"],
        ["npx", "Upper"],
        ["npx", "true"],
        ["npm", "exec", PINNED, "--flag"],
        ["npm", "exec", "--no-install", PINNED],
        ["npm", "exec", "-p", PINNED, "tiny-envdump"],
    ],
    ids=" ".join,
)
def test_words_that_may_mean_something_else_are_left_to_npx(
    machine: Machine, words: list[str]
) -> None:
    machine.install()

    assert machine.keep(*words)


@pytest.mark.parametrize("words", [["npm", "start"], ["npm"], ["npm", "run", "exec"], ["node"]])
def test_other_commands_are_not_runners(machine: Machine, words: list[str]) -> None:
    assert machine.resolve(*words) is None


# Everything that leaves a doubt


def change_package(content: str, mode: int = 0o644, name: str = "package.json") -> Change:
    """Write a file of the installed package."""
    return lambda it: write(it.package / name, content, mode)


def set_times(path: str, age: float) -> Change:
    return lambda it: set_age(it.installed / path, age)


def write_project(name: str, content: str | dict[str, object]) -> Change:
    return lambda it: write(it.machine.project / name, content)


def set_variables(**environ: str) -> Change:
    return lambda it: it.machine.environ.update(environ)


def write_npm(name: str, content: str | bytes | dict[str, object], mode: int = 0o644) -> Change:
    """Write a file of npm's own installation, in place of what is there."""

    def put(it: Installed) -> None:
        file = it.machine.usr / name
        if file.is_symlink():
            file.unlink()
        write(file, content, mode)

    return put


def break_end(it: Installed) -> None:
    (it.installed / "node_modules/.package-lock.json").unlink()
    set_age(it.installed / "node_modules", HOUR)


def break_link(it: Installed) -> None:
    link = it.installed / "node_modules/.bin/tiny-envdump"
    link.unlink()
    link.symlink_to("/bin/true")


def break_manifest(it: Installed) -> None:
    (it.package / "package.json").unlink()
    (it.package / "package.json").mkdir()


def lock(it: Installed) -> None:
    (it.installed / "concurrency.lock").mkdir()
    set_age(it.installed, HOUR)


def stand_among_global_packages(it: Installed) -> None:
    it.machine.project = it.machine.usr
    write(it.machine.usr / "package.json", {})


def name_programs(programs: object) -> Change:
    return lambda it: it.machine.install(bin=programs)


BIN = f"node_modules/.bin/{PINNED}"
FURTHER_DOWN = '{"node_modules/a/node_modules/@tiny/envdump": {}}'
WORKSPACE: dict[str, object] = {"name": "x", "workspaces": ["a"]}
# What makes the doubt, and a part of the reason.
DOUBTS: dict[str, tuple[Change, str]] = {
    "it is locked": (lock, "another npx may be at work"),
    "an installation was not finished": (break_end, "has not installed"),
    "it is of another version": (
        lambda it: it.machine.install(version="1.0.1"),
        "is @tiny/envdump 1.0.1",
    ),
    "the package is newer than the installation": (
        set_times("node_modules/@tiny/envdump", 60.0),
        "is incomplete, or was changed",
    ),
    "it has just changed": (set_times("", 3.0), "may be at work"),
    "packages have just changed": (set_times("node_modules", 3.0), "may be at work"),
    "the link leads elsewhere": (break_link, "is not the package's program"),
    "the program is not executable": (
        lambda it: (it.package / "x.js").chmod(0o644),
        "cannot be executed",
    ),
    "the program needs a shell": (change_package("log(1)", 0o755, "x.js"), "needs a shell"),
    "the manifest is broken": (change_package("{"), "is not as expected"),
    "the manifest is no file": (break_manifest, "is not a regular file"),
    "several programs": (name_programs({"a": "x.js", "b": "y.js"}), "has several programs"),
    "no program": (name_programs(None), "has no program"),
    "a program with a path": (name_programs({"../x": "x.js"}), "in an unusual way"),
    "a program that is a number": (name_programs({"1": "x.js"}), "in an unusual way"),
    "a program of no text": (name_programs({"a": 1}), "in an unusual way"),
    "the project has it": (write_project("node_modules/@tiny/envdump/package.json", "{}"), ""),
    "the project has it further down": (
        write_project("node_modules/.package-lock.json", FURTHER_DOWN),
        "",
    ),
    "the project is it": (write_project("package.json", {"name": "@tiny/envdump"}), ""),
    "the project has the program": (
        write_project("package.json", {"name": "x", "bin": {PINNED: "x.js"}}),
        "",
    ),
    "the project has unknown programs": (
        write_project("package.json", {"name": "x", "directories": {"bin": "bin"}}),
        "",
    ),
    "the project has workspaces": (write_project("package.json", WORKSPACE), ""),
    "in a workspace": (write_project("../package.json", {"workspaces": ["project"]}), ""),
    "the project's manifest is broken": (write_project("package.json", "{"), ""),
    "a program with this path": (write_project(BIN, "#!/bin/sh\n"), ""),
    "the project moves the cache": (write_project(".npmrc", "cache=/elsewhere"), ""),
    "an unknown setting": (write_project(".npmrc", "script-shell=/bin/zsh"), ""),
    "sections in settings": (write_project(".npmrc", "[a]\nfund=false"), ""),
    "settings in a pipe": (
        lambda it: os.mkfifo(it.machine.project / ".npmrc"),
        "is not a regular file",
    ),
    "a global program": (write_npm("bin/tiny-envdump", BINARY), "/bin has tiny-envdump"),
    "a global program with this path": (write_npm(f"bin/{PINNED}", BINARY), f"/bin has {PINNED}"),
    "among global packages": (stand_among_global_packages, "global packages"),
    "a script in the place of npx": (
        write_npm("bin/npx", "#!/bin/sh\n", 0o755),
        "is not npm's own npx",
    ),
    "a script in the place of node": (
        lambda it: write(it.machine.node, "#!/bin/sh\n", 0o755),
        "in a way that we do not know",
    ),
    "an old npm": (
        lambda it: write(it.machine.npm / "package.json", {"name": "npm", "version": "8.19.4"}),
        "npm 8.19.4 is not known to us",
    ),
    "a new npm": (
        lambda it: write(it.machine.npm / "package.json", {"name": "npm", "version": "12.0.0"}),
        "npm 12.0.0 is not known to us",
    ),
    "another shell": (set_variables(npm_config_script_shell="/bin/zsh"), ""),
    "options for Node": (set_variables(NPM_CONFIG_NODE_OPTIONS="--inspect"), ""),
    "another tag": (set_variables(npm_config_tag="next"), ""),
    "a setting without a name": (set_variables(npm_config_="x"), ""),
    "a relative cache": (set_variables(npm_config_cache="relative"), ""),
    "a cache with a variable": (set_variables(npm_config_cache="/a/${B}"), ""),
    "two caches": (set_variables(npm_config_cache="/a", NPM_CONFIG_CACHE="/b"), ""),
    "a prefix": (set_variables(PREFIX="/elsewhere"), ""),
    "a destination": (set_variables(DESTDIR="/elsewhere"), ""),
    "no home": (set_variables(HOME=""), ""),
    "two PATHs": (set_variables(Path="/elsewhere"), ""),
    "no node": (set_variables(PATH="/nowhere"), ""),
}


@pytest.mark.parametrize(("make", "why"), DOUBTS.values(), ids=list(DOUBTS))
def test_a_doubt_leaves_it_to_npx(machine: Machine, make: Change, why: str) -> None:
    make(Installed(machine))

    assert why in machine.keep("npx", PINNED).why


@pytest.mark.parametrize(
    "words", [["bunx", "x"], ["bun", "x", "y"], ["pnpm", "dlx", "x"], ["pnpx", "x"]], ids=" ".join
)
def test_runners_whose_files_prove_nothing_are_kept(machine: Machine, words: list[str]) -> None:
    assert "do not show what it would start" in machine.keep(*words).why
