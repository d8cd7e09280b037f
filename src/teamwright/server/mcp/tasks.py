"""Runs as tasks of MCP (`io.modelcontextprotocol/tasks`). The journal is their only store.

The id of a task is that of its run. What is asked about a task is read from the journal, and what is said to it is
written there, so that both work from another process and after a crash. What is remembered here is only how far a
record was read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import anyio

from teamwright.errors import InterventionRefused, NotResumable, RunNotFound, TeamwrightError, UsageError
from teamwright.server.error_responses import require_run
from teamwright.server.mcp.team_tools import INTERNAL_ERROR, is_crash, tool_result
from teamwright.server.questions import elicited_answer, input_request
from teamwright.server.routes.interventions import answered_alone
from teamwright.values.events.agent import AgentAsked, AgentFailed, AgentReplied
from teamwright.values.text.secrets import mask_text
from teamwright.values.turns.results import FINAL, RunSummary, iso

if TYPE_CHECKING:
    from teamwright.server.credentials import Visitor
    from teamwright.server.overview import WaitingQuestion
    from teamwright.server.state import ServerState
    from teamwright.values.events.event import Event


Json = dict[str, Any]
EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS, WAITING_POLL_MS = 1000, 5000
"""Milliseconds after which a client looks again: at a run that works, and at one that waits for a person."""
MOST_READ = 1000
"""Runs of which is remembered how far they were read."""
MOST_NAMED = 3
"""Members that a status names; of more it says how many."""


@dataclass(slots=True)
class RunProgress:
    """Who works in a run, folded from its events."""

    number: int = 0
    turns: int = 0
    time: float = 0.0
    working: dict[str, str] = field(default_factory=dict[str, str])

    def add(self, event: Event) -> None:
        """Take the next event."""
        self.number, self.time = event.number, event.time
        match event.fact:
            case AgentAsked(member=member, member_kind=kind) if kind != "team":
                self.working[event.key] = member
                self.turns += 1
            case AgentReplied() | AgentFailed():
                self.working.pop(event.key, None)
            case _:
                pass

    @property
    def text(self) -> str:
        """Who works, in words."""
        names = list(dict.fromkeys(self.working.values()))
        if not names:
            return "the team works"
        if len(names) > MOST_NAMED:
            names[MOST_NAMED:] = [f"{len(names) - MOST_NAMED} more"]
        *others, last = names
        return f"{', '.join(others)} and {last} work" if others else f"{last} works"


class RunTasks:
    """Reads and changes the runs of a server as tasks."""

    def __init__(self, server: ServerState) -> None:
        self._server = server
        self._read: OrderedDict[str, RunProgress] = OrderedDict()

    async def created(self, run_id: str) -> Json:
        """Return the first state of a task, whose run is in the journal."""
        summary = await require_run(self._server.engine, run_id)
        return {"resultType": "task", **await self._head(summary, "working")}

    async def get(self, run_id: str) -> Json:
        """Return the present state of a task; raises `RunNotFound`."""
        summary = await require_run(self._server.engine, run_id)
        if summary.damage is not None:
            return {**await self._head(summary, "failed"), "error": _error(f"its record is damaged: {summary.damage}")}
        if summary.status in FINAL:
            return await self._ended(summary)
        waiting = await self._server.inbox.open_questions(summary)
        if waiting:
            asked = {one.key: input_request(one) for one in waiting}
            return {**await self._head(summary, "input_required", waiting), "inputRequests": asked}
        return await self._head(summary, "working")

    async def update(self, run_id: str, responses: Mapping[str, object], by: Visitor) -> None:
        """Answer questions of a run. Those that are not open are ignored, as where another client was faster.

        Raises `UsageError` with what is wrong about responses; the others count.
        """
        wrong: list[str] = []
        with anyio.CancelScope(shield=True):  # a client that leaves meanwhile leaves no answer that no one goes on with
            async with answered_alone(run_id):
                wrong = await self._answer(run_id, responses, by)
            await self._server.driven.resume_if_paused(run_id)
        if wrong:
            raise UsageError(" ".join(wrong))

    async def _answer(self, run_id: str, responses: Mapping[str, object], by: Visitor) -> list[str]:
        server, wrong = self._server, list[str]()
        summary = await require_run(server.engine, run_id)
        if summary.status in FINAL:
            return wrong
        asked = {one.key: one for one in await server.inbox.open_questions(summary)}
        for key in [key for key in responses if key in asked]:
            try:
                if (answer := elicited_answer(asked[key], responses[key], by.name)) is not None:
                    await server.engine.runs.answer(run_id, key, answer)
            except UsageError as error:
                wrong.append(str(error))
            except (InterventionRefused, NotResumable):  # it was answered, or ended, meanwhile
                continue
        return wrong

    async def cancel(self, run_id: str, by: Visitor) -> None:
        """End a run for good; one that has ended stays as it is."""
        await require_run(self._server.engine, run_id)
        with suppress(NotResumable), anyio.CancelScope(shield=True):
            await self._server.engine.runs.cancel(run_id, f"by {by.name}", by=by.name, wait=False)

    async def progress(self, run_id: str) -> RunProgress:
        """Return who works in a run, reading only the events that are new."""
        known = self._read.setdefault(run_id, RunProgress())
        self._read.move_to_end(run_id)
        if len(self._read) > MOST_READ:
            self._read.popitem(last=False)
        for event in await self._server.engine.journal.read(run_id, known.number):
            known.add(event)
        return known

    async def _ended(self, summary: RunSummary) -> Json:
        if summary.status == "cancelled":
            return await self._head(summary, "cancelled")
        result = await self._server.engine.runs.result(summary.id)
        if is_crash(result):
            text = result.failure.message if result.failure is not None else "the run crashed"
            return {**await self._head(summary, "failed"), "error": _error(text)}
        return {**await self._head(summary, "completed"), "result": await tool_result(self._server, result)}

    async def _head(self, summary: RunSummary, status: str, waiting: list[WaitingQuestion] | None = None) -> Json:
        try:
            progress = await self.progress(summary.id)
        except RunNotFound:
            raise
        except TeamwrightError:  # a damaged record
            progress = RunProgress()
        head: Json = {
            "taskId": summary.id,
            "status": status,
            "createdAt": summary.started_at or iso(0),
            "lastUpdatedAt": iso(progress.time) if progress.time else summary.started_at or iso(0),
            "ttlMs": None,  # a run is kept until someone deletes it
            "pollIntervalMs": WAITING_POLL_MS if waiting else POLL_MS,
        }
        if text := self._status_text(summary, progress, waiting or []):
            head["statusMessage"] = mask_text(text)
        return head

    def _status_text(self, summary: RunSummary, progress: RunProgress, waiting: list[WaitingQuestion]) -> str:
        if waiting:
            people = ", ".join(dict.fromkeys(one.to for one in waiting if one.to))
            return f"waits for {people or 'a person'}"
        match summary.status:
            case "running":
                return progress.text
            case "queued":
                return "waits for a worker"
            case "paused" if summary.resume_at:
                return f"waits until {summary.resume_at}: a provider takes no calls before"
            case "paused":
                return f"paused ({summary.stop_reason}); resume it with  teamwright runs resume {summary.id}"
            case "interrupted" if summary.id in self._server.driven:
                return "interrupted; the server resumes it"
            case "interrupted":
                return f"interrupted; resume it with  teamwright runs resume {summary.id}"
            case status:
                return f"{status} ({summary.stop_reason})"


def _error(text: str) -> Json:
    return {"code": INTERNAL_ERROR, "message": mask_text(text)}
