"""The events of a run as those of AG-UI: a fold over its page events, in which secrets are masked already.

Each time the run has waited for people, a segment of it begins: a client gets the segment that its request began. What
is recorded always yields the same events. Pieces of what is being written come on top, and the record completes them.
Nothing of a message can be taken back, so that what a record may leave out of a text is held back: blanks around it,
and the envelope that a member writes below its answer for the others.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, assert_never

import msgspec

from teamwright.server.frames import Frame, WithheldEnding
from teamwright.server.page.page_events import (
    PageAnswer,
    PageDelta,
    PageExpertResult,
    PageExpertStep,
    PageFailure,
    PagePlanUpdate,
    PageQuestion,
    PageRun,
    PageStep,
    PageTeamDissolved,
    PageTeamFormed,
    PageThinking,
    PageToolCall,
    PageToolResult,
)
from teamwright.server.questions import interrupt_of
from teamwright.values.run_keys import in_scope, nearest_key
from teamwright.values.turns.results import FOR_PEOPLE

if TYPE_CHECKING:
    from teamwright.values.value import JsonValue


Json = dict[str, Any]


class ToolCallEvents:
    """The calls of a run that have not returned; `new_id` names a call."""

    def __init__(self, new_id: Callable[[str], str]) -> None:
        self._new_id = new_id
        self._open: dict[str, str] = {}

    def apply(self, shown: PageToolCall | PageToolResult, turn: SubagentTurn | None) -> Iterator[Json]:
        """Yield what a call, or its result, becomes."""
        tag = {} if turn is None else {"subagentRunId": turn.id}
        yield from self._called(shown, tag) if isinstance(shown, PageToolCall) else self._returned(shown, tag)

    def _called(self, shown: PageToolCall, tag: Json) -> Iterator[Json]:
        if shown.method or shown.key in self._open:  # no tool is called, or the same again
            return
        self._open[shown.key] = made = self._new_id(shown.key)
        call = {"toolCallId": made, **tag}
        arguments = shown.arguments if isinstance(shown.arguments, str) else json.dumps(shown.arguments or {})
        yield {"type": "TOOL_CALL_START", **call, "toolCallName": shown.tool}
        yield {"type": "TOOL_CALL_ARGS", **call, "delta": arguments}
        yield {"type": "TOOL_CALL_END", **call}

    def _returned(self, shown: PageToolResult, tag: Json) -> Iterator[Json]:
        if shown.retry_in is not None or (made := self._open.pop(shown.key, None)) is None:
            return
        result: JsonValue = shown.result
        if shown.failure is not None:
            result = f"{shown.failure.error}: {shown.failure.message}"
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        name = self._new_id(f"{shown.key}:result")
        yield {"type": "TOOL_CALL_RESULT", "messageId": name, "toolCallId": made, "content": text, **tag}


@dataclass(slots=True)
class _ShownPlan:
    content: Json
    is_known: bool = False
    """Whether the stream has it, so that a change of it can follow."""


class PlanActivities:
    """The plans of the teams of a run, as activities that are replaced and amended."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._plans: dict[str, _ShownPlan] = {}

    def forget(self) -> None:
        """Let the next change of a plan show all of it, because another stream begins."""
        for plan in self._plans.values():
            plan.is_known = False

    def apply(self, shown: PagePlanUpdate | PageStep) -> Iterator[Json]:
        """Yield what a plan, or a change of a step, becomes."""
        yield from self._planned(shown) if isinstance(shown, PagePlanUpdate) else self._step(shown)

    def _planned(self, shown: PagePlanUpdate) -> Iterator[Json]:
        if not shown.steps and shown.scope not in self._plans:
            return
        steps = [
            {"id": one.id, "name": one.name, "task": one.task, "assignees": [*one.assignees], "needs": [*one.needs]}
            | {"state": one.state}
            for one in shown.steps
        ]
        self._plans[shown.scope] = _ShownPlan({"version": shown.version, "status": shown.status, "steps": steps})
        yield self._snapshot(shown.scope)

    def _snapshot(self, scope: str) -> Json:
        plan = self._plans[scope]
        plan.is_known = True
        return {"type": "ACTIVITY_SNAPSHOT", **self._head(scope), "content": plan.content}

    def _head(self, scope: str) -> Json:
        return {"messageId": f"{self._run_id}:plan:{scope}", "activityType": "PLAN"}

    def _step(self, shown: PageStep) -> Iterator[Json]:
        plan = self._plans.get(shown.scope)
        steps: list[Json] = [] if plan is None else plan.content["steps"]
        place = next((place for place, one in enumerate(steps) if one["id"] == shown.step), None)
        if plan is None or place is None:
            return
        steps = [*steps[:place], {**steps[place], "state": shown.state}, *steps[place + 1 :]]
        plan.content = {**plan.content, "steps": steps}
        if not plan.is_known:
            yield self._snapshot(shown.scope)
            return
        patch = [{"op": "replace", "path": f"/steps/{place}/state", "value": shown.state}]
        yield {"type": "ACTIVITY_DELTA", **self._head(shown.scope), "patch": patch}


