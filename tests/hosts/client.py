"""The official SDK's client, which uses every feature and records every message."""

from __future__ import annotations

import asyncio
import base64
import fcntl
import hashlib
import json
import os
import re
import warnings
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TextIO, cast

import anyio
import mcp_types as types
import psutil
from launches import LIMIT, RUN
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.shared.exceptions import MCPDeprecationWarning

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
    from pathlib import Path

    from mcp.client import ClientRequestContext
    from mcp.client._transport import TransportStreams
    from pydantic import BaseModel

    Transcript = dict[str, Any]
    Feature = Callable[["Host"], Coroutine[Any, Any, Any]]

WIRES = {"bare": [], "guarded": [*RUN, "--"], "direct": [*RUN, "--direct", "--"]}

TEXT = "demo://resource/dynamic/text/1"
BLOB = "demo://resource/dynamic/blob/1"
STATIC = "demo://resource/static/document/features.md"
LONG_TEXT = 'äöü "\\\n' * 400_000

# Values that differ every time, with or without us.
CHANGING = {
    r"\d{1,2}:\d\d:\d\d [AP]M": "TIME",  # a dynamic resource is made when it is read
    r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b": "UUID",  # of a URL elicitation
    r"^v1\.[\w-]{40,}$": "SEALED",  # the state of a call that waits for input
    r"^listen-\d+$": "LISTEN",  # the SDK counts them for all sessions of a process
}


