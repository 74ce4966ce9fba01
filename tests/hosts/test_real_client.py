"""The official SDK's client gets from real servers what it gets without us, in both eras.

A session with every feature is recorded: once with the server alone, once on each wire. The
client's results and every message it got must be the same. Each test checks one feature, and
that there was anything to compare.
"""

from __future__ import annotations

import base64
import gzip
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
BLOB = "demo://resource/dynamic/blob/1"
STATIC = "demo://resource/static/document/features.md"


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


@pytest.fixture(params=["guarded", "direct"])
def agreed(
    request: pytest.FixtureRequest, transcripts: dict[str, Transcript]
) -> Callable[[str], Any]:
    """Compare a feature with and without us, and return the client's result."""

    def compare(feature: str) -> Any:
        assert transcripts[request.param][feature] == transcripts["bare"][feature]
        return transcripts["bare"][feature]["made of it"]

    return compare


def test_the_server_introduces_itself(agreed: Callable[[str], Any]) -> None:
    greeting = agreed("greeting")

    assert greeting["version"] == "2025-11-25"
    assert greeting["server"]["name"] == "mcp-servers/everything"
    assert "# Everything Server" in greeting["instructions"]
    assert {"completions", "logging", "prompts", "resources", "tools", "tasks"} == {
        *greeting["capabilities"]
    }


def test_every_tool_is_listed_and_was_called(
    agreed: Callable[[str], Any], transcripts: dict[str, Transcript]
) -> None:
    names = {tool["name"] for tool in agreed("tools")["tools"]}

    assert len(names) == 17
    assert names == {
        *transcripts["bare"]["called"],
        "simulate-research-query",
    }  # it needs a client that knows tasks


def test_tools_are_called(agreed: Callable[[str], Any]) -> None:
    results = agreed("calls")

    assert not any(result["isError"] for result in results)
    contents = [result["content"] for result in results]
    assert contents[0][0]["text"] == 'Echo: äöü€😀\\"\n\u2028\x00'
    assert contents[1][0]["text"] == "The sum of 2 and 40 is 42."
    assert results[2]["structuredContent"]["conditions"] == "Light rain / drizzle"
    assert base64.b64decode(contents[3][1]["data"]).startswith(b"\x89PNG")
    assert contents[4][0]["annotations"] == {"audience": ["user", "assistant"], "priority": 1}
    assert [block["type"] for block in contents[5]] == ["text", "image"]
    assert [block["type"] for block in contents[6]] == ["text", *["resource_link"] * 4]
    assert contents[7][1]["resource"]["text"].endswith("created at TIME")
    assert contents[8][1]["resource"]["blob"].endswith("created at TIME")
    assert gzip.decompress(base64.b64decode(contents[9][0]["resource"]["blob"])) == b"hello"
    assert contents[10][0]["uri"] == "demo://resource/session/linked.gz"


def test_errors_are_told(agreed: Callable[[str], Any]) -> None:
    *of_tools, method, resource, prompt = agreed("errors")

    assert all(result["isError"] for result in of_tools)
    words = [result["content"][0]["text"] for result in of_tools]
    assert "Invalid arguments for tool echo" in words[0]
    assert "Tool no-such-tool not found" in words[1]
    assert words[2] == "Invalid resourceId: 0. Must be a finite positive integer."
    assert "requires task augmentation" in words[3]
    assert method["code"] == -32601
    assert resource["code"] == -32602
    assert prompt["code"] == -32602


def test_the_environment_is_the_clients_and_ours(transcripts: dict[str, Transcript]) -> None:
    bare, *launched = (
        transcripts[wire]["environment"]["made of it"] for wire in ("bare", "guarded", "direct")
    )

    assert bare["HOME"]
    for environ in launched:
        # The topic `tested` lists all of these.
        ours = {name for name in environ if name.startswith("MCP_LAUNCH_")} - {"MCP_LAUNCH_HOME"}
        assert {"MCP_LAUNCH_ID", "MCP_LAUNCH_HOST"} <= ours
        assert {name: environ[name] for name in environ.keys() - ours - {"PWD"}} == bare


