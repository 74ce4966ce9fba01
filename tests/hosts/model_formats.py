"""What hosts ask models and what models answer, in the formats of four services.

A request becomes a `Turn`, which says the same whatever the service is. The decision about it,
a text or a `Call`, becomes what the service would have answered.
"""

from __future__ import annotations

import json
import re
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from email.message import Message

_SCRIPT = re.compile(r"call ([A-Za-z0-9_-]+) (?=\{)")
_MARKER = re.compile(r"\bI am ([A-Za-z0-9_-]+)\.")
_SESSION = re.compile(r'"session_id": ?"([0-9a-f-]{36})"')
_USAGE = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
_CHAT_USAGE = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}


class Step(NamedTuple):
    """A call that the user's prompt asks for."""

    tool: str
    arguments: dict[str, Any]


class Call(NamedTuple):
    """A call that a model makes."""

    call_id: str
    namespace: str
    step: Step


class Turn(NamedTuple):
    """A request to a model, independent of the service."""

    asker: str  # the session or thread; where requests do not name it, prompts say "I am ..."
    steps: list[Step]  # of the user's last prompt
    answers: dict[str, str]  # to calls since then, by call
    offered: list[tuple[str, str]]  # namespace and name of each tool


class Reply(NamedTuple):
    """What a service sends."""

    kind: str
    data: bytes


class Responses:
    """OpenAI's Responses, for Codex."""

    def read(self, request: dict[str, Any], headers: Message) -> Turn:
        steps: list[Step] = []
        answers: dict[str, str] = {}
        for item in request["input"]:
            if item.get("role") == "user" and (script := read_script(item.get("content"))):
                steps, answers = script, {}
            elif item.get("type") == "function_call_output":
                answers[item["call_id"]] = _to_text(item["output"])
        offered = []
        for tool in request.get("tools", []):
            inside = tool.get("tools", [tool])
            space = tool["name"] if "tools" in tool else ""
            offered += [(space, one.get("name", "")) for one in inside]
        asker = headers.get("thread-id") or headers.get("session_id") or ""
        return Turn(asker, steps, answers, offered)

    def spell(self, made: Call | str, _request: dict[str, Any]) -> Reply:
        item: dict[str, Any] = {"type": "message", "role": "assistant", "id": _make_id()}
        if isinstance(made, str):
            item["content"] = [{"type": "output_text", "text": made}]
        else:
            item = {"type": "function_call", "call_id": made.call_id, "name": made.step.tool}
            item["arguments"] = json.dumps(made.step.arguments)
            if made.namespace:
                item["namespace"] = made.namespace
        response = {"id": _make_id(), "usage": _USAGE}
        return _named_events(
            [
                {"type": "response.created", "response": response},
                {"type": "response.output_item.done", "item": item},
                {"type": "response.completed", "response": response},
            ]
        )


class Messages:
    """Anthropic's Messages, for Claude Code."""

    def read(self, request: dict[str, Any], _headers: Message) -> Turn:
        steps: list[Step] = []
        answers: dict[str, str] = {}
        for message in request["messages"]:
            content = message["content"]
            if message["role"] == "user" and (script := read_script(content)):
                steps, answers = script, {}
            for part in content if isinstance(content, list) else []:
                if part.get("type") == "tool_result":
                    answers[part["tool_use_id"]] = _to_text(part.get("content"))
        offered = [("", tool.get("name", "")) for tool in request.get("tools", [])]
        found = _SESSION.search(request.get("metadata", {}).get("user_id", ""))
        return Turn(found[1] if found else "", steps, answers, offered)

    def spell(self, made: Call | str, request: dict[str, Any]) -> Reply:
        if isinstance(made, str):
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta = {"type": "text_delta", "text": made}
        else:
            block = {"type": "tool_use", "id": made.call_id, "name": made.step.tool, "input": {}}
            words = json.dumps(made.step.arguments)
            delta = {"type": "input_json_delta", "partial_json": words}
        stop = "end_turn" if isinstance(made, str) else "tool_use"
        message: dict[str, Any] = {"id": _make_id(), "type": "message", "role": "assistant"}
        message |= {"content": [], "stop_reason": None, "usage": _USAGE}
        message["model"] = request.get("model")
        return _named_events(
            [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0, "content_block": block},
                {"type": "content_block_delta", "index": 0, "delta": delta},
                {"type": "content_block_stop", "index": 0},
                {"type": "message_delta", "delta": {"stop_reason": stop}, "usage": _USAGE},
                {"type": "message_stop"},
            ]
        )


