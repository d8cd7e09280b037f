"""How a competition ends: one answer counts, or the lead merges all of them.

No member decides about its own work: who picks, breaks a tie or votes has no answer among those it chooses from.
Answers are shown without their authors, and to voters in different orders, because judges are biased by name and
position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple, assert_never

from msgspec.structs import replace
from pydantic import JsonValue, TypeAdapter

from teamwright.agents.agent import Agent, Context
from teamwright.strategies.plan.planned_steps import Lenient
from teamwright.strategies.plan.steps.crew import Entries
from teamwright.strategies.plan.steps.step_work import Work
from teamwright.strategies.reply_parsing import ParseFailure, read_answer
from teamwright.strategies.team_conversation import BUDGET
from teamwright.values.events.team import TeamMerged, TeamReplyRejected
from teamwright.values.retries import FUTILE, RETRYABLE
from teamwright.values.specs.manifest import JsonSchema
from teamwright.values.turns.turn import Failure, Reply

LONGEST_REASON = 500
"""How many characters of a reason the schema of a choice allows."""
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


class AnswerChoice(Lenient):
    """The answer that a member prefers, and why."""

    winner: str
    reason: str = ""


class Pick(NamedTuple):
    """The answer that counts, who decided, and why."""

    winner: str
    by: str = ""
    reason: str = ""
    votes: dict[str, str] = {}
    tied: tuple[str, ...] = ()


async def merge_entries(entries: Entries, ctx: Context) -> Work | Failure:
    """Make one of several answers, as the step says."""
    return await _Merge(entries).run(ctx)


class _Merge:
    def __init__(self, entries: Entries) -> None:
        self._entries, self._state, self._step = entries, entries.state, entries.step
        self._prefix = entries.attempt.prefix

    async def run(self, ctx: Context) -> Work | Failure:
        names = list(self._entries.works)
        if len(names) == 1:
            return await self._won(Pick(names[0], reason="it is the only answer"), ctx)
        match self._step.merge:
            case "best":
                return await self._won(await self._pick(PICK, names, ctx, "pick"), ctx)
            case "vote":
                return await self._won(await self._vote(ctx), ctx)
            case "fusion":
                return await self._fuse(names, ctx)
            case _:
                assert_never(self._step.merge)

    async def _fuse(self, names: Sequence[str], ctx: Context) -> Work | Failure:
        """Let the lead merge all answers; the first one counts, with a warning, where the budget does not cover it."""
        work = await self._entries.attempt.ask_lead(FUSE, self._entries.shown(names), "fuse", ctx)
        if isinstance(work, Work):
            await self._record(Pick("", self._state.team.lead.name), ctx)
        elif work.error == BUDGET:
            self._state.go_on_without(work)
            return await self._won(self._first(names, "the budget did not cover the merge"), ctx)
        return work

    async def _pick(self, text: str, names: Sequence[str], ctx: Context, key: str) -> Pick:
        """Let one decide who has no answer among these; the first counts, with a warning, if none does."""
        decider = self._independent(names)
        if decider is None:
            if key == "pick":  # everyone competes, so everyone votes
                return await self._vote(ctx)
            return self._first(names, "no other member is left to decide")
        found = await self._ask(decider, text, names, ctx, key)
        if found is None:
            return self._first(names, f"{decider.name!r} did not decide")
        return Pick(found.winner, decider.name, found.reason)

    def _first(self, names: Sequence[str], why: str) -> Pick:
        self._state.warn([f"the competition of the step {self._step.id!r}: {why}, so {names[0]!r} counts"])
        return Pick(names[0], reason=f"{why}, and it is the first")

    def _independent(self, names: Sequence[str]) -> Agent | None:
        """Return the lead, or else the first member without an answer among these."""
        authors = {self._entries.works[name].author.name for name in names}
        able = [self._state.team.lead, *self._state.team]
        return next((one for one in able if one.name not in authors and not FUTILE & self._errors_of(one)), None)

    async def _ask(
        self, decider: Agent, text: str, names: Sequence[str], ctx: Context, key: str
    ) -> AnswerChoice | None:
        """Return the choice of a member; it is asked once more, with the reason, if its answer can't be used."""
        state, problem, place = self._state, "", f"{self._prefix}{key}"
        for at in (place, f"{place}-again"):
            asked = f"{text}\n\n{state.about(self._step)}"
            asked += f"\n\nYour last answer could not be used: {problem}. Answer again." if problem else ""
            turn = state.lead_turn(asked, self._entries.shown(names), choice_schema(names), closing=True)
            reply = await ctx.ask(decider, turn, key=at)
            if isinstance(reply, Failure):
                state.go_on_without(reply)
                return None
            state.warn(reply.lasting_warnings)
            found = read_choice(reply, names)
            if not isinstance(found, ParseFailure):
                return found
            problem = found.problem
            if at == place:
                fact = TeamReplyRejected(member=decider.name, problem=problem)
                await ctx.emit(fact, key=f"{place}-problem")
        return None

    async def _vote(self, ctx: Context) -> Pick:
        """Let all members vote; one without an answer among those that are tied breaks the tie."""
        votes: dict[str, str] = {}
        voters = {member.name: member for member in self._state.team}
        async with ctx.branches(self._entries.attempt.width) as branches:
            for place, voter in enumerate(voters.values(), start=1):
                at = f"{self._prefix}vote-{place}"
                branches.start(at, partial(self._cast, voter, place, votes))
        votes = {name: votes.get(name, "") for name in voters}
        count = Counter(vote for vote in votes.values() if vote)
        most = max(count.values(), default=0)
        leading = [name for name in self._entries.works if count[name] == most]
        if len(leading) == 1:
            return Pick(leading[0], votes=votes, reason=f"{most} of {sum(count.values())} votes")
        pick = await self._pick(TIE, leading, ctx, "tie")
        return pick._replace(votes=votes, tied=tuple(leading))

    async def _cast(self, voter: Agent, place: int, votes: dict[str, str], ctx: Context) -> None:
        """Add the vote of a member, which is never for its own answer; without a usable one it abstains."""
        works = self._entries.works
        others = [name for name, work in works.items() if work.author.name != voter.name]
        if not others or FUTILE & self._errors_of(voter):
            return
        start = place % len(others)
        names = [*others[start:], *others[:start]]
        text = f"{VOTE}\n\n{self._state.about(self._step)}"
        asked = self._state.lead_turn(text, self._entries.shown(names), choice_schema(names), closing=True)
        if RETRYABLE & self._errors_of(voter):
            asked = replace(asked, may_retry=False)
        reply = await ctx.ask(voter, asked, key="ballot")
        if isinstance(reply, Failure):
            self._state.go_on_without(reply)
            return
        choice = read_choice(reply, names)
        if not isinstance(choice, ParseFailure):
            votes[voter.name] = choice.winner

    def _errors_of(self, member: Agent) -> set[str]:
        """Return the kinds of failures with which a member competed."""
        return {failure.error for failure in self._entries.failed.values() if failure.asked == member.name}

    async def _won(self, pick: Pick, ctx: Context) -> Work:
        await self._record(pick, ctx)
        return self._entries.works[pick.winner]

    async def _record(self, pick: Pick, ctx: Context) -> None:
        fact = TeamMerged(
            step=self._step.id,
            merge=self._step.merge,
            entries={name: work.author.name for name, work in self._entries.works.items()},
            winner=pick.winner,
            by=pick.by,
            votes=pick.votes,
            tied=pick.tied,
            reason=pick.reason,
        )
        await ctx.emit(fact, key=f"{self._prefix}merged")


def choice_schema(names: Sequence[str]) -> JsonSchema:
    """Return the JSON Schema of a choice between these answers."""
    winner: JsonValue = {"type": "string", "enum": list[JsonValue](names)}
    text: JsonValue = {"type": "string", "maxLength": LONGEST_REASON}
    return {"type": "object", "properties": {"winner": winner, "reason": text}, "required": ["winner", "reason"]}


@cache
def _choice() -> TypeAdapter[AnswerChoice]:
    return TypeAdapter(AnswerChoice)


def read_choice(reply: Reply, names: Sequence[str]) -> AnswerChoice | ParseFailure:
    """Return the choice in a reply, if it names one of these answers."""
    choice = read_answer(reply, _choice())
    if isinstance(choice, ParseFailure):
        return choice
    if (name := choice.winner.strip()) not in names:
        return ParseFailure(f"it names {name!r}, and the answers are {', '.join(names)}")
    return choice.model_copy(update={"winner": name})
