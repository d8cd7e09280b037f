"""What members do besides writing: calls of tools, and the plan that they work through."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from teamwright.server.page.page_events import PagePlanUpdate, PageStep, PageToolCall, PageToolResult

if TYPE_CHECKING:
    from teamwright.server.agui.messages import SubagentTurn
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
