"""The degradation ladder of a team: its rungs, applied when the forecast exceeds the budget, and undone again.

A rung reduces one thing that is sent, or how many members work; one that would change nothing is skipped. The ladder
decides before an ask begins and when one was refused, and records every decision before it takes effect: a resumed run
applies the recorded decisions at the same ask and never decides again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from teamwright.agents.agent import Agent
from teamwright.agents.compaction import with_summary
from teamwright.agents.model.agent import ModelAgent
from teamwright.agents.prices import declared_price
from teamwright.runtime.budget.forecast import Forecast, Pressure, Trends
from teamwright.runtime.budget.ledger import Account
from teamwright.runtime.run_state import RunState
from teamwright.runtime.scope import AskedWith, AskPerson, Scope
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team
from teamwright.values.events.budget import BudgetDegraded
from teamwright.values.events.run import PersonAsked
from teamwright.values.limits import NO_CUTBACK, Cutback
from teamwright.values.people import Question
from teamwright.values.run_keys import join_key
from teamwright.values.specs.members import Share
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Failure, Tier, Turn
from teamwright.values.usage_and_prices import dollars


class Thresholds(NamedTuple):
    """At which shares of the limit a policy applies and undoes rungs, and how far each rung goes."""

    above: float
    below: float
    summary: float
    workers: int
    recent: int


AUTO = Thresholds(above=1.0, below=0.8, summary=0.82, workers=1, recent=6)
AGGRESSIVE = Thresholds(above=0.9, below=0.7, summary=0.65, workers=2, recent=3)


@dataclass(slots=True)
class TeamTraits:
    """What there is to reduce in a team; `peak_concurrency` is the largest number of concurrent asks so far.

    `closes` says whether the team declares closing asks, and `saves_money` whether money is what runs short: a cheaper
    model needs no fewer tokens.
    """

    share: Share
    peers: bool
    economy_members: frozenset[str]
    closes: bool = False
    peak_concurrency: int = 0
    saves_money: bool = True


class Rung(Protocol):
    """One reduction: a field of the `Cutback`."""

    @property
    def name(self) -> str: ...

    @property
    def field(self) -> str: ...

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Return the cutback with this reduction added; unchanged where there is nothing more to reduce."""
        ...


class PeerTalk:
    """Workers no longer talk with each other."""

    name, field = "peer_talk", "peers"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies only to topologies with channels between workers."""
        return now.changed(peers=False) if traits.peers else now


class Summaries:
    """Envelopes carry shorter summaries."""

    name, field = "summaries", "summary"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies only with `share: a2a_lite`, which has summaries."""
        return now.changed(summary=thresholds.summary) if traits.share == "a2a_lite" else now


class Workers:
    """Fewer members work at once: less talk about half-finished work, and less in flight when the budget ends."""

    name, field = "workers", "workers"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Keeps at least one worker."""
        peak = traits.peak_concurrency
        return now.changed(workers=now.width(max(1, peak - thresholds.workers))) if peak > 1 else now


class Economy:
    """Members of lower priority answer with their cheaper models."""

    name, field = "economy", "economy"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies only to members that have one, and where money runs short."""
        return now.changed(economy=True) if traits.economy_members and traits.saves_money else now


