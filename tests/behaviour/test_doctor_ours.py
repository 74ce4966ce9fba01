"""What `doctor` says of mcp-launch's own directory, and of the user's own file."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from doctor_runs import make_tool, remember
from privileges import run_unprivileged

if TYPE_CHECKING:
    from pathlib import Path

    from doctor_runs import Doctor

OWN = "~/.config/mcp-launch/config.toml"
TOOLS = ("read_page", "list_pages", "delete_page")
NO_TOOL = "no tool of docs (3 remembered)"


@pytest.fixture
def state(doctor: Doctor) -> Path:
    """Return the state's directory, as launches leave it."""
    directory = doctor.machine.home / ".local/state/mcp-launch"
    (directory / "leases").mkdir(parents=True)
    (directory / "leases").chmod(0o700)
    directory.chmod(0o755)
    return directory


# The directory: ML012.


@pytest.mark.parametrize(
    ("name", "mode", "codes"),
    [
        ("leases", 0o755, ["ML012"]),
        ("leases", 0o700, []),
        ("profiles", 0o770, ["ML012"]),
        ("logs", 0o711, ["ML012"]),
        (".", 0o777, ["ML012"]),
        (".", 0o755, []),
    ],
)
def test_what_is_open_to_others_is_reported_and_closed(
    name: str, mode: int, codes: list[str], doctor: Doctor, state: Path
) -> None:
    (state / name).mkdir(exist_ok=True)
    (state / name).chmod(mode)
    assert doctor.list_codes() == codes

    doctor.run("--fix", "--yes")
    assert doctor.list_codes() == []


def test_a_state_that_cannot_be_written_is_reported(doctor: Doctor, state: Path) -> None:
    state.chmod(0o500)
    assert "is not writable" in run_unprivileged(doctor.find_only)["message"]

    state.chmod(0o700)
    shutil.rmtree(state)
    state.parent.chmod(0o500)
    finding = run_unprivileged(doctor.find_only)
    assert f"cannot be created: {state.parent} is not writable" in finding["message"]
    state.parent.chmod(0o700)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_of_another_user_is_reported(doctor: Doctor, state: Path) -> None:
    os.chown(state / "leases", 65534, -1)

    finding = doctor.find_only()

    assert "belongs to another user (uid 65534)" in finding["message"]
    assert finding["fix"] == f"run: sudo chown -R $(id -u) {state}/leases"


def test_a_lease_that_others_may_have_written_is_reported(doctor: Doctor, state: Path) -> None:
    for name, mode in (("good.json", 0o600), ("bad.json", 0o666)):
        (state / "leases" / name).write_text("{}", encoding="utf-8")
        (state / "leases" / name).chmod(mode)

    finding = doctor.find_only()

    assert finding["subject"]["file"] == f"{state}/leases/bad.json"
    assert "it is not trusted" in finding["message"]


@pytest.mark.parametrize(
    ("room", "said"),
    [
        ({"f_bavail": 0}, "is full"),
        ({"f_bavail": 1}, "is full"),
        ({"f_favail": 0}, "is full"),
        ({"f_files": 0, "f_favail": 0}, ""),
    ],
    ids=["no room", "next to none", "no more files", "files are not counted"],
)
@pytest.mark.usefixtures("state")
def test_a_file_system_that_cannot_be_written_is_reported(
    room: dict[str, int], said: str, doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = {"f_bsize": 4096, "f_frsize": 4096, "f_blocks": 1 << 20, "f_bfree": 1 << 20}
    usual |= {"f_bavail": 1 << 20, "f_files": 100, "f_ffree": 100, "f_favail": 100}
    usual |= {"f_flag": 0, "f_namemax": 255}
    monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result((usual | room).values()))

    found = doctor.find()

    assert bool(found) == bool(said)
    assert all(one["code"] == "ML012" and said in one["message"] for one in found)
    assert not any("chmod" in one["fix"] for one in found)


# The user's own file: ML013.


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        ("[defaults]\nrest = 1\n", 0o600, ["no wrapped server starts"]),
        ("", 0o622, ["can be written by other users; until this is fixed, no wrapped"]),
        ("[servers.a]\nrest = 1\n[servers.b]\nrest = 1\n", 0o600, ["a does not", "b does not"]),
        ("", 0o644, []),
    ],
    ids=["defaults", "open to others", "two servers", "readable"],
)
def test_the_users_file_must_be_usable(
    text: str, mode: int, said: list[str], doctor: Doctor
) -> None:
    doctor.machine.write(OWN, text).chmod(mode)

    found = doctor.find()

    assert [one["code"] for one in found] == ["ML013"] * len(said)
    assert all(part in one["message"] for part, one in zip(said, found, strict=True))


