"""The texts that events refer to by hash, under plain names."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.history.record.asks import RecordedBodies
from teamwright.values.events import agent
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAsked, RunEnded, RunStarted
from teamwright.values.key import is_request

Texts = dict[str, JsonValue]
"""The texts of an event by name; arguments and data are JSON values."""


def bodies_of(event: Event) -> Iterator[agent.Body]:
    """The hashes of the texts that an event refers to."""
    match event.fact:
        case RunStarted() as fact:
            yield from (fact.task, fact.manifest, *(ref.body for ref in fact.history))
        case agent.AgentReplied() as fact:
            yield from (ref.body for ref in fact.messages)
            yield from [fact.data] if fact.data is not None else ()
            yield from fact.tool_bodies
        case agent.AgentFailed() as fact:
            yield from (ref.body for ref in fact.messages)
        case agent.AgentReturned() as fact:
            yield from fact.bodies
        case _:
            yield from _named(event).values()


def texts_of(event: Event, bodies: RecordedBodies) -> Texts:
    """The texts that an event refers to, by name; an event that refers to none has none."""
    match event.fact:
        case RunStarted() as fact:
            task, manifest = bodies.value(fact.task), bodies.value(fact.manifest)
            return {"task": task, "manifest": manifest, "history": _messages(fact.history, bodies)}
        case agent.AgentReplied(data=data, messages=messages):
            found: Texts = {"messages": _messages(messages, bodies)}
            return found if data is None else {**found, "data": bodies.value(data)}
        case agent.AgentFailed(messages=messages):
            return {"messages": _messages(messages, bodies)}
        case agent.AgentReturned() as fact:
            return _result(event.place, bodies.result(fact))
        case agent.AgentCallRejected(arguments=arguments):
            return {"arguments": _arguments(bodies.value(arguments))}
        case _:
            return {name: bodies.value(body) for name, body in _named(event).items()}


def _named(event: Event) -> dict[str, agent.Body]:
    """The hashes of an event whose fields hold one text each."""
    match event.fact:
        case RunEnded(output=output, data=data):
            named = {"output": output, "data": data}
        case agent.AgentAsked(task=task):
            named = {"task": task}
        case agent.AgentCalled(arguments=arguments) | agent.AgentCallRejected(arguments=arguments):
            named = {"arguments": arguments}
        case agent.AgentCompacted(summary=summary):
            named = {"summary": summary}
        case PersonAsked(draft=draft):
            named = {"draft": draft}
        case agent.WorkspaceWritten(body=body) | agent.WorkspaceConflicted(body=body):
            named = {"value": body}
        case agent.WorkspaceKept(artifact=artifact):
            named = {"content": artifact.hash}
        case agent.WorkspacePatched(patch=patch) | agent.WorkspaceRefused(patch=patch):
            named = {"patch": patch.hash}
        case _:
            named = {}
    return {name: body for name, body in named.items() if body is not None}


def _messages(refs: tuple[agent.MessageRef, ...], bodies: RecordedBodies) -> JsonValue:
    return [{"name": one.name, "role": one.role, "content": one.content} for one in bodies.messages(refs)]


def _arguments(written: JsonValue) -> JsonValue:
    """Arguments as a model wrote them: decoded, or the text if it is no JSON."""
    try:
        return from_json(written) if isinstance(written, str) else written
    except ValueError:
        return written


def _result(place: str, value: JsonValue) -> Texts:
    """The result of a call; the response of a model is divided into its parts."""
    parts = value.get("parts") if isinstance(value, dict) and is_request(place) else None
    if not isinstance(parts, list):
        return {"response" if is_request(place) else "result": value}
    known = [part for part in parts if isinstance(part, dict)]
    thinking = [str(part.get("content")) for part in known if part.get("part_kind") == "thinking"]
    calls: list[JsonValue] = [
        {"tool": part.get("tool_name"), "arguments": _arguments(part.get("args"))}
        for part in known
        if part.get("part_kind") == "tool-call"
    ]
    found: Texts = {"response": "".join(str(part.get("content")) for part in known if part.get("part_kind") == "text")}
    if any(thinking):
        found["thinking"] = "\n\n".join(thinking)
    if calls:
        found["calls"] = calls
    return found