class ChatCompletions:
    """OpenAI's chat completions, which most hosts can use."""

    def read(self, request: dict[str, Any], _headers: Message) -> Turn:
        asker, steps = "", []
        answers: dict[str, str] = {}
        for message in request["messages"]:
            content = message.get("content")
            if message["role"] == "user" and (script := read_script(content)):
                asker, steps, answers = _read_marker(content), script, {}
            elif message["role"] == "tool":
                answers[message["tool_call_id"]] = _to_text(content)
        offered = [("", one["function"]["name"]) for one in request.get("tools") or []]
        return Turn(asker, steps, answers, offered)

    def spell(self, made: Call | str, request: dict[str, Any]) -> Reply:
        message: dict[str, Any] = {"role": "assistant", "content": made}
        if isinstance(made, Call):
            words = {"name": made.step.tool, "arguments": json.dumps(made.step.arguments)}
            one = {"index": 0, "id": made.call_id, "type": "function", "function": words}
            message |= {"content": None, "tool_calls": [one]}
        stop = "stop" if isinstance(made, str) else "tool_calls"
        reply = {"id": _make_id(), "created": 1, "model": request.get("model")}
        if not request.get("stream"):
            choice = {"index": 0, "message": message, "finish_reason": stop}
            reply |= {"object": "chat.completion", "choices": [choice], "usage": _CHAT_USAGE}
            return _whole(reply)
        reply["object"] = "chat.completion.chunk"
        first = {"index": 0, "delta": message, "finish_reason": None}
        last = {"index": 0, "delta": {}, "finish_reason": stop}
        chunks = [{**reply, "choices": [first]}]
        chunks.append({**reply, "choices": [last], "usage": _CHAT_USAGE})
        return _events([*map(json.dumps, chunks), "[DONE]"])


class GenerateContent:
    """Google's generateContent, for Gemini CLI."""

    def read(self, request: dict[str, Any], _headers: Message) -> Turn:
        asker, steps = "", []
        answers: dict[str, str] = {}
        for message in request.get("contents", []):
            parts = message.get("parts", [])
            if message.get("role") == "user" and (script := read_script(parts)):
                asker, steps, answers = _read_marker(parts), script, {}
            found = [part["functionResponse"] for part in parts if "functionResponse" in part]
            answers |= {one["id"]: _to_text(one.get("response")) for one in found}
        declared = [one.get("functionDeclarations", []) for one in request.get("tools") or []]
        return Turn(asker, steps, answers, [("", one["name"]) for some in declared for one in some])

    def spell(self, made: Call | str, request: dict[str, Any]) -> Reply:
        part: dict[str, Any] = {"text": made}
        if isinstance(made, Call):
            words = {"name": made.step.tool, "args": made.step.arguments, "id": made.call_id}
            part = {"functionCall": words}
        content = {"role": "model", "parts": [part]}
        reply = {"candidates": [{"content": content, "finishReason": "STOP", "index": 0}]}
        if request["streams"]:
            return _events([json.dumps(reply)])
        return _whole(reply)


Format = Responses | Messages | ChatCompletions | GenerateContent


def read_script(content: Any) -> list[Step]:
    """Return the calls that a message asks for."""
    text = _read_texts(content)
    steps = []
    at = 0
    while found := _SCRIPT.search(text, at):
        arguments, at = json.JSONDecoder().raw_decode(text, found.end())
        steps.append(Step(found[1], arguments))
    return steps


def _read_marker(content: Any) -> str:
    found = _MARKER.search(_read_texts(content))
    return found[1] if found else ""


def _read_texts(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content or [])


def _to_text(output: Any) -> str:
    return output if isinstance(output, str) else json.dumps(output)


def _named_events(events: Iterable[dict[str, Any]]) -> Reply:
    lines = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events]
    return Reply("text/event-stream", "".join(lines).encode())


def _events(lines: Iterable[str]) -> Reply:
    return Reply("text/event-stream", "".join(f"data: {line}\n\n" for line in lines).encode())


def _whole(reply: dict[str, Any]) -> Reply:
    return Reply("application/json", json.dumps(reply).encode())


def _make_id() -> str:
    # Messages with the same id count as one when a conversation is resumed.
    return f"id-{uuid.uuid4()}"