MessageForm = Literal["TEXT", "REASONING"]


@dataclass(slots=True)
class Writing:
    """A message that is open: `owner` is the subagent that writes it, `None` for the answer of the team."""

    id: str
    owner: str | None
    form: MessageForm
    text: str = ""
    ending: WithheldEnding = field(default_factory=WithheldEnding)

    def start(self, name: str = "") -> Iterator[Json]:
        """Yield what opens the message."""
        tag = {} if self.owner is None else {"subagentRunId": self.owner}
        if self.form == "REASONING":
            yield {"type": "REASONING_START", "messageId": self.id, **tag}
            yield {"type": "REASONING_MESSAGE_START", "messageId": self.id, "role": "reasoning", **tag}
            return
        said = {"name": name} if name else {}
        yield {"type": "TEXT_MESSAGE_START", "messageId": self.id, "role": "assistant", **said, **tag}

    def add(self, text: str) -> Iterator[Json]:
        """Yield a part of the message as it is."""
        if text:
            self.text += text
            kind = "TEXT_MESSAGE" if self.form == "TEXT" else "REASONING_MESSAGE"
            yield {"type": f"{kind}_CONTENT", "messageId": self.id, "delta": text}

    def feed(self, piece: str) -> Iterator[Json]:
        """Yield what a piece adds to the message, but for what may not stay."""
        shown = self.ending.pass_on(piece)
        yield from self.add(shown if self.text else shown.lstrip())

    def end(self) -> Iterator[Json]:
        """Yield what closes the message."""
        if self.form == "TEXT":
            yield {"type": "TEXT_MESSAGE_END", "messageId": self.id}
            return
        yield {"type": "REASONING_MESSAGE_END", "messageId": self.id}
        yield {"type": "REASONING_END", "messageId": self.id}

    def rest_of(self, text: str) -> str | None:
        """Return what follows of a recorded text; `None` if another one was written."""
        if text.lstrip().startswith(self.text):
            return text.lstrip()[len(self.text) :] if self.text else text
        return "" if text.strip() and self.text.startswith(text.strip()) else None


@dataclass(slots=True)
class SubagentTurn:
    """A turn of a member, or a nested team, which is a subagent of the run."""

    key: str
    name: str
    form: MessageForm
    id: str = ""
    is_answer: bool = False
    open: dict[str, Writing] = field(default_factory=dict[str, Writing])


Shown = (
    PageRun | PageTeamFormed | PageTeamDissolved | PageExpertStep | PageExpertResult | PageToolCall | PageToolResult
    | PageThinking | PagePlanUpdate | PageStep | PageQuestion | PageAnswer | PageDelta
)  # fmt: skip
KINDS = frozenset(
    ("run", "team_formed", "team_dissolved", "expert_step", "expert_result", "tool_call", "tool_result", "thinking",
     "plan_update", "step", "question", "answer", "delta")
)  # fmt: skip
"""The page events that become events of AG-UI; the others show details of the page."""
decode = msgspec.json.Decoder(Shown).decode
ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class SegmentEnding:
    """How a segment ended: with interrupts, or with the run."""

    number: int
    interrupts: tuple[Json, ...] = ()
    run: PageRun | None = None


