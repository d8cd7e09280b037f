"""Applies the rungs of a team's degradation ladder when the forecast exceeds its budget, and undoes them again.

It decides before an ask begins, and records every decision before it takes effect: a resumed run applies the recorded
decision at the same ask and never decides again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from teamwright.agents.contract.attributes import policy_of
from teamwright.agents.contract.context import AgentLike
from teamwright.agents.summary import with_summary
from teamwright.budget.money import dollars
from teamwright.runtime.admission.forecast import Forecast, Pressure
from teamwright.runtime.admission.ladder import AGGRESSIVE, AUTO, LADDER, Rung, TeamTraits
from teamwright.runtime.run_state import RunState
from teamwright.runtime.scope import AskPerson, Scope
from teamwright.strategies.contract import lead_of, outlook_of, peers_of
from teamwright.strategies.protocol import Members
from teamwright.teams.team import Team
from teamwright.values.events.budget import BudgetDegraded
from teamwright.values.events.person import PersonAsked
from teamwright.values.key import join_key, relative_key
from teamwright.values.limits.degradation import NO_CUTBACK, Cutback
from teamwright.values.people.questions import Question
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Tier, Turn

QUESTION_SUFFIX = "!degrade"
"""Appended to the key of the ask that is about to begin, for the question about a rung; no key of a user ends so."""
CUT, GO_ON = "cut back", "go on"
LONGEST_LINE = 80
"""Characters that a compacted history keeps of an earlier message."""


class Degradation:
    """The degradation ladder of one team, and the rungs that are applied."""

    def __init__(self, team: Team, scope: Scope) -> None:
        members = Members(team.members, team.helpers)
        self._team = scope
        self._asks_person = team.degradation == "ask"
        self._thresholds = AGGRESSIVE if team.degradation == "aggressive" else AUTO
        self._forecast = Forecast(outlook_of(team.strategy, team.settings, members))
        lead = lead_of(team.strategy, team.settings, members)
        self._traits = TeamTraits(team.settings.share, peers_of(team.strategy), frozenset(_economy_members(team, lead)))
        self._applied: list[tuple[Rung, Cutback]] = []
        self._decided_after: int = -1
        self._running_asks = 0
        self._declined = self._is_asking = False
        self.cutback = NO_CUTBACK

    @classmethod
    def of(cls, team: AgentLike, scope: Scope) -> Degradation | None:
        """Return the ladder of a team whose policy and budget ask for one, else `None`."""
        if not isinstance(team, Team) or team.degradation == "none" or scope.account is None:
            return None
        return cls(team, scope)

    def tier(self, member: AgentLike) -> Tier:
        """Return which of its models a member answers with now."""
        return "economy" if self.cutback.economy and member.name in self._traits.economy_members else "primary"

    def shorten(self, turn: Turn) -> Turn:
        """Return the turn with as much of its history as members receive now."""
        return turn if self.cutback.recent is None else compact_history(turn, self.cutback.recent)

    def ask_ended(self, key: str) -> None:
        """Count an ask of the team as done."""
        self._running_asks -= 1
        self._forecast.ask_ended(relative_key(key, self._team.path))

    async def consider(self, scope: Scope, place: str, ask_person: AskPerson) -> None:
        """Apply or undo at most one rung before an ask begins, as the record says or as the forecast demands."""
        full, record = join_key(scope.path, place), scope.run.record
        recorded = record.rungs.get(full)
        if recorded is None and full not in record.asks:
            await self._decide(scope, place, ask_person)
        else:
            if full + QUESTION_SUFFIX in record.answers and not await self._ask_consent(scope, place, None, ask_person):
                self._declined = True
            if recorded is not None:
                self._apply(recorded, scope.run)
        self._running_asks += 1
        self._traits.peak_concurrency = max(self._traits.peak_concurrency, self._running_asks)

    async def _decide(self, scope: Scope, place: str, ask_person: AskPerson) -> None:
        asked_before = join_key(scope.path, place + QUESTION_SUFFIX) in scope.run.record.questions
        if self._is_asking or (self._forecast.asks_done == self._decided_after and not asked_before):
            return
        account = self._team.account
        pressure = account and self._forecast.pressure(self._team.usage, account)
        if pressure is None:
            return
        self._decided_after = self._forecast.asks_done
        if pressure.share < self._thresholds.below and not asked_before:
            self._declined = False
            self._undo_last(scope, place, pressure)
        elif (pressure.share > self._thresholds.above and not self._declined) or asked_before:
            await self._cut_back(scope, place, pressure, ask_person)

    async def _cut_back(self, scope: Scope, place: str, pressure: Pressure, ask_person: AskPerson) -> None:
        """Apply the next rung that changes anything in this team."""
        for rung in self._remaining_rungs():
            lower = rung.lower(self.cutback, self._traits, self._thresholds)
            if lower == self.cutback:
                continue
            text = f"The budget will not last: {_reason_text(pressure)}. Cut back ({rung.name})?"
            question = Question(text=text, choices=(CUT, GO_ON))
            if self._asks_person and not await self._ask_consent(scope, place, question, ask_person):
                self._declined = True
                return
            self._record(scope, place, rung, lower, pressure, undone=False)
            return

    def _undo_last(self, scope: Scope, place: str, pressure: Pressure) -> None:
        """Undo the rung that was applied last."""
        if self._applied:
            rung, before = self._applied[-1]
            self._record(scope, place, rung, before, pressure, undone=True)

    def _remaining_rungs(self) -> Sequence[Rung]:
        return LADDER[LADDER.index(self._applied[-1][0]) + 1 :] if self._applied else LADDER

    def _record(
        self, scope: Scope, place: str, rung: Rung, cutback: Cutback, pressure: Pressure, *, undone: bool
    ) -> None:
        fact = BudgetDegraded(
            rung=rung.name,
            before=getattr(self.cutback, rung.field),
            after=getattr(cutback, rung.field),
            reason=_reason_text(pressure),
            posture=cutback,
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
        else:
            self._applied.append((rung, self.cutback))
        self.cutback = fact.posture

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
    priorities = {member.name: policy_of(member).priority for member in team.members}
    highest = max(priorities.values())
    alike = len(set(priorities.values())) == 1
    for member in team.members:
        lower = member.name != lead if alike else priorities[member.name] < highest
        if lower and policy_of(member).economy is not None:
            yield member.name


def _reason_text(pressure: Pressure) -> str:
    _, what, forecast, limit = pressure
    if what == "usd":
        return f"about ${dollars(round(forecast)):.4g} of ${dollars(round(limit)):.4g} when all is done"
    return f"about {round(forecast)} of {round(limit)} {what} when all is done"


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
