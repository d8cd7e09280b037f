"""Converts a recorded run to a script that replays it: the responses of each agent's model, in order, once each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator

from pydantic import JsonValue

from teamwright.agents.envelope_note import KEY, note_fields, with_note_block
from teamwright.agents.scripted import Rule, Script, ToolRule
from teamwright.agents.tools.built_in import final_response
from teamwright.history.record.asks import RecordedBodies
from teamwright.history.record.run_record import RunRecord
from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Journal
from teamwright.values.events.agent import (
    AgentAsked,
    AgentCalled,
    AgentCallRejected,
    AgentFailed,
    AgentReplied,
    AgentReturned,
)
from teamwright.values.events.event import Event, fold
from teamwright.values.key import parent_key
from teamwright.values.names import transfer_tool_name
from teamwright.values.specs.tools import TERMINATE

FAILURES = frozenset(("rate_limit", "context_length", "timeout", "server", "refused", "invalid_request"))
ANSWER_TOOL = "final_result"
"""How the name of the tool for structured answers begins; a tool of the agent may be named so too."""


async def to_script(journal: Journal, history: RunHistory) -> Script:
    """Return a script with rules in the order in which turns ended; turns of functions and teams have none."""
    returned = (event.fact for event in history.events if isinstance(event.fact, AgentReturned))
    bodies = RecordedBodies(await journal.bodies({body for fact in returned for body in fact.bodies}))
    return Script(rules=tuple(fold(history.events, _ScriptFold(history.record, bodies)).rules))


class _ScriptFold:
    """Collects the rules of ended turns, and the model responses of open ones."""

    def __init__(self, record: RunRecord, bodies: RecordedBodies) -> None:
        self.rules: list[Rule] = []
        self._record = record
        self._bodies = bodies
        self._responses: defaultdict[str, list[JsonValue]] = defaultdict(list)
        self._model_calls: set[str] = set()
        self._turns_with_calls: set[str] = set()
        self._tools: defaultdict[str, set[str]] = defaultdict(set)
        """The tools that each turn has called, and the agents that it has asked as tools."""

    def apply(self, event: Event) -> None:
        match event.fact:
            case AgentCalled(effect="model"):
                self._model_calls.add(event.key)
                self._turns_with_calls.add(parent_key(event.key))
            case AgentCalled(name=name) | AgentCallRejected(name=name) | AgentAsked(member=name):
                self._tools[self._record.turn_of(event.scope)].add(name)
            case AgentReturned() as fact if event.key in self._model_calls:
                self._responses[self._record.turn_of(event.scope)].append(self._bodies.result(fact))
            case AgentReplied() | AgentFailed() as ending if (
                event.key in self._responses or event.key in self._turns_with_calls
            ):
                member = self._record.asks[event.key].asked.member
                calls = list(self._calls_of(event.key))
                self.rules.extend(_turn_rules(self._record, member, calls, ending))
            case _:
                pass

    def _calls_of(self, turn: str) -> Iterator[ToolRule]:
        """Yield the tool calls in the responses of a turn, without those that give its answer."""
        tools = self._tools.pop(turn, set[str]())
        for response in self._responses.pop(turn, []):
            for call in _tool_calls(response):
                if not call.name.startswith(ANSWER_TOOL) or call.name in tools:
                    yield call


def _turn_rules(
    record: RunRecord, member: str, calls: Iterable[ToolRule], ending: AgentReplied | AgentFailed
) -> Iterator[Rule]:
    """Yield a rule for each tool call of a turn, then one for its reply or failure."""
    transfer = ending.transfer_to if isinstance(ending, AgentReplied) else None
    for tool in calls:
        if tool.name != TERMINATE and not (transfer and tool.name == transfer_tool_name(transfer)):
            yield Rule(agent=member, tool=tool, times=1)
    if isinstance(ending, AgentFailed):
        if ending.error in FAILURES:
            # No bound on `times`: a replay may retry as often as the recorded run did.
            yield Rule.model_validate({"agent": member, "error": ending.error})
        return
    messages = record.bodies.messages(ending.messages)
    text = messages[-1].content if messages else ""
    note = ending.envelope_note if ending.envelope_note and ending.envelope_note.own else None
    if note is not None:
        text = with_note_block(text, note)
    if ending.signal == "terminate":
        args: dict[str, JsonValue] = {"response": text} if final_response({"response": text}) else {}
        yield Rule(agent=member, tool=ToolRule(name=TERMINATE, args=args), times=1)
    elif transfer is not None:
        said: dict[str, JsonValue] = {"message": text} if text else {}
        yield Rule(agent=member, tool=ToolRule(name=transfer_tool_name(transfer), args=said), times=1)
    elif ending.data is not None:
        data = record.bodies.value(ending.data)
        if note is not None and isinstance(data, dict):
            data = {**data, KEY: note_fields(note)}
        yield Rule.model_validate({"agent": member, "json": data, "times": 1})
    else:
        yield Rule(agent=member, reply=text, times=1)


def _tool_calls(response: JsonValue) -> Iterator[ToolRule]:
    """Yield the tool calls in a recorded response, of a script or of pydantic-ai."""
    match response:
        case {"tool": {"name": str(name), "args": dict(args)}}:
            yield ToolRule(name=name, args=args)
        case {"parts": list(parts)}:
            for part in parts:
                match part:
                    case {"part_kind": "tool-call", "tool_name": str(name)}:
                        yield ToolRule(name=name, args=_arguments(part.get("args")))
                    case _:
                        pass
        case _:
            pass


def _arguments(args: JsonValue) -> dict[str, JsonValue]:
    """Parse arguments, which providers send as an object or as JSON text; invalid JSON becomes no arguments."""
    if isinstance(args, str):
        try:
            args = json.loads(args)
        except ValueError:
            return {}
    return args if isinstance(args, dict) else {}
