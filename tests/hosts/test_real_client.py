"""The official SDK's client gets from real servers what it gets without us, in both eras.

A session with every feature is recorded: once with the server alone, once on each wire. The
client's results and every message it got must be the same.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hosts.isolation import leave_only_loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from hosts.client import Transcript
    from hosts.programs import Programs

SDK_SERVER = [sys.executable, str(Path(__file__).parent / "sdk_server.py")]

TEXT = "demo://resource/dynamic/text/1"


@pytest.fixture(scope="session")
def everything(installed: Programs) -> list[str]:
    """Return the command of the official reference server."""
    return ["node", str(installed["everything"]), "stdio"]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """Return a directory that all workers of this run share."""
    own = tmp_path_factory.getbasetemp()
    directory = (own if worker_id == "master" else own.parent) / "real-client"
    directory.mkdir(exist_ok=True)
    return directory


@pytest.fixture(scope="module")
def transcripts(everything: list[str], shared: Path) -> dict[str, Transcript]:
    """Return the transcripts with the reference server, by wire."""
    from hosts import client  # here and below: it takes a second, and few workers need it

    path = shared / "everything"
    with leave_only_loopback():
        return client.take_down_once(path, everything, client.EVERYTHING_FEATURES, "auto")


# For each feature of the reference server: that there was something to compare.
FOUND: dict[str, Callable[[Any], object]] = {
    "greeting": lambda made: "# Everything Server" in made["instructions"],
    "tools": lambda made: len(made["tools"]) == 17,
    "calls": lambda made: not any(one["isError"] for one in made),
    "errors": lambda made: (
        [one.get("isError") or one["code"] for one in made] == [*[True] * 4, -32601, -32602, -32602]
    ),
    "resources": lambda made: made[4]["contents"][0]["blob"].startswith(
        "Resource 1: This is a base64 blob"
    ),
    "subscription": lambda made: made == [[TEXT], []],
    "prompts": lambda made: made[4]["messages"][-1]["content"]["resource"]["uri"] == TEXT,
    "completion": lambda made: (
        [one["completion"]["values"] for one in made] == [["Engineering"], ["David"], ["7"], []]
    ),
    "progress": lambda made: made[0] == [[float(step), 20.0, None] for step in range(1, 21)],
    "cancellation": lambda made: (
        made[0] == [] and "Duration: 0.5 seconds" in made[1]["content"][0]["text"]
    ),
    "logging": lambda made: (
        (len(made[0]), made[1:]) == (2, [[], [{"level": "ANY", "data": "ANY-level message"}]])
    ),
    "sampling": lambda made: "not today" in made[2]["content"][0]["text"],
    "elicitation": lambda made: [one["mode"] for one in made[0]] == ["form"] * 3 + ["url"],
    "roots": lambda made: "2. Two\n   URI: file:///two" in made[2]["content"][0]["text"],
    "megabytes": lambda made: made == {"bytes": 4_000_000, "is the same": True},
    "crowd": lambda made: made == [f"Echo: {number}" for number in range(50)],
}


@pytest.mark.parametrize("feature", FOUND)
def test_a_feature_of_the_reference_server_is_the_same_through_us(
    feature: str, transcripts: dict[str, Transcript]
) -> None:
    bare, *launched = transcripts.values()

    for transcript in launched:
        assert transcript[feature] == bare[feature]
    assert FOUND[feature](bare[feature]["made of it"]), bare[feature]["made of it"]


def test_every_tool_was_called(transcripts: dict[str, Transcript]) -> None:
    names = {tool["name"] for tool in transcripts["bare"]["tools"]["made of it"]["tools"]}

    # One needs a client that knows tasks.
    assert names == {*transcripts["bare"]["called"], "simulate-research-query"}


def test_the_environment_is_the_clients_and_ours(transcripts: dict[str, Transcript]) -> None:
    bare, *launched = (one["environment"]["made of it"] for one in transcripts.values())

    assert bare["HOME"]
    for environ in launched:
        ours = {name for name in environ if name.startswith("MCP_LAUNCH_")} - {"MCP_LAUNCH_HOME"}
        assert {"MCP_LAUNCH_ID", "MCP_LAUNCH_HOST"} <= ours
        assert {name: environ[name] for name in environ.keys() - ours - {"PWD"}} == bare


def test_nothing_of_ours_is_on_stderr_or_left(transcripts: dict[str, Transcript]) -> None:
    for transcript in transcripts.values():
        assert transcript["stderr"] == "Starting default (STDIO) server...\n"
    for wire in ("guarded", "direct"):
        assert_clean_end(transcripts[wire])


@pytest.fixture(scope="module")
def new_era(shared: Path) -> dict[str, Transcript]:
    """Return the transcripts after `server/discover`, by wire."""
    from hosts import client

    return client.take_down_once(shared / "new", SDK_SERVER, client.NEW_FEATURES, "auto")


@pytest.fixture(scope="module")
def old_era(shared: Path) -> dict[str, Transcript]:
    """Return the transcripts after `initialize`, by wire; the direct one ignores eras."""
    from hosts import client

    features = client.FEATURES_OF_BOTH_ERAS
    wires = ["bare", "guarded"]
    return client.take_down_once(shared / "old", SDK_SERVER, features, "legacy", wires)


@pytest.fixture(params=["new_era", "old_era"])
def era(request: pytest.FixtureRequest) -> dict[str, Transcript]:
    transcripts = request.getfixturevalue(request.param)
    assert isinstance(transcripts, dict)
    return transcripts


def test_an_era_is_the_same_through_us(era: dict[str, Transcript]) -> None:
    bare, *launched = era.values()
    for transcript in launched:
        for name in bare.keys() - {"meta", "end"}:
            assert transcript[name] == bare[name], name
        assert_clean_end(transcript)

    assert bare["stderr"] == ""
    said = {name: one["made of it"] for name, one in bare.items() if "made of it" in one}
    assert said["greeting"]["server"] == {"name": "both-eras", "version": "1.2.3"}
    assert len(said["tools"]["tools"]) == 9
    assert said["echo"]["content"][0]["text"] == "äöü€😀"
    assert said["progress"][0] == [[one, 3, f"number {one}"] for one in (1, 2, 3)]
    assert said["cancellation"] == [[], ["cancelled"]]
    assert said["failure"]["isError"]
    assert said["logging"][-1]["data"] == {"heard": True}
    assert said["others"]["resource"]["contents"][0]["text"] == "the note one"
    assert said["others"]["prompt"]["messages"][0]["content"]["text"] == "Greet Ada."
    assert said["length"]["is the same"]
    assert said["crowd"] == [str(number) for number in range(50)]


def test_a_tool_gets_what_it_asked_the_client_for(era: dict[str, Transcript]) -> None:
    for transcript in era.values():
        asked, result = transcript["questions"]["made of it"]
        assert asked == ["elicitation", "roots", "sampling"]
        assert result["structuredContent"]["guest"] == {"name": "Ada", "nights": 2}
        assert result["structuredContent"]["line"]["content"]["text"] == "four, says the model"
        assert result["structuredContent"]["roots"] == ["file:///one"]


def test_in_the_old_era_the_server_asks(old_era: dict[str, Transcript]) -> None:
    for transcript in old_era.values():
        assert transcript["greeting"]["made of it"]["version"] == "2025-11-25"
        heard = transcript["questions"]["heard"]
        asked = {one["method"] for one in heard if "method" in one}
        assert asked == {"elicitation/create", "roots/list", "sampling/createMessage"}


def test_in_the_new_era_a_result_asks(new_era: dict[str, Transcript]) -> None:
    for transcript in new_era.values():
        assert transcript["greeting"]["made of it"]["version"] == "2026-07-28"
        results = [one["result"] for one in transcript["questions"]["heard"]]
        assert [one["resultType"] for one in results] == ["input_required", "complete"]
        assert len(results[0]["inputRequests"]) == 3
        assert results[0]["requestState"] == "SEALED"


@pytest.mark.parametrize("wire", ["guarded", "direct"])
def test_in_the_new_era_changes_are_listened_for(wire: str, new_era: dict[str, Transcript]) -> None:
    assert new_era[wire]["listening"] == new_era["bare"]["listening"]
    assert new_era[wire]["listening"]["made of it"] == "note://one"


def test_the_new_era_needs_no_handshake(tmp_path: Path) -> None:
    from hosts import client

    command = [*client.WIRES["guarded"], *SDK_SERVER]
    host = client.Host(command, tmp_path / "session", "2026-07-28")

    result = client.visit(host, client.echo)

    assert result["structuredContent"] == {"result": "äöü€😀"}
    assert host.heard[0]["result"]["structuredContent"] == result["structuredContent"]


def test_a_call_tells_whose_it_is_and_nothing_else_changes(era: dict[str, Transcript]) -> None:
    metas = {wire: transcript["meta"]["made of it"] for wire, transcript in era.items()}
    told = metas["guarded"].pop("mcp-launch/context")

    assert metas["bare"]["example.org/mine"] == {"kept": True}
    assert all(meta == metas["bare"] for meta in metas.values())
    assert told["launchId"]
    assert "sessionId" not in told  # this client names none


def assert_clean_end(transcript: Transcript) -> None:
    end = transcript["end"]
    assert end["there"] == 4  # launcher, keeper, guardian and server
    assert end["left"] == []