class RunProjection:
    """Folds the page events of one run. `last` names the member whose reply is the answer as it is written.

    `again` distinguishes the reasoning of a stream that is read again, since clients add to what they have of it.
    """

    def __init__(self, run_id: str, last: str | None, again: int = 0) -> None:
        self._run_id, self._last, self._again = run_id, last, f":{again}" if again else ""
        self.start = 0
        """The event with which the present segment began; 0 for the first."""
        self.ending: SegmentEnding | None = None
        """How the segment ended with the last page event, if it did."""
        self._root: str | None = None
        self._members: dict[str, SubagentTurn] = {}
        self._calls = ToolCallEvents(lambda name: self._new_id(f"{self.segment}{name}"))
        self._plans = PlanActivities(run_id)
        self._questions: dict[str, PageQuestion] = {}
        self._ids: Counter[str] = Counter()
        self._answer: Writing | None = None
        self._has_answered = False

    def apply(self, frame: Frame) -> list[Json]:
        """Return the events that a page event becomes."""
        self.ending = None
        return list(self._events(decode(frame.text))) if frame.kind in KINDS else []

    def opening(self) -> list[Json]:
        """Return what begins a segment: the members that were at work when the run began to wait."""
        return [event for one in self._members.values() for event in self._announce(one)]

    def _events(self, shown: Shown) -> Iterator[Json]:
        match shown:
            case PageTeamFormed() | PageTeamDissolved() | PageExpertStep() | PageExpertResult():
                yield from self._member(shown)
            case PageToolCall() | PageToolResult():
                yield from self._calls.apply(shown, self._members.get(shown.turn))
            case PageThinking(turn=turn, part=part, text=text):
                yield from self._say(self._members.get(turn), part, text)
            case PageDelta():
                yield from self._piece(shown)
            case PagePlanUpdate() | PageStep():
                yield from self._plans.apply(shown)
            case PageQuestion():
                self._questions[shown.key] = shown
            case PageAnswer():
                self._questions.pop(shown.key, None)
            case PageRun():
                events, self.ending = self._run(shown)
                yield from events
            case _:
                assert_never(shown)

    def _member(self, shown: PageTeamFormed | PageTeamDissolved | PageExpertStep | PageExpertResult) -> Iterator[Json]:
        match shown:
            case PageTeamFormed():
                yield from self._formed(shown)
            case PageTeamDissolved(failure=failure):
                yield from self._left(shown.scope, failure)
            case PageExpertStep():
                yield from self._asked(shown)
            case PageExpertResult():
                yield from self._replied(shown)
            case _:
                assert_never(shown)

    # Members

    def _formed(self, shown: PageTeamFormed) -> Iterator[Json]:
        if self._root is None:
            self._root = shown.scope
        elif shown.scope not in self._members and shown.scope != self._root:
            yield from self._begin(SubagentTurn(shown.scope, shown.team, "TEXT"))

    def _asked(self, shown: PageExpertStep) -> Iterator[Json]:
        name = shown.expert.name if shown.expert is not None else ""
        is_answer = name == self._last and shown.scope == self._root and not self._has_answered
        form: MessageForm = "TEXT" if shown.purpose == "work" else "REASONING"
        yield from self._begin(SubagentTurn(shown.key, name, form, is_answer=is_answer))

    def _begin(self, member: SubagentTurn) -> Iterator[Json]:
        member.id = self._new_id(f"{self._run_id}:{member.key}")
        yield from self._left(member.key, None)
        self._members[member.key] = member
        yield from self._announce(member)

    def _announce(self, member: SubagentTurn) -> Iterator[Json]:
        around = self._around(member.key.rpartition("/")[0])
        started: Json = {"type": "SUBAGENT_STARTED", "subagentRunId": member.id, "name": member.name}
        if around is not None:
            started["parentSubagentRunId"] = around.id
        yield started
        yield {"type": "STEP_STARTED", "stepName": member.name, "subagentRunId": member.id}

    def _around(self, key: str) -> SubagentTurn | None:
        """The innermost member at work at or around a place."""
        return self._members.get(nearest_key(key, self._members))

    def _replied(self, shown: PageExpertResult) -> Iterator[Json]:
        member = self._members.get(shown.key)
        yield from self._say(member, "text", shown.text)
        yield from self._left(shown.key, shown.failure)

    def _left(self, key: str, failure: PageFailure | None) -> Iterator[Json]:
        """Close a member, and first what is still open inside of it."""
        for one in [one for one in self._questions if in_scope(one, key)]:
            del self._questions[one]
        for member in [one for one in reversed(self._members.values()) if in_scope(one.key, key)]:
            yield from self._close(member)
            if failure is None:
                yield {"type": "SUBAGENT_FINISHED", "subagentRunId": member.id, "outcome": {"type": "success"}}
            else:
                error = {"message": failure.message, "code": failure.error}
                yield {"type": "SUBAGENT_ERROR", "subagentRunId": member.id, **error}
            del self._members[member.key]

    def _close(self, member: SubagentTurn) -> Iterator[Json]:
        for writing in member.open.values():
            if writing is not self._answer:
                yield from writing.end()
        member.open.clear()
        yield {"type": "STEP_FINISHED", "stepName": member.name, "subagentRunId": member.id}

    def _new_id(self, name: str) -> str:
        """Return an id that no entity of the run has had."""
        self._ids[name] += 1
        return name if self._ids[name] == 1 else f"{name}~{self._ids[name]}"

    @property
    def segment(self) -> str:
        """What the ids of all messages of the present segment begin with."""
        return f"{self._run_id}.{self.start}:" if self.start else f"{self._run_id}:"

    # What members write

    def _piece(self, shown: PageDelta) -> Iterator[Json]:
        member = self._around(shown.key)
        if member is None or shown.part == "arguments":
            return
        if shown.offset == 0:
            yield from self._break_off(member, shown.part)
            writing = self._open(member, shown.part)
            yield from writing.start(member.name)
        elif (known := member.open.get(shown.part)) is None:
            return
        else:
            writing = known
        yield from writing.feed(shown.text)

    def _break_off(self, member: SubagentTurn, part: str) -> Iterator[Json]:
        """Close what an attempt wrote that is repeated: a message can't be taken back, so another one follows."""
        writing = member.open.pop(part, None)
        if writing is None:
            return
        yield from writing.end()
        if writing is self._answer:
            self._answer, member.is_answer = None, False

    def _open(self, member: SubagentTurn, part: str) -> Writing:
        form: MessageForm = "REASONING" if part == "thinking" else member.form
        if member.is_answer and form == "TEXT":
            writing = Writing(self._new_id(f"{self.segment}{ANSWER}"), None, form)
            self._answer, self._has_answered = writing, True
        else:
            mark = self._again if form == "REASONING" else ""
            writing = Writing(self._new_id(f"{self.segment}{member.key}:{part}{mark}"), member.id, form)
        member.open[part] = writing
        return writing

    def _say(self, member: SubagentTurn | None, part: str, text: str) -> Iterator[Json]:
        """Complete what was written of a recorded text, or write all of it."""
        if member is None:
            return
        writing = member.open.pop(part, None)
        rest = None if writing is None else writing.rest_of(text)
        if writing is not None and rest is not None:
            yield from writing.add(rest)
            if writing is not self._answer:
                yield from writing.end()
            return
        if writing is not None:
            member.open[part] = writing
            yield from self._break_off(member, part)
        if text.strip():
            writing = self._open(member, part)
            yield from writing.start(member.name)
            yield from writing.add(text)
            del member.open[part]
            if writing is not self._answer:
                yield from writing.end()

    def _conclude(self, output: str) -> Iterator[Json]:
        """Complete the answer of the team."""
        writing, self._answer = self._answer, None
        rest = None if writing is None else writing.rest_of(output)
        if writing is not None:
            yield from writing.add(rest or "")
            yield from writing.end()
        if rest is None and output.strip():
            made = Writing(self._new_id(f"{self.segment}{ANSWER}"), None, "TEXT")
            yield from made.start()
            yield from made.add(output)
            yield from made.end()

    # The run

    def _run(self, shown: PageRun) -> tuple[list[Json], SegmentEnding | None]:
        if shown.state == "ended":
            events = [*self._left("", PageFailure(error="stopped", message="the run ended"))]
            answers = shown.status in {"completed", "degraded"}
            return [*events, *self._conclude(shown.output if answers else "")], SegmentEnding(shown.number, run=shown)
        if shown.state != "paused" or shown.reason not in FOR_PEOPLE:
            return [], None
        waiting = [one for key, one in self._questions.items() if key in shown.waiting_for]
        if not waiting:
            return [], None
        owners = {one.key: self._members.get(one.turn) for one in waiting}
        interrupts = [self._interrupt(one, owners[one.key]) for one in waiting]
        events = [event for one in reversed(self._members.values()) for event in self._suspend(one, interrupts)]
        if self._answer is not None:
            events += self._answer.end()
        self._answer, self._has_answered = None, False
        self._begin_segment(shown.number)
        return events, SegmentEnding(shown.number, tuple(interrupts))

    def _interrupt(self, question: PageQuestion, owner: SubagentTurn | None) -> Json:
        found = interrupt_of(self._run_id, question)
        return found if owner is None else {**found, "subagentRunId": owner.id}

    def _suspend(self, member: SubagentTurn, interrupts: Iterable[Json]) -> Iterator[Json]:
        """Close a member for now; the next segment announces it again."""
        yield from self._close(member)
        outcome: Json = {"type": "suspended"}
        if own := [one["id"] for one in interrupts if one.get("subagentRunId") == member.id]:
            outcome["interruptIds"] = own
        yield {"type": "SUBAGENT_FINISHED", "subagentRunId": member.id, "outcome": outcome}

    def _begin_segment(self, number: int) -> None:
        self.start = number
        self._plans.forget()