def test_resources_are_listed_and_read(agreed: Callable[[str], Any]) -> None:
    resources, templates, static, text, blob, session = agreed("resources")

    assert STATIC in {one["uri"] for one in resources["resources"]}
    assert len(templates["resourceTemplates"]) == 2
    assert "# Everything Server" in static["contents"][0]["text"]
    assert text["contents"][0]["text"].startswith("Resource 1: This is a plaintext resource")
    assert blob["contents"][0]["blob"].startswith("Resource 1: This is a base64 blob")
    assert gzip.decompress(base64.b64decode(session["contents"][0]["blob"])) == b"world"


def test_updates_come_while_subscribed(agreed: Callable[[str], Any]) -> None:
    assert agreed("subscription") == [[TEXT], []]


def test_prompts_are_listed_and_got(agreed: Callable[[str], Any]) -> None:
    listed, *got = agreed("prompts")

    assert len(listed["prompts"]) == 4
    contents = [prompt["messages"][-1]["content"] for prompt in got]
    assert contents[0]["text"] == "This is a simple prompt without arguments."
    assert contents[1]["text"] == "What's weather in Bern?"
    assert contents[2]["text"] == "What's weather in Austin, Texas?"
    assert contents[3]["resource"]["uri"] == TEXT


def test_arguments_are_completed(agreed: Callable[[str], Any]) -> None:
    values = [result["completion"]["values"] for result in agreed("completion")]

    assert values == [["Engineering"], ["David"], ["7"], []]


def test_progress_comes_in_order(agreed: Callable[[str], Any]) -> None:
    progress, result = agreed("progress")

    assert progress == [[float(step), 20.0, None] for step in range(1, 21)]
    assert "completed" in result["content"][0]["text"]


def test_a_cancelled_call_is_not_answered_and_the_next_one_is(agreed: Callable[[str], Any]) -> None:
    answers, after = agreed("cancellation")

    assert answers == []
    assert "Duration: 0.5 seconds" in after["content"][0]["text"]


def test_log_messages_come_from_the_level_on(agreed: Callable[[str], Any]) -> None:
    at_info, at_error, simulated = agreed("logging")

    assert [message["data"].rstrip() for message in at_info] == [
        f"Received Subscribe Resource request for URI: {BLOB}",
        f"Received Unsubscribe Resource request: {BLOB}",
    ]
    assert at_error == []
    assert simulated == [{"level": "ANY", "data": "ANY-level message"}]


def test_sampling_reaches_the_client_and_its_answer_the_tool(agreed: Callable[[str], Any]) -> None:
    asked, answered, refused = agreed("sampling")

    assert [one["messages"][0]["content"]["text"][-6:] for one in asked] == ["2 + 2?", "refuse"]
    assert "four, says the model" in answered["content"][0]["text"]
    assert refused["isError"]
    assert "not today" in refused["content"][0]["text"]


def test_elicitation_reaches_the_client_and_its_answer_the_tool(
    agreed: Callable[[str], Any],
) -> None:
    asked, accepted, declined, cancelled, opened, required = agreed("elicitation")

    assert [one["mode"] for one in asked] == ["form", "form", "form", "url"]
    assert "- Name: Ada\n- Agreed to terms: true" in accepted["content"][1]["text"]
    assert "declined" in declined["content"][0]["text"]
    assert "cancelled" in cancelled["content"][0]["text"]
    assert "URL: https://example.org/" in opened["content"][0]["text"]
    assert required["code"] == -32042


def test_roots_are_asked_for_when_they_change(agreed: Callable[[str], Any]) -> None:
    times_asked, before, after = agreed("roots")

    assert times_asked == 2
    assert "(1 total)" in before["content"][0]["text"]
    assert "2. Two\n   URI: file:///two" in after["content"][0]["text"]


def test_megabytes_arrive_there_and_back(agreed: Callable[[str], Any]) -> None:
    assert agreed("megabytes") == {"bytes": 4_000_000, "is the same": True}


def test_each_of_many_calls_at_once_gets_its_own_answer(agreed: Callable[[str], Any]) -> None:
    assert agreed("crowd") == [f"Echo: {number}" for number in range(50)]


def test_nothing_of_ours_is_on_stderr(transcripts: dict[str, Transcript]) -> None:
    assert {transcript["stderr"] for transcript in transcripts.values()} == {
        "Starting default (STDIO) server...\n"
    }


@pytest.mark.parametrize("wire", ["guarded", "direct"])
def test_the_server_is_gone_when_the_client_has_closed(
    wire: str, transcripts: dict[str, Transcript]
) -> None:
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
