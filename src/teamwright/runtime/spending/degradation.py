"""Cuts a team's work back, rung by rung, when the forecast says that its budget will not last, and undoes it after.

It decides when an ask begins, and every decision is a fact before it takes effect: a resumed run reads it at the same
ask and never weighs again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from teamwright.agents.protocol import Agent
from teamwright.budget.money import dollars
from teamwright.runtime.spending.forecast import Forecast, Pressure
from teamwright.runtime.spending.ladder import AGGRESSIVE, AUTO, LADDER, Crew, Rung
from teamwright.strategies.estimate import outlook_of
from teamwright.strategies.protocol import Members, lead_of
from teamwright.teams.team import Team
from teamwright.values.degradation import AT_EASE, Posture
from teamwright.values.events.budget import BudgetDegraded
from teamwright.values.events.person import PersonAsked
from teamwright.values.key import join_key, relative_key
from teamwright.values.messages import History, Message
from teamwright.values.people import Question
from teamwright.values.turns import Tier, Turn

if TYPE_CHECKING:
    from teamwright.runtime.context.context import RunContext
    from teamwright.runtime.run_state import RunState

ASKED = "!degrade"
"""Where a person is asked about a rung: beside the ask that is about to begin. No key can be spelt like this."""
CUT, GO_ON = "cut back", "go on"
SHORT = 80
"""Characters that are told of an earlier message."""


class Degradation:
    """The ladder of one team, and how far down it stands."""

    def __init__(self, team: Team, context: RunContext) -> None:
        members = Members(team.members, team.helpers)
        self._team = context
        self._asks = team.degradation == "ask"
        self._strength = AGGRESSIVE if team.degradation == "aggressive" else AUTO
        self._forecast = Forecast(outlook_of(team.strategy, team.settings, members))
        lead = lead_of(team.strategy, team.settings, members)
        self._crew = Crew(team.settings.share, getattr(team.strategy, "peers", False), frozenset(_thrifty(team, lead)))
        self._taken: list[tuple[Rung, Posture]] = []
        self._weighed: int = -1
        self._at_work = 0
        self._declined = self._asking = False
        self.posture = AT_EASE

    @classmethod
    def of(cls, team: Agent, context: RunContext) -> Degradation | None:
        """The ladder of a team that has one; a budget must bound it."""
        if not isinstance(team, Team) or team.degradation == "none" or context.account is None:
            return None
        return cls(team, context)

    def tier(self, member: Agent) -> Tier:
        """Which of its models a member answers with now."""
        return "economy" if self.posture.economy and member.name in self._crew.thrifty else "primary"

    def told(self, turn: Turn) -> Turn:
        """What a member is told now of what it would be told at ease."""
        return turn if self.posture.recent is None else compacted(turn, self.posture.recent)

    def ended(self, key: str) -> None:
        """An ask of the team has ended."""
        self._at_work -= 1
        self._forecast.heard(relative_key(key, self._team.path))

    async def consider(self, context: RunContext, place: str) -> None:
        """See, before an ask begins, whether something is to be cut back or given free; at most one thing at a time."""
        full, past = join_key(context.path, place), context.run.past
        recorded = past.rungs.get(full)
        if recorded is None and full not in past.asks:
            await self._weigh(context, place)
        else:
            if full + ASKED in past.answers and not await self._agreed(context, place, None):
                self._declined = True
            if recorded is not None:
                self._follow(recorded, context.run)
        self._at_work += 1
        self._crew.busiest = max(self._crew.busiest, self._at_work)

    async def _weigh(self, context: RunContext, place: str) -> None:
        asked_before = join_key(context.path, place + ASKED) in context.run.past.questions
        if self._asking or (self._forecast.done == self._weighed and not asked_before):
            return
        account = self._team.account
        pressure = account and self._forecast.pressure(self._team.usage, account)
        if pressure is None:
            return
        self._weighed = self._forecast.done
        if pressure.share < self._strength.below and not asked_before:
            self._declined = False
            self._let_go(context, place, pressure)
        elif (pressure.share > self._strength.above and not self._declined) or asked_before:
            await self._cut_back(context, place, pressure)

    async def _cut_back(self, context: RunContext, place: str, pressure: Pressure) -> None:
        """Take the next rung that changes anything here."""
        for rung in self._rungs_left():
            lower = rung.lower(self.posture, self._crew, self._strength)
            if lower == self.posture:
                continue
            text = f"The budget will not last: {_reason(pressure)}. Cut back ({rung.name})?"
            if self._asks and not await self._agreed(context, place, Question(text=text, choices=(CUT, GO_ON))):
                self._declined = True
                return
            self._record(context, place, rung, lower, pressure, undone=False)
            return

    def _let_go(self, context: RunContext, place: str, pressure: Pressure) -> None:
        """Undo the last rung."""
        if self._taken:
            rung, before = self._taken[-1]
            self._record(context, place, rung, before, pressure, undone=True)

    def _rungs_left(self) -> Sequence[Rung]:
        return LADDER[LADDER.index(self._taken[-1][0]) + 1 :] if self._taken else LADDER

    def _record(
        self, context: RunContext, place: str, rung: Rung, posture: Posture, pressure: Pressure, *, undone: bool
    ) -> None:
        fact = BudgetDegraded(
            rung=rung.name,
            before=getattr(self.posture, rung.field),
            after=getattr(posture, rung.field),
            reason=_reason(pressure),
            posture=posture,
            undone=undone,
        )
        context.run.recorder.add(context.path, place, fact)
        self._follow(fact, context.run)

    def _follow(self, fact: BudgetDegraded, run: RunState) -> None:
        rung = next((rung for rung in LADDER if rung.name == fact.rung), None)
        if rung is None or (fact.undone and not self._taken):
            done = "undone" if fact.undone else "taken"
            run.differ(None, f"that the rung {fact.rung!r} was {done}", "knows none that could be")
        elif fact.undone:
            self._taken.pop()
        else:
            self._taken.append((rung, self.posture))
        self.posture = fact.posture

    async def _agreed(self, context: RunContext, place: str, question: Question | None) -> bool:
        """Ask a person, as the record says if it does; meanwhile nobody else of the team is asked about it."""
        recorded = context.run.past.questions.get(join_key(context.path, place + ASKED))
        if recorded is not None and isinstance(recorded.fact, PersonAsked):
            question = recorded.fact.question
        assert question is not None
        self._asking = True
        try:
            return (await context.ask_person_at(place + ASKED, question)).text == CUT
        finally:
            self._asking = False


def _thrifty(team: Team, lead: str | None) -> Iterator[str]:
    """Who may fall to a cheaper model: those below the highest priority; where all are alike, all but the lead."""
    priorities = {member.name: int(getattr(member, "priority", 0)) for member in team.members}
    highest = max(priorities.values())
    alike = len(set(priorities.values())) == 1
    for member in team.members:
        lower = member.name != lead if alike else priorities[member.name] < highest
        if lower and getattr(member, "economy", None) is not None:
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
