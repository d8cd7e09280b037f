"""A phase in competition: several experts do the same task under one budget, and one result counts.

A competitor that fails does not fail the phase. Answers are shown without their authors, and to voters in different
orders, because judges are biased by name and position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, assert_never

from msgspec.structs import replace

from teamwright.agents.contract.agent import Agent, Context
from teamwright.agents.contract.retry import FUTILE, RETRYABLE
from teamwright.experts.collaboration.drafts import choice_schema, read_choice
from teamwright.experts.collaboration.state import PhaseAttempt, Work, as_message
from teamwright.strategies.parts import WORK
from teamwright.strategies.reply_parsing import ParseFailure
from teamwright.values.events.team import TeamMerged
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure

PICK = (
    "Several experts did the same task; their answers are above, by name. Pick the best one. Answer with one JSON"
    ' object: "winner" is the name of an answer, and "reason" is one sentence that says why it is better.'
)
TIE = f"The votes of your team are tied between these answers, and you decide. {PICK}"
VOTE = (
    "Several experts did the same task; their answers are above, by name. Vote for the best one. Answer with one JSON"
    ' object: "winner" is the name of an answer, and "reason" is one sentence.'
)
FUSE = (
    "Several experts did the same task; their answers are above. Merge them to one result that keeps the best of each"
    " and contradicts itself nowhere."
)


class Pick(NamedTuple):
    """The answer that counts, who decided, and why."""

    winner: str
    by: str = ""
    reason: str = ""
    votes: dict[str, str] = {}
    tied: tuple[str, ...] = ()


class Competition:
    """The entries of one attempt, by the names under which they are shown."""

    def __init__(self, attempt: PhaseAttempt) -> None:
        self._attempt, self._state, self._phase = attempt, attempt.state, attempt.phase
        self._entries: dict[str, Work] = {}
        self._failed: dict[int, Failure] = {}

    async def run(self, ctx: Context) -> Work | Failure:
        """Let all compete until there are enough answers, and make one of them."""
        state, names = self._state, self._phase.workers(self._state.team)
        async with ctx.branches(state.options.max_parallel, until=self._is_decided) as branches:
            for place, name in enumerate(names, start=1):
                branches.start(f"entry-{place}", partial(self._enter, state.members.named(name), place))
        if state.has_ended:
            return self._attempt.stopped
        if not self._entries:
            first = self._failed[min(self._failed)]
            return first.changed(message=f"{first.message} (all {len(names)} competitors failed)", optional=False)
        state.warn(text for _, failure in sorted(self._failed.items()) for text in failure.skipped)
        self._entries = dict(sorted(self._entries.items(), key=lambda entry: entry[1].place))
        return await self._merge(ctx)

    def _is_decided(self) -> bool:
        enough = self._phase.enough
        return self._state.has_ended or (enough is not None and len(self._entries) >= enough)

    async def _enter(self, expert: Agent, place: int, ctx: Context) -> None:
        turn = self._attempt.turn(expert.name)
        work = await self._attempt.ask(expert, turn, ctx, WORK, place, f"entry-{place}")
        if isinstance(work, Failure):
            self._failed[place] = work
        else:
            self._entries[f"answer-{place}"] = work

    async def _merge(self, ctx: Context) -> Work | Failure:
        names = list(self._entries)
        if len(names) == 1:
            return await self._won(Pick(names[0], reason="it is the only answer"), ctx)
        match self._phase.merge:
            case "best":
                return await self._won(await self._pick(PICK, names, ctx, "pick"), ctx)
            case "vote":
                return await self._won(await self._vote(ctx), ctx)
            case "fusion":
                work = await self._attempt.ask_lead(FUSE, self._shown(names), ctx, "fuse")
                if isinstance(work, Work):
                    await self._record(Pick("", self._state.team.lead), ctx)
                return work
            case _:
                assert_never(self._phase.merge)

    async def _pick(self, text: str, names: Sequence[str], ctx: Context, key: str) -> Pick:
        """Let the lead decide between these answers; the first counts, with a warning, if it does not."""
        state, asked = self._state, f"{text}\n\n{self._attempt.about}"
        read = partial(read_choice, names=names)
        found = await state.consult(asked, self._shown(names), ctx, key, choice_schema(names), read, self._phase)
        if found is None:
            state.warn([f"{state.team.lead!r} did not decide the phase {self._phase.id!r}: {names[0]!r} counts"])
            return Pick(names[0], reason="the lead did not decide, and it is the first")
        return Pick(found.winner, state.team.lead, found.reason)

    async def _vote(self, ctx: Context) -> Pick:
        """Let all members vote, and the lead break a tie."""
        votes: dict[str, str] = {}
        voters = {member.name: member for member in self._state.members}
        async with ctx.branches(self._state.options.max_parallel, until=lambda: self._state.has_ended) as branches:
            for place, voter in enumerate(voters.values(), start=1):
                branches.start(f"vote-{place}", partial(self._cast, voter, place, votes))
        votes = {name: votes.get(name, "") for name in voters}
        count = Counter(vote for vote in votes.values() if vote)
        most = max(count.values(), default=0)
        leading = [name for name in self._entries if count[name] == most]
        if len(leading) == 1:
            return Pick(leading[0], votes=votes, reason=f"{most} of {sum(count.values())} votes")
        pick = await self._pick(TIE, leading, ctx, "tie")
        return pick._replace(votes=votes, tied=tuple(leading))

    async def _cast(self, voter: Agent, place: int, votes: dict[str, str], ctx: Context) -> None:
        """Add the vote of a member, which is never for its own answer; without a usable one it abstains."""
        others = [name for name, work in self._entries.items() if work.author.name != voter.name]
        if not others or FUTILE & self._errors_of(voter):
            return
        start = place % len(others)
        names = [*others[start:], *others[:start]]
        asked = self._state.lead_turn(f"{VOTE}\n\n{self._attempt.about}", self._shown(names), choice_schema(names))
        if RETRYABLE & self._errors_of(voter):
            asked = replace(asked, may_retry=False)
        reply = self._state.receive(await ctx.ask(voter, asked, key="ballot"), self._phase)
        if isinstance(reply, Failure):
            self._state.warn(reply.skipped)
            return
        choice = read_choice(reply, names)
        if not isinstance(choice, ParseFailure):
            votes[voter.name] = choice.winner

    def _errors_of(self, expert: Agent) -> set[str]:
        """Return the kinds of failures with which an expert competed."""
        return {failure.error for failure in self._failed.values() if failure.asked == expert.name}

    def _shown(self, names: Sequence[str]) -> list[Message]:
        return [as_message(name, self._entries[name].reply) for name in names]

    async def _won(self, pick: Pick, ctx: Context) -> Work:
        await self._record(pick, ctx)
        return self._entries[pick.winner]

    async def _record(self, pick: Pick, ctx: Context) -> None:
        fact = TeamMerged(
            phase=self._phase.id,
            merge=self._phase.merge,
            entries={name: work.author.name for name, work in self._entries.items()},
            winner=pick.winner,
            by=pick.by,
            votes=pick.votes,
            tied=pick.tied,
            reason=pick.reason,
        )
        await ctx.emit(fact, key="merged")
