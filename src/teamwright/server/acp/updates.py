"""A run as the updates of a session: a fold over its page events, in which secrets are masked already.

The answer of the team is what the agent says, and what its members write on the way is what it thinks. Steps of plans
are the entries of the agent's plan.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from teamwright.agents.acp.connection import Json
from teamwright.server.agui.projection import RunProjection, SegmentEnding, decode
from teamwright.server.frames import Frame
from teamwright.server.page.page_events import (
    PagePlanUpdate,
    PageRun,
    PageStep,
    PageToolCall,
    PageToolResult,
    StepState,
)
from teamwright.values.text.display import cut

TOOL_KINDS = {
    "read_file": "read", "list_files": "search", "search_files": "search", "write_file": "edit", "edit_file": "edit",
    "run_command": "execute", "read_value": "read", "recall": "read",
}  # fmt: skip
"""The kinds of calls that editors show in ways of their own."""
LONGEST_TITLE, LONGEST_RESULT = 120, 20_000


def said(kind: str, text: str) -> Json:
    """Return an update that is a piece of text."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


class RunUpdates:
    """The updates of one run; `ending` says how the present part of it ended with the last page event."""

    def __init__(self, run_id: str, last: str | None) -> None:
        self._projection = RunProjection(run_id, last)
        self._thoughts: set[str] = set()
        self._plans: dict[str, dict[str, tuple[str, StepState]]] = {}
        self._entries: list[Json] = []

    @property
    def start(self) -> int:
        """The event with which the present part of the run began; 0 for the first."""
        return self._projection.start

    @property
    def ending(self) -> SegmentEnding | None:
        return self._projection.ending

    def apply(self, frame: Frame) -> list[Json]:
        """Return the updates that a page event becomes."""
        match frame.kind:
            case "tool_call" | "tool_result":
                self._projection.apply(frame)
                return list(self._called(decode(frame.text)))
            case "plan_update" | "step":
                return list(self._planned(decode(frame.text)))
            case "run":
                told = self._told(self._projection.apply(frame))
                return [*told, *self._held(decode(frame.text))]
            case _:
                return list(self._told(self._projection.apply(frame)))

    def _held(self, shown: object) -> Iterator[Json]:
        """Say that the run waits for something else than people, such as its provider."""
        if isinstance(shown, PageRun) and shown.state == "paused" and self.ending is None:
            yield said(
                "agent_thought_chunk", f"\n\nThe run is paused ({shown.reason}), and goes on by itself or by hand."
            )

    def _told(self, events: Iterable[dict[str, Any]]) -> Iterator[Json]:
        for event in events:
            match event["type"]:
                case "TEXT_MESSAGE_START" if "subagentRunId" in event:
                    self._thoughts.add(event["messageId"])
                    yield said("agent_thought_chunk", f"\n\n{event.get('name', '')}: ")
                case "TEXT_MESSAGE_CONTENT":
                    is_thought = event["messageId"] in self._thoughts
                    yield said("agent_thought_chunk" if is_thought else "agent_message_chunk", event["delta"])
                case "REASONING_MESSAGE_CONTENT":
                    yield said("agent_thought_chunk", event["delta"])
                case _:
                    continue

    def _called(self, shown: object) -> Iterator[Json]:
        match shown:
            case PageToolCall(method="") if shown.attempt == 1:
                yield {
                    "sessionUpdate": "tool_call",
                    "toolCallId": shown.key,
                    "title": title_of(shown),
                    "kind": TOOL_KINDS.get(shown.tool, "other"),
                    "status": "in_progress",
                    "rawInput": shown.arguments,
                }
            case PageToolResult(retry_in=None):
                text = shown.result if isinstance(shown.result, str) else json.dumps(shown.result, ensure_ascii=False)
                if shown.failure is not None:
                    text = f"{shown.failure.error}: {shown.failure.message}"
                content: Json = {"type": "content", "content": {"type": "text", "text": cut(text, LONGEST_RESULT)}}
                status = "completed" if shown.failure is None else "failed"
                update: Json = {"sessionUpdate": "tool_call_update", "toolCallId": shown.key, "status": status}
                whole: Json = {"rawOutput": shown.result} if len(text) <= LONGEST_RESULT else {}
                yield {**update, "content": [content], **whole}
            case _:
                return

    def _planned(self, shown: object) -> Iterator[Json]:
        """Yield all entries of all plans, whenever one of them changes."""
        match shown:
            case PagePlanUpdate(scope=scope, steps=steps):
                self._plans[scope] = {one.id: (one.name or one.task, one.state) for one in steps}
            case PageStep(scope=scope, step=step, state=state) if step in self._plans.get(scope, {}):
                self._plans[scope][step] = (self._plans[scope][step][0], state)
            case _:
                return
        entries = [entry_of(*one) for plan in self._plans.values() for one in plan.values()]
        if entries != self._entries:
            self._entries = entries
            yield {"sessionUpdate": "plan", "entries": [*entries]}


def entry_of(content: str, state: StepState) -> Json:
    """Return a step as an entry of a plan. Editors know three states, so what else became of a step is in the text."""
    match state:
        case "pending" | "waiting":
            return _entry(content, "pending")
        case "running":
            return _entry(content, "in_progress")
        case "completed":
            return _entry(content, "completed")
        case "degraded" | "skipped" | "failed" | "timeout" | "cancelled":
            return _entry(f"{content} ({state})", "completed")
        case _:
            assert_never(state)


def _entry(content: str, status: str) -> Json:
    return {"content": content, "priority": "medium", "status": status}


def title_of(call: PageToolCall) -> str:
    """Return a call as a short text: the tool, and its first argument."""
    given = call.arguments if isinstance(call.arguments, dict) else {}
    first = next((str(one) for one in given.values() if isinstance(one, str | int | float)), "")
    return cut(" ".join(f"{call.tool} {first}".split()), LONGEST_TITLE)
