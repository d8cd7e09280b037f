"""One session of an editor, which is a conversation: each prompt is a run of the team, and its next turn.

A run that waits for its user's text ends its prompt; the next prompt is the answer, and the run goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from teamwright.agents.acp.connection import Json
from teamwright.errors import TeamwrightError, UsageError
from teamwright.runtime.run_request import RunRequest
from teamwright.server.acp.input import decision_of, permission_of, question_text
from teamwright.server.acp.peer import INTERNAL, INVALID_REQUEST, Peer, RefusedCall
from teamwright.server.acp.updates import RunUpdates, said
from teamwright.server.error_responses import require_run
from teamwright.server.routes.chat_completions import answers_last
from teamwright.server.run_requests import bounded
from teamwright.values.events.run import RunPaused
from teamwright.values.people import Answer
from teamwright.values.text.secret_patterns import mask_text
from teamwright.values.turns.results import FOR_PEOPLE

if TYPE_CHECKING:
    from teamwright.server.credentials import Visitor
    from teamwright.server.overview import WaitingQuestion
    from teamwright.server.page.page_events import PageRun
    from teamwright.server.state import ServerState
    from teamwright.teams.team import Team
    from teamwright.values.turns.results import RunSummary

HEARTBEAT = 15.0
RELEASE_SECONDS = 2.0
"""How long a decision waits for the driver to let go of a run that waits, so that it resumes it."""
CANCELLED = "cancelled in the editor"
NOT_READ = "The last run of this session waits for a decision, so this message was not read.\n\n"


class EditorSession:
    """A session: its id is the name of the conversation."""

    def __init__(self, id_: str, server: ServerState, team: Team, visitor: Visitor, peer: Peer) -> None:
        self.id, self._server, self._team, self._visitor, self._peer = id_, server, team, visitor, peer
        self._run = ""
        """The run that the prompt at work follows."""
        self._is_at_work = self._is_cancelled = False

    async def replay(self) -> None:
        """Show the editor what was said before in the session."""
        conversations = self._server.engine.conversations
        if await conversations.last(self.id) is None:
            return
        for turn in (await conversations.read(self.id)).turns:
            await self.update(said("user_message_chunk", mask_text(turn.task)))
            if turn.output:
                await self.update(said("agent_message_chunk", mask_text(turn.output)))

    async def update(self, update: Json) -> None:
        """Send an update."""
        await self._peer.tell("session/update", {"sessionId": self.id, "update": update})

    async def cancel(self) -> None:
        """Cancel the prompt at work, and its run."""
        if self._is_at_work:
            self._is_cancelled = True
            await self._cancel_run()

    async def _cancel_run(self) -> None:
        if self._run:
            with suppress(TeamwrightError):  # it has ended
                await self._server.engine.runs.cancel(self._run, CANCELLED, by=self._visitor.name, wait=False)

    async def prompt(self, text: str) -> Json:
        """Run the team with a prompt, or let its run go on with it as an answer; returns how the turn ended."""
        if self._is_at_work:
            raise RefusedCall(INVALID_REQUEST, "a prompt of this session is at work; cancel it, or wait for its end")
        self._is_at_work, self._is_cancelled = True, False
        try:
            start = await self._begin(text)
            return start if isinstance(start, dict) else await self._follow(start)
        finally:
            self._is_at_work, self._run = False, ""

    async def _begin(self, text: str) -> int | Json:
        """Start the run, or let the one that waits go on.

        Returns the event after which it is of this prompt, or how the turn ended if the run waits for more.
        """
        last = await self._server.engine.conversations.last(self.id)
        if last is not None and last.status == "paused" and last.stop_reason in FOR_PEOPLE:
            self._run = last.id
            return await self._go_on(last, text)
        asked = RunRequest(self._team, text, conversation=self.id)
        with anyio.CancelScope(shield=True):  # else an editor that leaves meanwhile leaves a run that no one drives
            self._run = (await self._server.driven.start(bounded(asked, self._visitor))).run_id
        if self._is_cancelled:
            await self._cancel_run()
        return 0

    async def _go_on(self, found: RunSummary, text: str) -> int | Json:
        history = await self._server.engine.runs.history(found.id)
        start = max(one.number for one in history.events if isinstance(one.fact, RunPaused))
        waiting = await self._waiting()
        if free := [one for one in waiting if not one.choices]:
            await self._server.engine.runs.answer(found.id, free[0].key, Answer(text=text, by=self._visitor.name))
        else:
            await self.update(said("agent_thought_chunk", NOT_READ))
        ended = await self._settle([one for one in waiting if one not in free[:1]])
        return start if ended is None else ended

    async def _waiting(self) -> list[WaitingQuestion]:
        summary = await require_run(self._server.engine, self._run)
        return [one for one in await self._server.inbox.questions_of(summary) if not one.answered]

    async def _follow(self, start: int) -> Json:
        """Send what happens in the run until it ends, or waits for a text."""
        last = self._team.members[-1].name if answers_last(self._team) else None
        updates = RunUpdates(self._run, last)
        async with self._server.feeds.follow(self._run) as feed:
            while (frames := await feed.next(HEARTBEAT)) is not None:
                for frame in frames:
                    is_here = updates.start >= start
                    for update in updates.apply(frame):
                        if is_here or update["sessionUpdate"] == "plan":
                            await self.update(update)
                    if not is_here or (ending := updates.ending) is None:
                        continue
                    if ending.run is not None:
                        return await self._ended(ending.run)
                    with anyio.move_on_after(RELEASE_SECONDS):
                        await self._server.driven.wait(self._run)
                    if (ended := await self._settle(await self._waiting())) is not None:
                        return ended
        raise RefusedCall(INTERNAL, f"the run {self._run!r} can't be followed any more")

    async def _settle(self, waiting: Sequence[WaitingQuestion]) -> Json | None:
        """Let the user decide what the run waits for; returns how the turn ends, or `None` if the run goes on now."""
        for one in waiting:
            if not one.choices:
                continue
            permission = permission_of(self.id, one)
            chosen = await self._peer.ask("session/request_permission", permission)
            answer = decision_of(one, chosen, self._visitor.name)
            if answer is None:
                await self._cancel_run()
                return {"stopReason": "cancelled"}
            with suppress(UsageError):  # it was answered elsewhere meanwhile
                await self._server.engine.runs.answer(self._run, one.key, answer)
        if free := [one for one in waiting if not one.choices]:
            await self.update(said("agent_message_chunk", question_text(free[0])))
            return {"stopReason": "end_turn"}
        await self._server.driven.resume_if_paused(self._run)
        return None

    async def _ended(self, run: PageRun) -> Json:
        if run.status == "cancelled":
            return {"stopReason": "cancelled"}
        if run.status in {"failed", "timeout"} or not run.output:
            why = run.failure.message if run.failure is not None else "; ".join(run.warnings) or run.reason
            raise RefusedCall(INTERNAL, f"The run {self._run!r} has ended without an answer ({run.status}): {why}")
        if self._team.workspace is not None:
            how = f"\n\nIts changes are on a branch of the run: teamwright runs apply {self._run}"
            await self.update(said("agent_message_chunk", how))
        return {"stopReason": "max_turn_requests" if run.reason == "max_turns" else "end_turn", **_usage(run)}


def _usage(run: PageRun) -> Json:
    if run.usage is None or not run.usage.total_tokens:
        return {}
    used = run.usage
    counts = {"inputTokens": used.input_tokens, "outputTokens": used.output_tokens, "totalTokens": used.total_tokens}
    return {"usage": {**counts}}
