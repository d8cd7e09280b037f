"""Recorded asks: requests, attempts and outcomes, the texts that they refer to by hash, and the asks that a fork has
superseded.

A fork makes an ask again, as a further attempt, when its member or its turn differs from the inherited record. On any
run a further attempt may also follow a failure (a fallback, a shorter context, a retry); that failure still counts.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

from pydantic import JsonValue
from pydantic_core import from_json

from teamwright.agents.effect import Returned
from teamwright.errors import AgentError, JournalCorrupt, LimitReached
from teamwright.journal.codec import decode_body
from teamwright.values.events import agent
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCallFailed,
    AgentFailed,
    AgentReplied,
    AgentReturned,
    Body,
    MessageRef,
    TextRef,
    ToolUseRef,
)
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAsked, RunEnded, RunStarted
from teamwright.values.limits import refusal_text
from teamwright.values.retries import recorded_error
from teamwright.values.run_keys import is_request, parent_keys, split_attempt, with_attempt
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Reply, ToolUse
from teamwright.values.usage_and_prices import NOTHING, ONE_CALL, Cost, Usage

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


@dataclass(slots=True)
class RecordedAsk:
    """One ask and its ending, if it has one."""

    asked: AgentAsked
    time: float
    number: int
    ending: AgentReplied | AgentFailed | None = None

    @property
    def is_team(self) -> bool:
        return self.asked.member_kind == "team"

    @property
    def is_cancelled(self) -> bool:
        """Whether it was cancelled; the decision to do so is another event."""
        return isinstance(self.ending, AgentFailed) and self.ending.error == "cancelled"


@dataclass(slots=True)
class RecordedCall:
    """The attempts of one effect."""

    request: str
    attempts: int = 0
    failures: int = 0
    in_doubt: bool = False
    reserved: Cost = ONE_CALL
    retry_at: float | None = None
    retry_in: float = 0.0
    outcome: AgentReturned | AgentCallFailed | BudgetRefused | None = None
    began: int = 0
    ended: float = inf
    """The numbers of its first event and of the one with its outcome."""
    usage: Usage = NOTHING
    """What had arrived of replies that broke off."""
    outlasted: float = 0.0
    """Seconds that the call has left its provider alone so far; such failures are not counted."""


Recovered = tuple[str, str, str]
"""The scope in which an ask failed, its error, and the member that was asked next."""


def superseded_asks(
    asks: Mapping[str, RecordedAsk], recovered: Collection[Recovered], inherited: int
) -> frozenset[str]:
    """Return the keys of the asks that a further attempt supersedes; only asks up to event `inherited` can be."""
    superseded: set[str] = set()
    for key, ask in asks.items():
        first, this = split_attempt(key)
        last = this - 1
        for attempt in range(last, 0, -1):
            place = with_attempt(first, attempt)
            before = asks[place]
            # A recovery attempt comes right after the failure, or after another fallback that failed.
            near = attempt == last or before.asked.digest == ask.asked.digest
            if before.number > inherited or (near and _follows(before, ask, first, recovered)):
                break
            superseded.add(place)
    return frozenset(superseded)


def _follows(before: RecordedAsk, ask: RecordedAsk, key: str, recovered: Collection[Recovered]) -> bool:
    """Whether an attempt was made because the previous one had failed."""
    if not isinstance(before.ending, AgentFailed):
        return False
    if (before.asked.member, before.asked.digest) == (ask.asked.member, ask.asked.digest):
        return True
    return any((scope, before.ending.error, ask.asked.member) in recovered for scope in parent_keys(key))


CONTENT: Final = "content"
SHORTEST_APART: Final = 100
"""The characters of the shortest text that is stored apart from the value around it: a reference takes as many."""
Know = Callable[[str, Body], None]
"""Called with each text and its body."""


@dataclass(slots=True)
class RecordedBodies:
    """The bodies of a run, read from its journal, by hash."""

    texts: Mapping[Body, str] = field(default_factory=dict[Body, str])

    def value(self, body: Body) -> JsonValue:
        """Decode a body; raises `JournalCorrupt` where it is missing."""
        if body not in self.texts:
            raise JournalCorrupt(f"The body {body!r} is missing from the journal; restore it from a backup.")
        return decode_body(self.texts[body])

    def result(self, fact: AgentReturned) -> JsonValue:
        """Decode the value of an effect, with its texts in their places."""
        value = self.value(fact.body)
        for ref in fact.texts:
            found: Any = value
            try:
                for step in ref.path[:-1]:
                    found = found[step]
                around = found[ref.path[-1]]
                found[ref.path[-1]] = around[: ref.at] + self.value(ref.body) + around[ref.at :]
            except (LookupError, TypeError) as error:
                raise JournalCorrupt(
                    f"The body {fact.body!r} has no place {ref.path!r} for a text; restore it from a backup."
                ) from error
        return value

    def tool_use(self, ref: ToolUseRef) -> ToolUse:
        """Decode the tool call behind a reference."""
        arguments, result = str(self.value(ref.arguments)), str(self.value(ref.result))
        return ToolUse(tool=ref.tool, arguments=arguments, result=result, failed=ref.failed)

    def messages(self, refs: Collection[MessageRef], know: Know | None = None) -> tuple[Message, ...]:
        """Decode the messages behind references."""
        found: list[Message] = []
        for ref in refs:
            content = str(self.value(ref.body))
            if know is not None:
                know(content, ref.body)
            role = ref.role or "assistant"
            found.append(Message(name=ref.name, content=content, role=role, attachments=ref.attachments))
        return tuple(found)


def texts_apart(
    value: JsonValue, place: tuple[str, ...], store: Callable[[str], Body], *, strips: bool = False
) -> tuple[JsonValue, tuple[TextRef, ...]]:
    """Store the longer contents of a list at this place in a value, and return the value without them.

    It is the inverse of `RecordedBodies.result`. The value itself is not changed. Where the reply of the turn `strips`
    texts, they are stored without the white space around them, so that both refer to one body.
    """
    *outer, last = place
    whole = dict(value) if isinstance(value, dict) else {}
    inner = whole
    for name in outer:
        found = inner.get(name)
        inner[name] = inner = dict(found) if isinstance(found, dict) else {}
    items = inner.get(last)
    if not isinstance(items, list):
        return value, ()
    kept: list[JsonValue] = []
    texts: list[TextRef] = []
    for index, item in enumerate(items):
        content = item.get(CONTENT) if isinstance(item, dict) and item.get("part_kind", "text") == "text" else None
        if isinstance(item, dict) and isinstance(content, str) and len(content) >= SHORTEST_APART:
            text = content.strip() if strips else content
            at = content.find(text)
            texts.append(TextRef(path=(*place, index, CONTENT), body=store(text), at=at))
            kept.append({**item, CONTENT: content[:at] + content[at + len(text) :]})
        else:
            kept.append(item)
    inner[last] = kept
    return (whole, tuple(texts)) if texts else (value, ())


def recorded_reply(ask: RecordedAsk, bodies: RecordedBodies, know: Know) -> Reply | Failure:
    """Rebuild the reply or failure of an ask that has ended."""
    match ask.ending:
        case AgentReplied() as said:
            return Reply(
                messages=bodies.messages(said.messages, know),
                data=bodies.value(said.data) if said.data else None,
                usage=said.usage,
                signal=said.signal,
                stop_reason=said.stop_reason,
                truncated=said.truncated,
                warnings=said.warnings,
                artifacts=said.artifacts,
                envelope_note=said.envelope_note,
                transfer_to=said.transfer_to,
                tool_uses=tuple(map(bodies.tool_use, said.tool_uses)) if said.tool_uses else (),
            )
        case AgentFailed() as failed:
            return Failure(
                member=failed.path or failed.member,
                error=failed.error,
                message=failed.message,
                messages=bodies.messages(failed.messages, know),
                data=bodies.value(failed.data) if failed.data else None,
                warnings=failed.warnings,
            )
        case None:
            raise AssertionError("only an ask that has ended has a reply")


def recorded_result(call: RecordedCall, bodies: RecordedBodies) -> Returned:
    """Rebuild the result of an effect, or raise the error that it failed with."""
    match call.outcome:
        case AgentReturned() as fact:
            return Returned(
                bodies.result(fact),
                fact.usage,
                fact.mark,
                fact.truncated,
                fact.form,
                fact.capped,
                artifacts=fact.artifacts,
                partial_usage=fact.partial_usage,
                tally=fact.tally,
            )
        case AgentCallFailed() as fact:
            raise recorded_error(fact.error, fact.message)
        case BudgetRefused() as fact:
            raise LimitReached(
                refusal_text(fact.level, fact.what, fact.needed, fact.left, fact.limit, fact.kept, fact.why)
            )
        case None:
            raise AgentError("the effect has no outcome yet")