class Compaction:
    """Members receive only the latest messages whole, and an excerpt of each earlier one; each time half as many."""

    name, field = "compaction", "recent"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Skipped with `share: output`, where members receive no earlier messages."""
        if traits.share == "output":
            return now
        return now.changed(recent=thresholds.recent if now.recent is None else max(1, now.recent // 2))


class ShortAnswer:
    """The closing ask gets an excerpt of every message, and the cheaper model if others use theirs."""

    name, field = "answer", "answer"

    def lower(self, now: Cutback, traits: TeamTraits, thresholds: Thresholds) -> Cutback:
        """Applies to teams that declare closing asks: a whole answer is better than a part of one, or none."""
        return now.changed(answer=True) if traits.closes else now


FORECAST_LADDER: tuple[Rung, ...] = (PeerTalk(), Summaries(), Workers(), Economy(), Compaction())
"""The rungs that a forecast applies."""
LADDER: tuple[Rung, ...] = (*FORECAST_LADDER, ShortAnswer())
"""All rungs; the last one only after a refusal."""


QUESTION_SUFFIX = "!degrade"
"""Appended to the key of the ask that is about to begin, for the question about a rung; no key of a user ends so."""
CUT, GO_ON = "cut back", "go on"
LONGEST_LINE = 80
"""Characters that a compacted history keeps of an earlier message."""


@dataclass(slots=True)
class AppliedRung:
    """A rung, what was cut back before it, and what asks cost before it.

    `savings` are the factors by which asks cost less since, in tokens and money; `None` until one has ended.
    """

    rung: Rung
    before: Cutback
    trends: Trends | None
    savings: tuple[float, float] | None = None

    def measure(self, costs: tuple[float, float] | None) -> None:
        """Compare the first ask since the rung with those before it."""
        if self.savings is None and costs is not None and self.trends is not None:
            pairs = zip(self.trends, costs, strict=True)
            tokens, usd = (max(1.0, trend.next / cost) if cost else 1.0 for trend, cost in pairs)
            self.savings = tokens, usd


class Degradation:
    """The degradation ladder of one team, and the rungs that are applied."""

    def __init__(self, team: Team, scope: Scope) -> None:
        members = Members(team.members, team.helpers)
        self._team = scope
        self._asks_person = team.degradation == "ask"
        self._thresholds = AGGRESSIVE if team.degradation == "aggressive" else AUTO
        closing = team.strategy.closing(team.settings, members)
        expected_asks = team.strategy.expected_asks(team.settings, members)
        self.forecast = Forecast(expected_asks, scope.path, len(closing), lambda: scope.charged)
        lead = team.strategy.lead(team.settings, members)
        closers = {one.member for one in closing}.intersection(members.names)
        self._closers = frozenset(name for name in closers if _has_cheaper_model(members.named(name)))
        economy = frozenset(_economy_members(team, lead))
        self._traits = TeamTraits(team.settings.share, team.strategy.peers, economy, closes=bool(closing))
        self._applied: list[AppliedRung] = []
        self._cut_back_at: set[str] = set()
        self._decided_after: int = -1
        self._running_asks = 0
        self._declined = self._is_asking = False
        self.cutback = NO_CUTBACK

    @classmethod
    def of(cls, team: Agent, scope: Scope) -> Degradation | None:
        """Return the ladder of a team whose policy and budget ask for one, else `None`."""
        if not isinstance(team, Team) or team.degradation == "none" or scope.account is None:
            return None
        return cls(team, scope)

    def tier_of(self, member: str) -> Tier:
        """Return which of its models the member of this name answers with now."""
        return self._tier(member, self.cutback)

    def closing_recent(self) -> int | None:
        """Return how many of the latest messages a closing ask gets in full; `None` for all."""
        if self._traits.share == "output":  # members get no messages
            return None
        return 0 if self.cutback.answer else self.cutback.recent

    def least_closing_recent(self) -> int | None:
        """Return how many it gets if it is cut back as far as it can be; with the policy `ask`, as many as now."""
        return self.closing_recent() if self._asks_person or self._traits.share == "output" else 0

    def _tier(self, member: str, cutback: Cutback) -> Tier:
        switched = member in self._traits.economy_members or (cutback.answer and member in self._closers)
        return "economy" if cutback.economy and switched else "primary"

    def shorten(self, turn: Turn) -> Turn:
        """Return the turn with as much of its history as members receive now."""
        return _shortened(turn, self.cutback)

    def ask_begins(self) -> None:
        """Count an ask of the team that runs from now on."""
        self._running_asks += 1
        self._traits.peak_concurrency = max(self._traits.peak_concurrency, self._running_asks)

    def ask_ended(self, key: str, charged: tuple[int, int]) -> None:
        """Count an ask of the team as done, and what it was charged, in tokens and picodollars."""
        self._running_asks -= 1
        self.forecast.ask_ended(key, charged)
        if self._applied:
            self._applied[-1].measure(self.forecast.first_costs)

    async def consider(self, scope: Scope, place: str, ask_person: AskPerson, *, closing: bool) -> None:
        """Apply or undo at most one rung before an ask begins, as the record says or as the forecast demands.

        Nothing is undone for a closing ask: its cost was kept back as it is now, and nothing comes after it.
        """
        full, record = join_key(scope.path, place), scope.run.record
        recorded = record.budgets.rungs.get(full)
        if recorded is None and full not in record.asks:
            await self._decide(scope, place, ask_person, closing=closing)
        else:
            if full + QUESTION_SUFFIX in record.answers and not await self._ask_consent(scope, place, None, ask_person):
                self._declined = True
            for fact in recorded or ():
                self._apply(fact, scope.run)

    def cut_back_for(self, scope: Scope, place: str, asked: AskedWith, failure: Failure) -> None:
        """Apply the rungs that make a refused ask cheaper, for its next attempt at `place`; none if no rung does."""
        self._traits.saves_money = asked.refused in (None, "usd")
        if self.is_cut_back_at(scope, place) and self._is_cheaper(asked, self.cutback):
            return
        for rung, cutback in self._rungs_for(asked):
            self._record(scope, place, rung, cutback, failure.message, undone=False)
            self._cut_back_at.add(join_key(scope.path, place))

    def can_reduce(self, asked: AskedWith) -> bool:
        """Return whether a rung would make an ask cheaper, if it were refused."""
        self._traits.saves_money = asked.refused in (None, "usd")
        return bool(self._rungs_for(asked))

    def _rungs_for(self, asked: AskedWith) -> Sequence[tuple[Rung, Cutback]]:
        """Return the rungs that make an ask cheaper, each with all that is cut back with it; empty if none does.

        One may have been applied since the ask began. Else they are the next ones, up to the first that helps. With the
        policy `ask` there are no next ones: no person consented to them.
        """
        if self._applied and self._is_cheaper(asked, self.cutback):
            return [(self._applied[-1].rung, self.cutback)]
        if self._asks_person:
            return ()
        rungs = list(self._next_rungs(LADDER))
        for count, (_, cutback) in enumerate(rungs, start=1):
            if self._is_cheaper(asked, cutback):
                return rungs[:count]
        return ()

    def _is_cheaper(self, asked: AskedWith, cutback: Cutback) -> bool:
        """Return whether an ask costs less with this cutback."""
        if self._traits.saves_money and self._tier(asked.member.name, cutback) == "economy" != asked.turn.tier:
            return True
        earlier, recent = _recent(asked.turn, asked.cutback), _recent(asked.turn, cutback)
        is_shorter = recent is not None and (earlier is None or recent < earlier)
        return is_shorter and _shortened(asked.turn, cutback) is not asked.turn

    def is_cut_back_at(self, scope: Scope, place: str) -> bool:
        """Return whether rungs were applied for an attempt at this place; those of the record are applied now."""
        full = join_key(scope.path, place)
        if full in self._cut_back_at:
            return True
        recorded = scope.run.record.budgets.rungs.get(full)
        if recorded is None:
            return False
        self._cut_back_at.add(full)
        for fact in recorded:
            self._apply(fact, scope.run)
        return True

    async def _decide(self, scope: Scope, place: str, ask_person: AskPerson, *, closing: bool) -> None:
        asked_before = join_key(scope.path, place + QUESTION_SUFFIX) in scope.run.record.questions
        if self._is_asking or (self.forecast.asks_ended == self._decided_after and not asked_before):
            return
        account = self._team.account
        pressure = account and self.forecast.pressure(account)
        if account is None or pressure is None:
            return
        self._decided_after = self.forecast.asks_ended
        self._traits.saves_money = pressure.what == "usd"
        relaxed = self._pressure_without_last(account)
        if relaxed is not None and relaxed.share < self._thresholds.below and not asked_before:
            self._declined = False
            if not closing:
                self._undo_last(scope, place, relaxed)
        elif (pressure.share > self._thresholds.above and not self._declined) or asked_before:
            await self._cut_back(scope, place, pressure, ask_person)

    def _pressure_without_last(self, account: Account) -> Pressure | None:
        """Return the pressure if the rung that was applied last were undone, so that its savings do not undo it."""
        trends = self.forecast.trends
        if not self._applied or trends is None:
            return self.forecast.pressure(account)
        savings = self._applied[-1].savings
        if savings is None:
            return None
        tokens, usd = (trend.times(factor) for trend, factor in zip(trends, savings, strict=True))
        return self.forecast.pressure(account, (tokens, usd))

    async def _cut_back(self, scope: Scope, place: str, pressure: Pressure, ask_person: AskPerson) -> None:
        """Apply the next rung that changes anything in this team."""
        applied = self._applied[-1].rung if self._applied else None
        rung, lower = next(
            (one for one in self._next_rungs(FORECAST_LADDER) if one[0] is not applied), (None, self.cutback)
        )
        if rung is None:
            return
        text = f"The budget will not last: {_reason_text(pressure)}. Cut back ({rung.name})?"
        question = Question(text=text, choices=(CUT, GO_ON))
        if self._asks_person and not await self._ask_consent(scope, place, question, ask_person):
            self._declined = True
            return
        self._record(scope, place, rung, lower, _reason_text(pressure), undone=False)

    def _undo_last(self, scope: Scope, place: str, pressure: Pressure) -> None:
        if self._applied:
            last = self._applied[-1]
            self._record(scope, place, last.rung, last.before, _reason_text(pressure), undone=True)

    def _next_rungs(self, ladder: Sequence[Rung]) -> Iterator[tuple[Rung, Cutback]]:
        """Yield the rungs that change something from here on, each with all that is cut back with it."""
        cutback = self.cutback
        first = LADDER.index(self._applied[-1].rung) if self._applied else 0
        for rung in ladder[first:]:
            while (lower := rung.lower(cutback, self._traits, self._thresholds)) != cutback:
                yield rung, lower
                cutback = lower

    def _record(self, scope: Scope, place: str, rung: Rung, cutback: Cutback, reason: str, *, undone: bool) -> None:
        fact = BudgetDegraded(
            rung=rung.name,
            before=getattr(self.cutback, rung.field),
            after=getattr(cutback, rung.field),
            reason=reason,
            cutback=cutback,
            undone=undone,
        )
        scope.run.recorder.add(scope.path, place, fact)
        self._apply(fact, scope.run)

    def _apply(self, fact: BudgetDegraded, run: RunState) -> None:
        rung = next((rung for rung in LADDER if rung.name == fact.rung), None)
        if rung is None or (fact.undone and not self._applied):
            done = "undone" if fact.undone else "taken"
            run.report_mismatch_at(None, f"that the rung {fact.rung!r} was {done}", "knows none that could be")
        elif fact.undone:
            self._applied.pop()
        elif fact.cutback == self.cutback:  # for an ask that began before this rung was applied
            return
        else:
            self._applied.append(AppliedRung(rung, self.cutback, self.forecast.trends))
        self.forecast.restart_trends()
        self.cutback = fact.cutback
        if self._team.holdback is not None:
            self._team.holdback.cutback_changed()

    async def _ask_consent(self, scope: Scope, place: str, question: Question | None, ask_person: AskPerson) -> bool:
        """Ask a person, with the recorded question if there is one; only one ask of the team does so at a time."""
        recorded = scope.run.record.questions.get(join_key(scope.path, place + QUESTION_SUFFIX))
        if recorded is not None and isinstance(recorded.fact, PersonAsked):
            question = recorded.fact.question
        assert question is not None
        self._is_asking = True
        try:
            return (await ask_person(place + QUESTION_SUFFIX, question)).text == CUT
        finally:
            self._is_asking = False


def _economy_members(team: Team, lead: str | None) -> Iterator[str]:
    """Yield the members that may use a cheaper model: those below the top priority, or all but the lead if equal."""
    priorities = {member.name: member.policy.priority for member in team.members}
    highest = max(priorities.values())
    alike = len(set(priorities.values())) == 1
    for member in team.members:
        lower = member.name != lead if alike else priorities[member.name] < highest
        if lower and _has_cheaper_model(member):
            yield member.name


def _has_cheaper_model(member: Agent) -> bool:
    """Whether a member has an economy model, and neither its input nor its output is known to cost more."""
    economy = member.policy.economy
    if economy is None:
        return False
    dear = declared_price(member.model) if isinstance(member, ModelAgent) else None
    cheap = declared_price(economy)
    return dear is None or cheap is None or (cheap.input <= dear.input and cheap.output <= dear.output)


def _reason_text(pressure: Pressure) -> str:
    _, what, forecast, limit = pressure
    if what == "usd":
        return f"about ${dollars(round(forecast)):.4g} of ${dollars(round(limit)):.4g} when all is done"
    return f"about {round(forecast)} of {round(limit)} {what} when all is done"


def _shortened(turn: Turn, cutback: Cutback) -> Turn:
    recent = _recent(turn, cutback)
    return turn if recent is None else compact_history(turn, recent)


def _recent(turn: Turn, cutback: Cutback) -> int | None:
    """Return how many of the latest messages a turn gets in full; `None` for all."""
    return 0 if cutback.answer and turn.closing else cutback.recent


def compact_history(turn: Turn, recent: int) -> Turn:
    """Return the turn with only the latest messages whole, after a list with an excerpt of each earlier one."""
    history = turn.history
    if len(history) <= recent:
        return turn
    listed = "\n".join(f"- {message.name}: {_excerpt(message.content)}" for message in history[: len(history) - recent])
    note = Message(name="earlier", content=f"Said before, in short:\n{listed}", role="user")
    return with_summary(turn, recent, note)


def _excerpt(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
