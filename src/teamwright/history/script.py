"""Writes a real run as a script that replays it: for each agent, what its model said, in order and once each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from teamwright.agents.handoff import KEY, fields_of, written
from teamwright.agents.scripted.agent import Rule, Script, ToolRule
from teamwright.agents.tools.terminate import final_response
from teamwright.history.history import RunHistory
from teamwright.history.record.run_record import RunRecord
from teamwright.journal.decoder import decode_body
from teamwright.journal.protocol import Journal
from teamwright.values.events.agent import AgentCalled, AgentFailed, AgentReplied, AgentReturned
from teamwright.values.events.body import Body
from teamwright.values.events.event import Event
from teamwright.values.events.fold import fold
from teamwright.values.key import parent_key
from teamwright.values.specs.manifest import TERMINATE

FAILURES = frozenset(("rate_limit", "context_length", "timeout", "server", "refused"))
OUTPUT_TOOL = "final_result"
"""What pydantic-ai calls the tool through which a model hands over structured output."""


async def to_script(journal: Journal, history: RunHistory) -> Script:
    """Return the rules in the order in which the turns ended; a turn of a function or a team makes none."""
    bodies = await journal.bodies({e.fact.body for e in history.events if isinstance(e.fact, AgentReturned)})
    return Script(rules=tuple(fold(history.events, _ScriptFold(history.record, bodies)).rules))


class _ScriptFold:
    """The rules of the turns that have ended, and what models said in those that have not."""

    def __init__(self, record: RunRecord, bodies: Mapping[Body, str]) -> None:
        self.rules: list[Rule] = []
        self._record = record
        self._bodies = bodies
        self._responses: defaultdict[str, list[JsonValue]] = defaultdict(list)
        self._model_calls: set[str] = set()

    def apply(self, event: Event) -> None:
        """Apply one event."""
        match event.fact:
            case AgentCalled(effect="model"):
                self._model_calls.add(event.key)
            case AgentReturned(body=body) if event.key in self._model_calls:
                self._responses[self._record.turn_of(event.scope)].append(decode_body(self._bodies[body]))
            case AgentReplied() | AgentFailed() as ending if self._responses[event.key] or self._called(event.key):
                member = self._record.asks[event.key].asked.member
                self.rules.extend(_turn_rules(self._record, member, self._responses.pop(event.key, []), ending))
            case _:
                pass

    def _called(self, turn: str) -> bool:
        return any(parent_key(call) == turn for call in self._model_calls)


def _turn_rules(
    record: RunRecord, member: str, responses: list[JsonValue], ending: AgentReplied | AgentFailed
) -> Iterator[Rule]:
    """The tools that were called on the way, then what the turn came to."""
    for response in responses:
        for tool in _tool_calls(response):
            if tool.name != TERMINATE:
                yield Rule(agent=member, tool=tool, times=1)
    if isinstance(ending, AgentFailed):
        if ending.error in FAILURES:
            # Without a bound, since whoever replays it may try again as often as the real run did.
            yield Rule.model_validate({"agent": member, "error": ending.error})
        return
    messages = record.bodies.messages(ending.messages)
    text = messages[-1].content if messages else ""
    handover = ending.handoff if ending.handoff and ending.handoff.own else None
    if handover is not None:
        text = written(text, handover)
    if ending.signal == "terminate":
        args: dict[str, JsonValue] = {"response": text} if final_response({"response": text}) else {}
        yield Rule(agent=member, tool=ToolRule(name=TERMINATE, args=args), times=1)
    elif ending.data is not None:
        data = record.bodies.value(ending.data)
        if handover is not None and isinstance(data, dict):
            data = {**data, KEY: fields_of(handover)}
        yield Rule.model_validate({"agent": member, "json": data, "times": 1})
    else:
        yield Rule(agent=member, reply=text, times=1)


def _tool_calls(response: JsonValue) -> Iterator[ToolRule]:
    """The tool calls in a recorded response, of a script or of pydantic-ai."""
    match response:
        case {"tool": {"name": str(name), "args": dict(args)}}:
            yield ToolRule(name=name, args=args)
        case {"parts": list(parts)}:
            for part in parts:
                match part:
                    case {"part_kind": "tool-call", "tool_name": str(name)} if not name.startswith(OUTPUT_TOOL):
                        yield ToolRule(name=name, args=_arguments(part.get("args")))
                    case _:
                        pass
        case _:
            pass


def _arguments(args: JsonValue) -> dict[str, JsonValue]:
    """Providers send arguments as an object or as JSON text; text that is none becomes no arguments."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return {}
    return args if isinstance(args, dict) else {}
