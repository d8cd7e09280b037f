"""Cuts a team's work back, rung by rung, when the forecast says that its budget will not last, and undoes it after.

It decides when an ask begins, and every decision is a fact before it takes effect: a resumed run reads it at the same
ask and never weighs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from teamwright.agents.context import AgentLike
from teamwright.agents.contract import policy_of
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
from teamwright.values.turns.messages import History, Message
from teamwright.values.turns.turn import Tier, Turn

ASKED = "!degrade"
"""Where a person is asked about a rung: beside the ask that is about to begin. No key can be spelt like this."""
CUT, GO_ON = "cut back", "go on"
SHORT = 80
"""Characters that are told of an earlier message."""


class Degradation:
    """The ladder of one team, and how far down it stands."""

    def __init__(self, team: Team, scope: Scope) -> None:
        members = Members(team.members, team.helpers)
        self._team = scope
        self._asks = team.degradation == "ask"
        self._thresholds = AGGRESSIVE if team.degradation == "aggressive" else AUTO
        self._forecast = Forecast(outlook_of(team.strategy, team.settings, members))
        lead = lead_of(team.strategy, team.settings, members)
        self._traits = TeamTraits(team.settings.share, peers_of(team.strategy), frozenset(_thrifty(team, lead)))
        self._taken: list[tuple[Rung, Cutback]] = []
        self._weighed: int = -1
        self._at_work = 0
        self._declined = self._asking = False
        self.cutback = NO_CUTBACK

    @classmethod
    def of(cls, team: AgentLike, scope: Scope) -> Degradation | None:
        """The ladder of a team that has one; a budget must bound it."""
        if not isinstance(team, Team) or team.degradation == "none" or scope.account is None:
            return None
        return cls(team, scope)

    def tier(self, member: AgentLike) -> Tier:
        """Which of its models a member answers with now."""
        return "economy" if self.cutback.economy and member.name in self._traits.thrifty else "primary"

    def shorten(self, turn: Turn) -> Turn:
        """The turn with as much of its history as members get now."""
        return turn if self.cutback.recent is None else compacted(turn, self.cutback.recent)

    def ask_ended(self, key: str) -> None:
        """Count an ask of the team as done."""
        self._at_work -= 1
        self._forecast.heard(relative_key(key, self._team.path))

    async def consider(self, scope: Scope, place: str, ask_person: AskPerson) -> None:
        """Decide, before an ask begins, whether to cut back or to restore something; at most one thing at a time."""
        full, past = join_key(scope.path, place), scope.run.past
        recorded = past.rungs.get(full)
        if recorded is None and full not in past.asks:
            await self._weigh(scope, place, ask_person)
        else:
            if full + ASKED in past.answers and not await self._agreed(scope, place, None, ask_person):
                self._declined = True
            if recorded is not None:
                self._follow(recorded, scope.run)
        self._at_work += 1
        self._traits.busiest = max(self._traits.busiest, self._at_work)

    async def _weigh(self, scope: Scope, place: str, ask_person: AskPerson) -> None:
        asked_before = join_key(scope.path, place + ASKED) in scope.run.past.questions
        if self._asking or (self._forecast.done == self._weighed and not asked_before):
            return
        account = self._team.account
        pressure = account and self._forecast.pressure(self._team.usage, account)
        if pressure is None:
            return
        self._weighed = self._forecast.done
        if pressure.share < self._thresholds.below and not asked_before:
            self._declined = False
            self._let_go(scope, place, pressure)
        elif (pressure.share > self._thresholds.above and not self._declined) or asked_before:
            await self._cut_back(scope, place, pressure, ask_person)

    async def _cut_back(self, scope: Scope, place: str, pressure: Pressure, ask_person: AskPerson) -> None:
        """Take the next rung that changes anything here."""
        for rung in self._rungs_left():
            lower = rung.lower(self.cutback, self._traits, self._thresholds)
            if lower == self.cutback:
                continue
            text = f"The budget will not last: {_reason(pressure)}. Cut back ({rung.name})?"
            question = Question(text=text, choices=(CUT, GO_ON))
            if self._asks and not await self._agreed(scope, place, question, ask_person):
                self._declined = True
                return
            self._record(scope, place, rung, lower, pressure, undone=False)
            return

    def _let_go(self, scope: Scope, place: str, pressure: Pressure) -> None:
        """Undo the last rung."""
        if self._taken:
            rung, before = self._taken[-1]
            self._record(scope, place, rung, before, pressure, undone=True)

    def _rungs_left(self) -> Sequence[Rung]:
        return LADDER[LADDER.index(self._taken[-1][0]) + 1 :] if self._taken else LADDER

    def _record(
        self, scope: Scope, place: str, rung: Rung, cutback: Cutback, pressure: Pressure, *, undone: bool
    ) -> None:
        fact = BudgetDegraded(
            rung=rung.name,
            before=getattr(self.cutback, rung.field),
            after=getattr(cutback, rung.field),
            reason=_reason(pressure),
            posture=cutback,
            undone=undone,
        )
        scope.run.recorder.add(scope.path, place, fact)
        self._follow(fact, scope.run)

    def _follow(self, fact: BudgetDegraded, run: RunState) -> None:
        rung = next((rung for rung in LADDER if rung.name == fact.rung), None)
        if rung is None or (fact.undone and not self._taken):
            done = "undone" if fact.undone else "taken"
            run.differ(None, f"that the rung {fact.rung!r} was {done}", "knows none that could be")
        elif fact.undone:
            self._taken.pop()
        else:
            self._taken.append((rung, self.cutback))
        self.cutback = fact.posture

    async def _agreed(self, scope: Scope, place: str, question: Question | None, ask_person: AskPerson) -> bool:
        """Ask a person, as the record says if it does; meanwhile nobody else of the team is asked about it."""
        recorded = scope.run.past.questions.get(join_key(scope.path, place + ASKED))
        if recorded is not None and isinstance(recorded.fact, PersonAsked):
            question = recorded.fact.question
        assert question is not None
        self._asking = True
        try:
            return (await ask_person(place + ASKED, question)).text == CUT
        finally:
            self._asking = False


def _thrifty(team: Team, lead: str | None) -> Iterator[str]:
    """Who may fall to a cheaper model: those below the highest priority; where all are alike, all but the lead."""
    priorities = {member.name: policy_of(member).priority for member in team.members}
    highest = max(priorities.values())
    alike = len(set(priorities.values())) == 1
    for member in team.members:
        lower = member.name != lead if alike else priorities[member.name] < highest
        if lower and policy_of(member).economy is not None:
            yield member.name


def _reason(pressure: Pressure) -> str:
    _, what, forecast, limit = pressure
    if what == "usd":
        return f"about ${dollars(round(forecast)):.4g} of ${dollars(round(limit)):.4g} when all is done"
    return f"about {round(forecast)} of {round(limit)} {what} when all is done"


def compacted(turn: Turn, recent: int) -> Turn:
    """The turn with only the latest messages whole, and the beginning of each earlier one in a list before them."""
    history = turn.history
    if len(history) <= recent:
        return turn
    earlier, latest = history[: len(history) - recent], history[len(history) - recent :]
    listed = "\n".join(f"- {message.name}: {_beginning(message.content)}" for message in earlier)
    note = Message(name="earlier", content=f"Said before, in short:\n{listed}", role="user")
    return replace(turn, history=History.of((note, *latest)))


def _beginning(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= SHORT else line[: SHORT - 1] + "…"
