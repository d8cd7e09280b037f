"""Conversations: runs under one name, each of which continues the one before.

Two turns of a conversation never run at once, in whichever processes they are started: the second is refused.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import anyio

from teamwright.errors import ConversationBusy, RunIsLive, UnknownName, UsageError
from teamwright.history.recorded_asks import RecordedBodies
from teamwright.history.run_history import ConversationHistory, ConversationSummary, ConversationTurn
from teamwright.history.run_record import EFFECTS, check_record
from teamwright.journal.protocol import damaged, driver_lock
from teamwright.runtime.recorded.reader import deleted_is_not_found, read_events, run_not_found
from teamwright.values.events.run import RunEnded, RunStarted
from teamwright.values.names import check_name, check_run_id
from teamwright.values.people import Undo
from teamwright.values.turns.results import FINAL
from teamwright.values.value import check_text

if TYPE_CHECKING:
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.recorded.runs import Runs
    from teamwright.values.turns.results import RunSummary

LOCK = ".conversation."
"""The prefix of the lock under which a turn is started; no run id begins like it."""
START_SECONDS = 10.0
"""How long a start waits for another one of the same conversation, which takes as long as one commit."""


class Conversations:
    """The conversations of a journal, as `engine.conversations`."""

    def __init__(self, journal: Journal, runs: Runs) -> None:
        self._journal, self._runs = journal, runs

    async def list(self) -> list[ConversationSummary]:
        """Return a summary of every conversation, the one with the newest turn first."""
        found: dict[str, ConversationSummary] = {}
        for run in await self._journal.runs(conversation=""):
            known = found.get(run.conversation)
            found[run.conversation] = ConversationSummary.of(run) if known is None else known.with_earlier(run)
        return list(found.values())

    async def read(self, name: str) -> ConversationHistory:
        """Return the turns of a conversation in order, without those that were undone."""
        head = await self.head(name)
        if head is None:
            return ConversationHistory(name, (), ())
        newest = await self._runs.history(head)
        turns: list[ConversationTurn] = []
        run_id: str | None = head
        while run_id is not None:
            summary = await self._journal.find(run_id)
            if summary is None or summary.conversation != name:  # earlier turns may have been deleted
                break
            if run_id == head:
                turn, started = ConversationTurn.of(newest, summary.status), newest.started
            else:
                turn, started = await self._ended_turn(run_id)
            turns.append(turn)
            run_id = None if started.origin is None else started.origin.run_id
        return ConversationHistory(name, tuple(reversed(turns)), newest.conversation())

    async def _ended_turn(self, run_id: str) -> tuple[ConversationTurn, RunStarted]:
        """Read a turn before the last one, which has ended, without the messages that its history repeats."""
        async with deleted_is_not_found(self._journal, run_id):
            events = await read_events(self._journal, run_id, without=EFFECTS)
            check_record(events, whole=False)
            started = events[0].fact
            assert isinstance(started, RunStarted)
            ended = next((event.fact for event in reversed(events) if isinstance(event.fact, RunEnded)), None)
            if ended is None:
                raise damaged(run_id, "it has no end, and a later turn continues it")
            texts = await self._journal.bodies({started.task, *([ended.output] if ended.output else [])})
            return ConversationTurn.of_ended(run_id, started, ended, RecordedBodies(texts)), started

    async def last(self, name: str) -> RunSummary | None:
        """Return the run of the newest turn, even if it was undone; `None` if there is no such conversation."""
        return next(iter(await self._journal.runs(1, conversation=check_name("conversation", name))), None)

    async def _require_last(self, name: str) -> RunSummary:
        last = await self.last(name)
        if last is None:
            raise UnknownName("conversation", name, [one.name for one in await self.list()])
        return last

    async def head(self, name: str) -> str | None:
        """Return the run that the next turn continues: the last that was not undone, or the one that a fork began from.

        Raises `UnknownName` if there is no such conversation.
        """
        head, _ = await self._head(await self._require_last(name))
        return head

    async def undo(self, name: str, *, by: str = "") -> ConversationTurn:
        """Withdraw the last turn of a conversation and return it; its run stays in the journal.

        Once a fork has no turns of its own, it goes back by one of those that it began with; the conversation that was
        forked keeps them.
        """
        check_text("by", by)
        async with self._starting(check_name("conversation", name)):
            last = await self._require_last(name)
            if last.status not in FINAL:
                raise ConversationBusy(name, last.id, last.status)
            head, own = await self._head(last)
            if head is None:
                raise UsageError(f"The conversation {name!r} has no turn to undo.")
            turn = await self.turn(head)
            if head == own:
                await self._journal.send(own, Undo(by=by))
                return turn
            await self._journal.send(own, Undo(by=by, inherited=head))
            return replace(turn, inherited=True)

    async def turn(self, run_id: str) -> ConversationTurn:
        history = await self._runs.history(run_id)
        summary = await self._journal.find(run_id)
        return ConversationTurn.of(history, summary.status if summary else "interrupted")

    async def before(self, run_id: str) -> str | None:
        """Return the run that a run continues; of a fork, the one that the forked run continues."""
        while True:
            events = await self._journal.read(check_run_id(run_id), limit=1)
            if not events:
                raise await run_not_found(self._journal, run_id)
            started = events[0].fact
            origin = started.origin if isinstance(started, RunStarted) else None
            if origin is None or origin.how == "continue":
                return None if origin is None else origin.run_id
            run_id = origin.run_id

    @asynccontextmanager
    async def next_turn(self, name: str, begin_from: str | None = None) -> AsyncGenerator[str | None]:
        """Yield the run that the next turn continues, if any; the turn has to be recorded within the block.

        A conversation without turns begins from the run `begin_from`. Raises `ConversationBusy` if the last turn has
        not ended.
        """
        async with self._starting(check_name("conversation", name)):
            last = await self.last(name)
            if last is None:
                yield begin_from
                return
            if begin_from is not None:
                raise UsageError(
                    f"The conversation {name!r} has turns already, so it can't begin from run {begin_from!r}; choose"
                    " another name for it."
                )
            if last.status not in FINAL:
                raise ConversationBusy(name, last.id, last.status)
            head, _ = await self._head(last)
            yield head

    @asynccontextmanager
    async def _starting(self, name: str) -> AsyncGenerator[None]:
        """Hold the lock under which turns of a conversation are started, after those who hold it now."""
        async with AsyncExitStack() as held:
            deadline = anyio.current_time() + START_SECONDS
            while True:
                try:
                    await held.enter_async_context(driver_lock(self._journal, LOCK + name))
                    break
                except RunIsLive:
                    if anyio.current_time() > deadline:
                        raise ConversationBusy(name, None, "running") from None
                await anyio.sleep(0.01)
            yield

    async def _head(self, last: RunSummary) -> tuple[str | None, str]:
        """Return the run that the next turn continues, `None` if all were undone, and the oldest own turn on the way.

        A turn that was undone in another conversation is still part of the forks of it.
        """
        run_id: str | None = last.id
        own, undone = last.id, set[str]()
        while run_id is not None:
            summary = await self._journal.find(run_id)
            if summary is None:
                raise UsageError(
                    f"The conversation {last.conversation!r} can't go on: the run {run_id!r} was deleted, which it"
                    " would continue after its later turns were undone; begin another conversation."
                )
            if summary.conversation == last.conversation:
                own = run_id
                sent = [item.intervention for item in await self._journal.inbox(run_id)]
                undone.update(one.inherited or run_id for one in sent if isinstance(one, Undo))
            if run_id not in undone:
                break
            run_id = await self.before(run_id)
        return run_id, own
