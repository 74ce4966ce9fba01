"""What `npx` would start: resolved only if there is no doubt."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from npm_caches import BINARY, HOUR, Machine, set_age, write

from mcp_launch.launch import runners
from mcp_launch.launch.runners.proof import Kept

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PINNED = "@tiny/envdump@1.0.0"
BY_NAME = "@tiny/envdump"


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


def test_the_runner_may_be_given_by_its_path(machine: Machine) -> None:
    machine.install()

    assert machine.find(f"{machine.usr}/bin/npx", PINNED).argv == ["tiny-envdump"]


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


def test_the_users_editor_stays(machine: Machine) -> None:
    machine.install()
    machine.environ["VISUAL"] = "emacs"

    assert machine.find("npx", PINNED).variables["EDITOR"] == "emacs"


def test_the_directory_is_named_as_the_kernel_names_it(machine: Machine, tmp_path: Path) -> None:
    machine.install()
    link = tmp_path / "link"
    link.symlink_to(machine.project)
    real, machine.project = machine.project, link

    assert machine.find("npx", PINNED).variables["INIT_CWD"] == str(real)


# Which version


def test_another_version_in_the_cache_is_not_started(machine: Machine) -> None:
    machine.install(version="1.0.1")

    assert "is @tiny/envdump 1.0.1" in machine.keep("npx", PINNED).why


def test_an_exact_version_needs_no_check(machine: Machine) -> None:
    machine.install(age=1000 * HOUR)

    assert machine.find("npx", PINNED)


def test_a_name_without_a_version_is_resolved_for_a_day(machine: Machine) -> None:
    installed = machine.install(BY_NAME, age=23 * HOUR)

    assert machine.find("npx", "-y", BY_NAME).why == (
        f"@tiny/envdump 1.0.0 in {installed}, checked 23 h ago"
    )


def test_after_a_day_npx_looks_for_a_new_version(machine: Machine) -> None:
    machine.install(BY_NAME, age=25 * HOUR)

    kept = machine.keep("npx", "-y", BY_NAME)

    assert kept.why == "npx looks for a new version once a day, and does so now"
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


def test_a_check_that_cannot_be_noted_stops_nothing(machine: Machine) -> None:
    write(machine.stamps, "a file where the directory should be")

    runners.note_check(Kept("due", f"{machine.stamps}/0123456789abcdef"))


def test_a_check_in_the_future_does_not_count(machine: Machine) -> None:
    machine.install(BY_NAME, age=-HOUR)

    assert machine.keep("npx", BY_NAME).stamp


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


def test_a_package_that_is_not_installed_is_left_to_npx(machine: Machine) -> None:
    assert machine.keep("npx", PINNED).why == f"npx has not installed {PINNED} yet"


def test_a_package_that_is_not_installed_is_known_to_be_missing(machine: Machine) -> None:
    install = machine.keep("npx", "-y", PINNED).install

    assert install
    assert (install.runner, install.package) == ("npx", PINNED)
    assert install.is_missing()
    installed = machine.install()
    assert not install.is_missing()
    (installed / "concurrency.lock").mkdir()
    assert install.is_missing()


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


def test_nobody_waits_for_a_lock_that_cannot_be_made(machine: Machine) -> None:
    (machine.npm / "node_modules/libnpmexec/lib/with-lock.js").unlink()
    write(machine.stamps, "a file where the directory should be")
    install = machine.keep("npx", PINNED).install

    assert install
    assert install.take_turn()


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


def test_half_an_installation_is_a_missing_package(machine: Machine) -> None:
    break_end(machine.install())

    install = machine.keep("npm", "exec", "-y", "--", PINNED).install

    assert install
    assert install.runner == "npm"
    assert install.is_missing()


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


def test_a_cache_that_is_checked_for_updates_is_not_said_to_be_installed_first(
    machine: Machine,
) -> None:
    machine.install(BY_NAME, age=25 * HOUR)

    assert machine.keep("npx", "-y", BY_NAME).install is None


def test_a_profile_that_needs_the_runner_lets_it_install_too(machine: Machine) -> None:
    machine.asked = ["npm_execpath"]

    kept = machine.keep("npx", PINNED)

    assert kept.why.startswith("the profile asks for npm_execpath")
    assert kept.install


def break_lock(installed: Path) -> None:
    (installed / "concurrency.lock").mkdir()
    set_age(installed, HOUR)


def break_end(installed: Path) -> None:
    (installed / "node_modules/.package-lock.json").unlink()
    set_age(installed / "node_modules", HOUR)


def break_link(installed: Path) -> None:
    link = installed / "node_modules/.bin/tiny-envdump"
    link.unlink()
    link.symlink_to("/bin/true")


def break_program(installed: Path) -> None:
    (installed / "node_modules/@tiny/envdump/x.js").chmod(0o644)


def break_shebang(installed: Path) -> None:
    write(installed / "node_modules/@tiny/envdump/x.js", "console.log(1)", 0o755)


def break_manifest(installed: Path) -> None:
    write(installed / "node_modules/@tiny/envdump/package.json", "{")


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "it is locked": (break_lock, "another npx may be at work"),
    "an installation was not finished": (break_end, "has not installed"),
    "the package is newer than the installation": (
        lambda installed: set_age(installed / "node_modules/@tiny/envdump", 60.0),
        "is incomplete, or was changed",
    ),
    "it has just changed": (lambda installed: set_age(installed, 3.0), "may be at work"),
    "packages have just changed": (
        lambda installed: set_age(installed / "node_modules", 3.0),
        "may be at work",
    ),
    "the link leads elsewhere": (break_link, "is not the package's program"),
    "the program is not executable": (break_program, "cannot be executed"),
    "the program needs a shell": (break_shebang, "needs a shell"),
    "the manifest is broken": (break_manifest, "is not as expected"),
}


@pytest.mark.parametrize("way", list(BROKEN))
def test_a_doubtful_cache_is_left_to_npx(machine: Machine, way: str) -> None:
    change, why = BROKEN[way]
    change(machine.install())

    assert why in machine.keep("npx", PINNED).why


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


@pytest.mark.parametrize(
    ("programs", "why"),
    [
        ({"a": "x.js", "b": "y.js"}, "has several programs"),
        (None, "has no program"),
        ({"../x": "x.js"}, "in an unusual way"),
        ({"1": "x.js"}, "in an unusual way"),
        ({"a": 1}, "in an unusual way"),
    ],
    ids=["several", "none", "a path", "a number", "not a text"],
)
def test_an_unclear_program_is_left_to_npx(machine: Machine, programs: object, why: str) -> None:
    machine.install(bin=programs)

    assert why in machine.keep("npx", PINNED).why


# The project


def test_a_program_of_the_project_is_preferred(machine: Machine) -> None:
    write(machine.project.parent / "node_modules/.bin/tool", "#!/bin/sh\n", 0o755)
    write(machine.project / "package.json", {"name": "mine"})

    found = machine.find("npx", "tool", "a")

    assert found.program == f"{machine.project.parent}/node_modules/.bin/tool"
    assert found.argv == ["tool", "a"]
    assert found.variables["PATH"].startswith(f"{machine.project.parent}/node_modules/.bin:")


def test_a_project_without_the_package_changes_nothing(machine: Machine) -> None:
    machine.install()
    write(machine.project / "package.json", {"name": "mine", "bin": {"mine": "x.js"}})
    write(machine.project / "node_modules/.package-lock.json", '{"node_modules/other": {}}')

    assert machine.find("npx", PINNED)


DOUBTFUL_PROJECTS: dict[str, dict[str, bytes | str | dict[str, object]]] = {
    "has the package": {"node_modules/@tiny/envdump/package.json": "{}"},
    "has the package further down": {
        "node_modules/.package-lock.json": '{"node_modules/a/node_modules/@tiny/envdump": {}}'
    },
    "is the package": {"package.json": {"name": "@tiny/envdump"}},
    "has the program": {"package.json": {"name": "x", "bin": {PINNED: "x.js"}}},
    "has unknown programs": {"package.json": {"name": "x", "directories": {"bin": "bin"}}},
    "has workspaces": {"package.json": {"name": "x", "workspaces": ["a"]}},
    "is in a workspace": {"../package.json": {"workspaces": ["project"]}},
    "has a broken manifest": {"package.json": "{"},
    "has a program with this path": {f"node_modules/.bin/{PINNED}": "#!/bin/sh\n"},
    "moves the cache": {".npmrc": "cache=/elsewhere"},
    "has an unknown setting": {".npmrc": "script-shell=/bin/zsh"},
    "has sections in its settings": {".npmrc": "[a]\nfund=false"},
}


@pytest.mark.parametrize("kind", list(DOUBTFUL_PROJECTS))
def test_it_is_left_to_npx_if_the_project(machine: Machine, kind: str) -> None:
    machine.install()
    for name, content in DOUBTFUL_PROJECTS[kind].items():
        write(machine.project / name, content)

    assert machine.keep("npx", PINNED)


def test_settings_in_a_pipe_are_left_to_npx(machine: Machine) -> None:
    machine.install()
    os.mkfifo(machine.project / ".npmrc")

    assert "is not a regular file" in machine.keep("npx", PINNED).why


@pytest.mark.parametrize("name", ["tiny-envdump", "@tiny/envdump@1.0.0"])
def test_a_global_program_is_left_to_npx(machine: Machine, name: str) -> None:
    machine.install()
    write(machine.usr / "bin" / name, BINARY)

    assert f"/bin has {name}" in machine.keep("npx", PINNED).why


def test_the_directory_of_global_packages_is_left_to_npx(machine: Machine) -> None:
    machine.install()
    machine.project = machine.usr
    write(machine.usr / "package.json", {})

    assert "global packages" in machine.keep("npx", PINNED).why


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


@pytest.mark.parametrize(
    "environ",
    [
        {"npm_config_script_shell": "/bin/zsh"},
        {"NPM_CONFIG_NODE_OPTIONS": "--inspect"},
        {"npm_config_tag": "next"},
        {"npm_config_": "x"},
        {"npm_config_cache": "relative"},
        {"npm_config_cache": "/a/${B}"},
        {"npm_config_cache": "/a", "NPM_CONFIG_CACHE": "/b"},
        {"PREFIX": "/elsewhere"},
        {"DESTDIR": "/elsewhere"},
        {"HOME": ""},
        {"Path": "/elsewhere"},
        {"PATH": "/nowhere"},
    ],
    ids=str,
)
def test_a_doubtful_environment_is_left_to_npx(machine: Machine, environ: dict[str, str]) -> None:
    machine.install()
    machine.environ |= environ

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


@pytest.mark.parametrize(
    "words", [["bunx", "x"], ["bun", "x", "y"], ["pnpm", "dlx", "x"], ["pnpx", "x"]], ids=" ".join
)
def test_runners_whose_files_prove_nothing_are_kept(machine: Machine, words: list[str]) -> None:
    assert "do not show what it would start" in machine.keep(*words).why


# npm itself


def test_a_script_in_the_place_of_npx_is_kept(machine: Machine) -> None:
    machine.install()
    (machine.usr / "bin/npx").unlink()
    write(machine.usr / "bin/npx", "#!/bin/sh\n", 0o755)

    assert "is not npm's own npx" in machine.keep("npx", PINNED).why


def test_a_script_in_the_place_of_node_is_kept(machine: Machine) -> None:
    machine.install()
    write(machine.node, "#!/bin/sh\n", 0o755)

    assert "in a way that we do not know" in machine.keep("npx", PINNED).why


@pytest.mark.parametrize("version", ["8.19.4", "12.0.0"])
def test_an_npm_that_we_do_not_know_is_kept(machine: Machine, version: str) -> None:
    machine.install()
    write(machine.npm / "package.json", {"name": "npm", "version": version})

    assert machine.keep("npx", PINNED).why == f"npm {version} is not known to us"


def test_an_unreadable_cache_is_left_to_npx(machine: Machine) -> None:
    installed = machine.install()
    manifest = installed / "node_modules/@tiny/envdump/package.json"
    manifest.unlink()
    manifest.mkdir()

    assert "is not a regular file" in machine.keep("npx", PINNED).why