def take_down_once(
    path: Path,
    command: list[str],
    features: dict[str, Feature],
    mode: str,
    wires: Iterable[str] = WIRES,
) -> dict[str, Transcript]:
    """Return the transcripts, by wire; the first worker makes them for all."""
    with open(f"{path}.lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = path.with_suffix(".json")
        if not told.exists():
            made = asyncio.run(take_down_all(path, command, features, mode, wires))
            told.write_text(json.dumps(made), encoding="utf-8")
    transcripts = json.loads(told.read_text(encoding="utf-8"))
    assert isinstance(transcripts, dict)
    return transcripts


async def take_down_all(
    path: Path, command: list[str], features: dict[str, Feature], mode: str, wires: Iterable[str]
) -> dict[str, Transcript]:
    hosts = {wire: Host([*WIRES[wire], *command], path / wire, mode) for wire in wires}
    taken = await asyncio.gather(*(bounded(host.take_down(features)) for host in hosts.values()))
    return dict(zip(hosts, taken, strict=True))


def visit(host: Host, feature: Feature) -> Any:
    """Return the result of one feature, in a session of its own."""
    return asyncio.run(bounded(host.visit(feature)))


async def bounded(session: Awaitable[Any]) -> Any:
    with warnings.catch_warnings():
        # Half of its messages are deprecated in the new era.
        warnings.simplefilter("ignore", MCPDeprecationWarning)
        return await asyncio.wait_for(session, 2 * LIMIT)


class Host:
    """A client that answers servers' requests, and records the messages it gets."""

    def __init__(self, command: list[str], directory: Path, mode: str) -> None:
        self.heard: list[dict[str, Any]] = []  # since the feature began
        self.asked: list[tuple[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.called: set[str] = set()
        self.times_asked = 0
        self.times_asked_for_roots = 0
        self.roots = [make_root("One")]
        self._news = anyio.Event()
        self._directory = directory
        for name in ("home", "project"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        self._parameters = StdioServerParameters(
            command=command[0],
            args=command[1:],
            cwd=directory / "project",
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(directory / "home"),
                "MCP_LAUNCH_HOME": str(directory / "state"),
                "LANG": "C.UTF-8",
            },
        )
        self.client = Client(
            self._overhear(),
            mode=mode,
            read_timeout_seconds=LIMIT,
            log_level="warning",
            sampling_callback=self._sample,
            elicitation_callback=self._elicit,
            list_roots_callback=self._list_roots,
            logging_callback=self._log,
        )

    async def visit(self, feature: Feature) -> Any:
        async with self.client:
            return await feature(self)

    async def take_down(self, features: dict[str, Feature]) -> Transcript:
        """Use all features, and return the result of each."""
        transcript: Transcript = {}
        async with self.client:
            for name, feature in features.items():
                made = await feature(self)
                transcript[name] = self._settle({"made of it": made, "heard": self.heard})
                self.heard, self.asked, self.logged = [], [], []
            family = self._list_processes()
        _gone, left = psutil.wait_procs(family, LIMIT)
        transcript["end"] = {"there": len(family), "left": [process.pid for process in left]}
        transcript["called"] = sorted(self.called)
        transcript["stderr"] = (self._directory / "stderr").read_text(encoding="utf-8")
        return transcript

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await self.client.call_tool(tool, arguments)
        if not result.is_error:
            self.called.add(tool)
        return plain(result)

    async def hear(self, is_it: Callable[[dict[str, Any]], bool]) -> None:
        """Wait for a message of this feature."""
        while not any(is_it(message) for message in self.heard):
            with anyio.fail_after(LIMIT):
                await self._news.wait()

    @asynccontextmanager
    async def _overhear(self) -> AsyncIterator[TransportStreams]:
        with self._open_stderr() as errlog:
            async with stdio_client(self._parameters, errlog) as (read, write):
                pass_on, passed_on = anyio.create_memory_object_stream[Any](0)

                async def listen() -> None:
                    async with pass_on:
                        async for message in read:
                            self._note(message)
                            try:
                                await pass_on.send(message)
                            except anyio.BrokenResourceError:
                                return  # the session is over

                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(listen)
                    yield passed_on, write
                    tasks.cancel_scope.cancel()

    def _open_stderr(self) -> TextIO:
        return open(self._directory / "stderr", "w", encoding="utf-8")

    def _note(self, message: Any) -> None:
        assert not isinstance(message, Exception), message
        said = message.message.model_dump(mode="json", by_alias=True, exclude_unset=True)
        if "method" in said and "id" in said:
            self.times_asked += 1
            said["id"] = self.times_asked  # the number is ours or the server's
        self.heard.append(said)
        self._news.set()
        self._news = anyio.Event()

    def _note_question(self, context: ClientRequestContext, kind: str, params: Any) -> None:
        assert context.request_id is not None
        self.asked.append((kind, params))

    async def _sample(
        self, context: ClientRequestContext, params: types.CreateMessageRequestParams
    ) -> types.CreateMessageResult | types.ErrorData:
        self._note_question(context, "sampling", plain(params))
        if "refuse" in str(params.messages):
            return types.ErrorData(code=-1, message="not today")
        text = types.TextContent(type="text", text="four, says the model")
        return types.CreateMessageResult(role="assistant", content=text, model="abacus")

    async def _elicit(
        self, context: ClientRequestContext, params: types.ElicitRequestParams
    ) -> types.ElicitResult:
        self._note_question(context, "elicitation", plain(params))
        if params.mode == "url":
            return types.ElicitResult(action="accept")
        if "nights" in params.requested_schema["properties"]:
            return types.ElicitResult(action="accept", content={"name": "Ada", "nights": 2})
        # Decline the second request and cancel the third, which ask the same as the first.
        if len(self.asked) > 1:
            return types.ElicitResult(action="decline" if len(self.asked) == 2 else "cancel")
        return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})

    async def _list_roots(self, context: ClientRequestContext) -> types.ListRootsResult:
        self.times_asked_for_roots += 1
        self._note_question(context, "roots", None)
        return types.ListRootsResult(roots=self.roots)

    async def _log(self, params: types.LoggingMessageNotificationParams) -> None:
        self.logged.append(plain(params))

    def _settle(self, value: Any) -> Any:
        """Replace values that differ every time, and those too long to show."""
        if isinstance(value, dict):
            if is_random_log_message(value):
                return value | {"level": "ANY", "data": "ANY-level message"}
            return {name: self._settle(reveal(name, one)) for name, one in value.items()}
        if isinstance(value, list | tuple):
            return [self._settle(one) for one in value]
        if isinstance(value, str):
            if len(value) > 100_000:
                return hashlib.sha256(value.encode()).hexdigest()
            value = value.replace(str(self._directory), "DIRECTORY")
            for pattern, word in CHANGING.items():
                value = re.sub(pattern, word, value)
        return value

    def _list_processes(self) -> list[psutil.Process]:
        """Return the processes of this session, found by its home."""
        home = str(self._directory / "home")
        family = []
        for process in psutil.Process().children(recursive=True):
            try:
                if process.environ().get("HOME") == home:
                    family.append(process)
            except psutil.NoSuchProcess:
                pass  # another session's process, which has just ended
        return family


def plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def make_root(name: str) -> types.Root:
    return types.Root.model_validate({"uri": f"file:///{name.lower()}", "name": name})


def reveal(name: str, value: Any) -> Any:
    """Return the text of a text blob, which contains the time."""
    if name != "blob":
        return value
    try:
        return base64.b64decode(value).decode()
    except UnicodeDecodeError:
        return value


def is_random_log_message(params: dict[str, Any]) -> bool:
    """Return whether this is one of the eight that the server picks from."""
    said = re.fullmatch(r"(\w+)[ -]level[ -]message", str(params.get("data")))
    return said is not None and said[1].lower() == params["level"]


async def attempt(request: Awaitable[BaseModel]) -> dict[str, Any]:
    """Return the result, or the error."""
    try:
        return plain(await request)
    except MCPError as error:
        return plain(error.error)


def is_notification(method: str, **params: Any) -> Callable[[dict[str, Any]], bool]:
    def is_it(message: dict[str, Any]) -> bool:
        return message.get("method") == method and params.items() <= message["params"].items()

    return is_it


def list_answers(host: Host, request_id: object) -> list[dict[str, Any]]:
    return [one for one in host.heard if one.get("id") == request_id and "method" not in one]


async def exchange_greetings(host: Host) -> Any:
    # The server asks for the roots a third of a second later, and logs it.
    said = {"level": "info", "data": "Roots updated: 1 root(s) received from client"}
    await host.hear(is_notification("notifications/message", **said))
    return await introduce(host)


async def introduce(host: Host) -> Any:
    client = host.client
    assert client.server_info
    return {
        "version": client.protocol_version,
        "server": plain(client.server_info),
        "capabilities": plain(client.server_capabilities),
        "instructions": client.instructions,
    }


async def list_tools(host: Host) -> Any:
    return plain(await host.client.list_tools())


async def call_tools(host: Host) -> Any:
    compress = "gzip-file-as-resource"
    return [
        await host.call("echo", message='äöü€😀\\"\n\u2028\x00'),
        await host.call("get-sum", a=2, b=40),
        await host.call("get-structured-content", location="Chicago"),
        await host.call("get-tiny-image"),
        await host.call("get-annotated-message", messageType="error"),
        await host.call("get-annotated-message", messageType="debug", includeImage=True),
        await host.call("get-resource-links", count=4),
        await host.call("get-resource-reference", resourceType="Text", resourceId=3),
        await host.call("get-resource-reference", resourceType="Blob", resourceId=4),
        await host.call(compress, name="a.gz", data="data:,hello", outputType="resource"),
        await host.call(compress, name="linked.gz", data="data:,world"),
    ]


async def make_errors(host: Host) -> Any:
    unknown = types.Request[dict[str, Any], str](method="no/such/method", params={})
    return [
        await host.call("echo"),
        await host.call("no-such-tool"),
        await host.call("get-resource-reference", resourceType="Text", resourceId=0),
        await host.call("simulate-research-query", topic="python"),
        await attempt(host.client.session.send_request(unknown, types.EmptyResult)),
        await attempt(host.client.read_resource("demo://no/such/resource")),
        await attempt(host.client.get_prompt("no-such-prompt")),
    ]


async def read_environment(host: Host) -> Any:
    result = await host.call("get-env")
    host.heard.clear()  # the same again, as text
    return json.loads(result["content"][0]["text"])


async def read_resources(host: Host) -> Any:
    client = host.client
    return [
        plain(await client.list_resources()),
        plain(await client.list_resource_templates()),
        plain(await client.read_resource(STATIC)),
        plain(await client.read_resource(TEXT)),
        plain(await client.read_resource(BLOB)),
        plain(await client.read_resource("demo://resource/session/linked.gz")),
    ]


async def subscribe(host: Host) -> Any:
    method = "notifications/resources/updated"

    async def switch_on_and_off() -> list[str]:
        seen = len(host.heard)
        await host.call("toggle-subscriber-updates")
        await host.call("toggle-subscriber-updates")
        return [one["params"]["uri"] for one in host.heard[seen:] if one.get("method") == method]

    await host.client.subscribe_resource(TEXT)
    while_subscribed = await switch_on_and_off()
    await host.client.unsubscribe_resource(TEXT)
    return [while_subscribed, await switch_on_and_off()]


async def get_prompts(host: Host) -> Any:
    client = host.client
    resource = {"resourceType": "Text", "resourceId": "1"}
    return [
        plain(await client.list_prompts()),
        plain(await client.get_prompt("simple-prompt")),
        plain(await client.get_prompt("args-prompt", {"city": "Bern"})),
        plain(await client.get_prompt("args-prompt", {"city": "Austin", "state": "Texas"})),
        plain(await client.get_prompt("resource-prompt", resource)),
    ]


async def complete(host: Host) -> Any:
    prompt = types.PromptReference(type="ref/prompt", name="completable-prompt")
    template = types.ResourceTemplateReference(
        type="ref/resource", uri="demo://resource/dynamic/text/{resourceId}"
    )
    ask = host.client.complete
    return [
        plain(await ask(prompt, {"name": "department", "value": "Eng"})),
        plain(await ask(prompt, {"name": "name", "value": "D"}, {"department": "Sales"})),
        plain(await ask(template, {"name": "resourceId", "value": "7"})),
        plain(await ask(template, {"name": "resourceId", "value": "seven"})),
    ]


async def follow_progress(host: Host) -> Any:
    return await call_with_progress(
        host, "trigger-long-running-operation", {"duration": 0.2, "steps": 20}
    )


async def call_with_progress(host: Host, tool: str, arguments: dict[str, Any]) -> Any:
    seen: list[tuple[float, float | None, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    result = await host.client.call_tool(tool, arguments, progress_callback=note)
    host.called.add(tool)
    return [seen, plain(result)]


async def cancel(host: Host) -> Any:
    tool = "trigger-long-running-operation"
    cancelled = await cancel_after_first_progress(host, tool, {"duration": 0.3, "steps": 3})
    # This server stops answering but keeps reporting. It would have answered by then.
    after = await host.call(tool, duration=0.5, steps=1)
    # With us nobody hears these reports.
    is_report = is_notification("notifications/progress", progressToken=cancelled)
    host.heard = [one for one in host.heard if not is_report(one)]
    return [list_answers(host, cancelled), after]


async def cancel_after_first_progress(host: Host, tool: str, arguments: dict[str, Any]) -> Any:
    """Cancel a call when it is under way, and return its id."""
    seen: list[tuple[float, float | None, str | None]] = []
    with anyio.CancelScope() as scope:

        async def stop(progress: float, total: float | None, message: str | None) -> None:
            seen.append((progress, total, message))
            scope.cancel()

        await host.client.call_tool(tool, arguments, progress_callback=stop)
    assert scope.cancelled_caught
    assert len(seen) == 1
    # The SDK uses the id of a request as its token.
    first = next(one for one in host.heard if one.get("method") == "notifications/progress")
    return first["params"]["progressToken"]


async def log(host: Host) -> Any:
    async def provoke() -> list[dict[str, Any]]:
        """Subscribe: this server logs it at level info."""
        seen = len(host.logged)
        await host.client.subscribe_resource(BLOB)
        await host.client.unsubscribe_resource(BLOB)
        return host.logged[seen:]

    await host.client.set_logging_level("info")
    at_info = await provoke()
    await host.client.set_logging_level("error")
    at_error = await provoke()
    await host.client.set_logging_level("debug")
    seen = len(host.logged)
    await host.call("toggle-simulated-logging")
    await host.call("toggle-simulated-logging")
    simulated = host.logged[seen:]
    await host.client.set_logging_level("info")
    return [at_info, at_error, simulated]


async def sample(host: Host) -> Any:
    answered = await host.call("trigger-sampling-request", prompt="What is 2 + 2?")
    refused = await host.call("trigger-sampling-request", prompt="refuse")
    return [[params for _kind, params in host.asked], answered, refused]


async def elicit(host: Host) -> Any:
    form, link = "trigger-elicitation-request", "trigger-url-elicitation"
    url = {"url": "https://example.org/", "elicitationId": "e-1"}
    answers = [await host.call(form), await host.call(form), await host.call(form)]
    opened = await host.call(link, **url)
    required = await attempt(host.client.call_tool(link, url | {"errorPath": True}))
    return [[params for _kind, params in host.asked], *answers, opened, required]


async def change_roots(host: Host) -> Any:
    before = await host.call("get-roots-list")
    host.roots.append(make_root("Two"))
    await host.client.send_roots_list_changed()
    said = {"data": "Roots updated: 2 root(s) received from client"}
    await host.hear(is_notification("notifications/message", **said))
    return [host.times_asked_for_roots, before, await host.call("get-roots-list")]


async def send_megabytes(host: Host) -> Any:
    return await send_and_compare(host, LONG_TEXT)


async def send_and_compare(host: Host, message: str) -> Any:
    result = await host.client.call_tool("echo", {"message": message})
    text = result.content[0]
    assert isinstance(text, types.TextContent)
    is_same = text.text.removeprefix("Echo: ") == message
    return {"bytes": len(message.encode()), "is the same": is_same}


async def call_as_a_crowd(host: Host) -> Any:
    results = await asyncio.gather(*(host.call("echo", message=str(one)) for one in range(50)))
    # The server may answer in any order.
    host.heard.sort(key=lambda message: str(message["id"]))
    return [result["content"][0]["text"] for result in results]


EVERYTHING_FEATURES: dict[str, Feature] = {
    "greeting": exchange_greetings,
    "tools": list_tools,
    "calls": call_tools,
    "errors": make_errors,
    "environment": read_environment,
    "resources": read_resources,
    "subscription": subscribe,
    "prompts": get_prompts,
    "completion": complete,
    "progress": follow_progress,
    "cancellation": cancel,
    "logging": log,
    "sampling": sample,
    "elicitation": elicit,
    "roots": change_roots,
    "megabytes": send_megabytes,
    "crowd": call_as_a_crowd,
}


async def echo(host: Host) -> Any:
    return await host.call("echo", message="äöü€😀")


async def send_much(host: Host) -> Any:
    return await send_and_compare(host, LONG_TEXT[:300_000])


async def read_meta(host: Host) -> Any:
    mine = cast("types.RequestParamsMeta", {"example.org/mine": {"kept": True}})
    result = await host.client.call_tool("read_meta", {}, meta=mine)
    return result.structured_content


async def answer_questions(host: Host) -> Any:
    result = await host.call("book", topic="abacuses")
    return [sorted(kind for kind, _params in host.asked), result]


async def count(host: Host) -> Any:
    return await call_with_progress(host, "count", {"to": 3})


async def cancel_waiting(host: Host) -> Any:
    cancelled = await cancel_after_first_progress(host, "wait_forever", {})
    endings = await host.client.call_tool("list_endings")
    assert endings.structured_content
    return [list_answers(host, cancelled), endings.structured_content["result"]]


async def fail(host: Host) -> Any:
    return await host.call("fail")


async def let_speak(host: Host) -> Any:
    await host.call("speak")
    return host.logged


async def use_the_rest(host: Host) -> Any:
    return {
        "templates": plain(await host.client.list_resource_templates()),
        "resource": plain(await host.client.read_resource("note://one")),
        "prompts": plain(await host.client.list_prompts()),
        "prompt": plain(await host.client.get_prompt("greet", {"name": "Ada"})),
    }


async def listen(host: Host) -> Any:
    async with host.client.listen(resource_subscriptions=["note://one"]) as changes:
        await host.call("touch", uri="note://two")
        await host.call("touch", uri="note://one")
        change = await anext(changes)
    # The server may send the answer and the change in any order.
    host.heard.sort(key=str)
    assert isinstance(change, ResourceUpdated)
    return change.uri


FEATURES_OF_BOTH_ERAS: dict[str, Feature] = {
    "greeting": introduce,
    "tools": list_tools,
    "echo": echo,
    "meta": read_meta,
    "questions": answer_questions,
    "progress": count,
    "cancellation": cancel_waiting,
    "failure": fail,
    "logging": let_speak,
    "others": use_the_rest,
    "length": send_much,
    "crowd": call_as_a_crowd,
}
NEW_FEATURES: dict[str, Feature] = {**FEATURES_OF_BOTH_ERAS, "listening": listen}
