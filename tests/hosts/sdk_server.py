"""A server of both eras, written with the official SDK."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types import CreateMessageResult, ListRootsResult, SamplingMessage, TextContent
from pydantic import BaseModel

# The SDK deprecates the old era, which is tested too.
warnings.simplefilter("ignore", MCPDeprecationWarning)

server = MCPServer(
    "both-eras", version="1.2.3", instructions="Ask it anything.", log_level="CRITICAL"
)
endings: list[str] = []


class Guest(BaseModel):
    """What is asked of the user."""

    name: str
    nights: int


def ask_the_user() -> Elicit[Guest]:
    return Elicit("Who comes, and for how long?", Guest)


def ask_the_model(topic: str) -> Sample:
    question = TextContent(type="text", text=f"A line about {topic}, please.")
    return Sample([SamplingMessage(role="user", content=question)], max_tokens=20)


def ask_for_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def echo(message: str) -> str:
    return message


@server.tool()
async def read_meta(ctx: Context[Any, Any]) -> dict[str, Any]:
    """Return the `_meta` that the call came with."""
    return dict(ctx.request_context.meta or {})


@server.tool()
async def book(
    topic: str,
    guest: Annotated[Guest, Resolve(ask_the_user)],
    line: Annotated[CreateMessageResult, Resolve(ask_the_model)],
    roots: Annotated[ListRootsResult, Resolve(ask_for_roots)],
) -> dict[str, Any]:
    """Ask the client three things, and return each answer."""
    return {
        "topic": topic,
        "guest": guest.model_dump(),
        "line": line.model_dump(mode="json", exclude_none=True),
        "roots": [str(root.uri) for root in roots.roots],
    }


@server.tool()
async def count(to: int, ctx: Context[Any, Any]) -> int:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"number {number}")
    return to


@server.tool()
async def wait_forever(ctx: Context[Any, Any]) -> str:
    try:
        await ctx.report_progress(1)
        await anyio.sleep_forever()
    finally:
        endings.append("cancelled")
    return "never"


@server.tool()
async def list_endings() -> list[str]:
    return endings


@server.tool()
async def speak(ctx: Context[Any, Any]) -> str:
    await ctx.debug("not heard by whoever asked for more than that")
    await ctx.warning({"heard": True}, logger_name="speaker")
    return "spoken"


@server.tool()
async def touch(uri: str, ctx: Context[Any, Any]) -> str:
    await ctx.notify_resource_updated(uri)
    return uri


@server.tool()
async def fail() -> str:
    raise ValueError("on purpose")


@server.resource("note://{name}")
async def note(name: str) -> str:
    return f"the note {name}"


@server.prompt()
async def greet(name: str) -> str:
    return f"Greet {name}."


if __name__ == "__main__":
    server.run()