# Profiles without a server: ML019.


# Policies that match nothing: ML018.


def list_policies(doctor: Doctor, profile: str) -> list[dict[str, Any]]:
    doctor.machine.write(OWN, profile).chmod(0o600)
    return doctor.find("--select", "ML018")


@pytest.mark.parametrize(
    ("tools", "messages"),
    [
        ('{ allow = ["read_*", "list_pages"], deny = ["delete_???e"] }', []),
        ("{ allow = ['[rl]*'] }", []),
        ("{}", []),
        (
            '{ allow = ["raed_*"] }',
            [f"`raed_*` in `allow` matches {NO_TOOL}, so it allows nothing"],
        ),
    ],
)
def test_patterns_without_effect_are_named_once(
    tools: str, messages: list[str], doctor: Doctor
) -> None:
    remember(doctor.machine, "docs", *TOOLS)

    found = list_policies(doctor, f"[servers.docs]\ntools = {tools}\n")

    assert [one["message"] for one in found] == messages


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (
            "[servers.codex.arguments]\ncdw = { value = 1 }\n",
            "no tool of codex (2 remembered) has the argument `cdw`",
        ),
        (
            "[servers.codex.tools.'codex*'.arguments]\ncdw = { value = 1 }\n",
            "no tool of codex (2 remembered) that matches `codex*` has the argument `cdw`",
        ),
        ("[servers.codex.arguments]\ncwd = { value = 1 }\n", ""),
        (
            "[servers.codex.tools.codex-reply.arguments]\ncwd = { value = 1 }\n",
            "that matches `codex-reply` has the argument `cwd`",
        ),
        (
            "[servers.codex.tools.codx.arguments]\ncwd = { value = 1 }\n",
            "`codx` in `tools` matches no tool of codex (2 remembered), so its arguments are not",
        ),
    ],
)
def test_an_argument_that_no_tool_has_is_named(profile: str, message: str, doctor: Doctor) -> None:
    remember(doctor.machine, "codex", make_tool("codex", "cwd"), make_tool("codex-reply", "prompt"))

    found = list_policies(doctor, profile)

    assert len(found) == bool(message)
    assert all(message in one["message"] for one in found)


@pytest.mark.parametrize(
    ("schema", "count"),
    [
        ({"properties": None}, 0),
        ({"$ref": "#/$defs/all"}, 0),
        ({"patternProperties": {"c.*": {}}}, 0),
        ({"anyOf": [{"properties": {"cdw": {}}}]}, 0),
        ({"additionalProperties": True}, 1),
    ],
    ids=["unknown", "elsewhere", "by a pattern", "in a part", "of any name"],
)
def test_nothing_is_said_if_a_tool_may_have_an_argument(
    schema: dict[str, Any], count: int, doctor: Doctor
) -> None:
    remember(doctor.machine, "codex", make_tool("codex", "cwd"), make_tool("x", "y", **schema))

    assert len(list_policies(doctor, "[servers.codex.arguments]\ncdw.value = 1\n")) == count


WRONG = '[servers.docs]\ntools = { deny = ["delte_*"] }\n'


def test_nothing_is_said_of_tools_that_are_not_all_known(doctor: Doctor) -> None:
    assert list_policies(doctor, WRONG) == []
    remember(doctor.machine, "docs", *TOOLS)
    assert len(list_policies(doctor, WRONG)) == 1

    # A tool of any version or directory counts, and so does one that may be on another page.
    remember(doctor.machine, "docs", "delte_old", key="older")
    assert list_policies(doctor, WRONG) == []
    remember(doctor.machine, "docs", *TOOLS, key="older", cursor="2")
    assert list_policies(doctor, WRONG) == []


def test_tools_of_servers_cannot_write_to_a_terminal(doctor: Doctor) -> None:
    remember(doctor.machine, "do\x1bcs", make_tool("evil\x1b[2J\u202e", "cw\x07d"), {"name": 3})
    profile = (
        '[servers."do\\u001bcs"]\ntools = { deny = ["evil\\u001b"], '
        '"*" = { arguments = { "cw\\u0007" = { value = 1 } } } }\n'
    )

    found = list_policies(doctor, profile)

    assert len(found) == 2
    assert all((one["message"] + one["fix"]).isprintable() for one in found)
    assert "did you mean cw\\x07d? " in found[1]["fix"]


def test_only_some_of_many_tools_are_listed(doctor: Doctor) -> None:
    remember(doctor.machine, "docs", *(f"tool_{at}_{'x' * 100}" for at in range(30)))

    [finding] = list_policies(doctor, WRONG)

    assert finding["fix"].endswith(", and 20 more")
    assert len(finding["fix"]) < 800
