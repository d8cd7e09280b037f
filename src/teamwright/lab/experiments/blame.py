"""Tries to fix a run: forks it before each suspect, with a hint or another model, and counts the good ends.

Only a fork that was tried says anything: what is left of a suspect without one is a guess, and is reported as that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from teamwright.errors import UsageError
from teamwright.history.kpis import turns_of
from teamwright.history.run_history import RunHistory
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import Experiment, OutOfBudget
from teamwright.lab.experiments.statistics import Interval, wilson
from teamwright.lab.experiments.suspects import StepText, Suspect, suspects
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentFailed
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.key import join_key, without_attempts
from teamwright.values.limits import Limits
from teamwright.values.people import Tell
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL, RunResult
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team

PREFIX, BY, DIGITS = "blame", "blame", 10
HINT = (
    "An earlier attempt of this team ended badly, perhaps because of this step. Take care: check each fact, each"
    " requirement of the task, the arguments of tools and the plan before you answer."
)
"""It says nothing of what is expected, which a member could repeat."""
Passes = Callable[[RunResult], Awaitable[bool]]


class Fixed(Record, frozen=True):
    """A suspect, and in how many of the forks before it the end was good; `tried` is 0 where nothing was tried."""

    suspect: Suspect
    tried: int = 0
    fixed: int = 0
    rate: Interval | None = None
    run_ids: tuple[str, ...] = ()


def steps_of(history: RunHistory) -> list[StepText]:
    """The turns of a run with what they said, as suspects are found in them."""
    asked = {one.key: one.number for one in history.events if isinstance(one.fact, AgentAsked)}
    verdicts = {
        join_key(one.scope, one.fact.work): one.fact.verdict
        for one in history.events
        if isinstance(one.fact, TeamEvaluationResult)
    }
    calls = ((one.key, one.fact) for one in history.events)
    tools = {key: fact.name for key, fact in calls if isinstance(fact, AgentCalled) and fact.effect == "tool"}
    failed = [one for one in history.events if isinstance(one.fact, AgentCallFailed) and one.key in tools]
    found: list[StepText] = []
    for turn in turns_of(history.events):
        if turn.purpose == "judge":
            continue
        ask, verdict = history.record.asks[turn.key], verdicts.get(turn.key)
        ending = ask.ending
        messages = () if ending is None else history.record.bodies.messages(ending.messages)
        found.append(
            StepText(
                turn.key,
                turn.member,
                "\n".join(one.content for one in messages),
                number=asked[turn.key],
                failure=ending.message if isinstance(ending, AgentFailed) and turn.status == "failed" else "",
                not_passed="" if verdict is None or verdict.passes else verdict.feedback or verdict.outcome,
                failed_tools=tuple(dict.fromkeys(tools[one.key] for one in failed if one.scope == turn.key)),
            )
        )
    return found


@dataclass(frozen=True)
class Blame:
    """Forks of one run before its suspects, `tries` times each. The money and the width are those of the experiment."""

    experiment: Experiment
    history: RunHistory
    case: Case | None
    team: Callable[[str], Team]
    """Makes the team with another model for this member, or the team of the run."""
    tries: int
    hint: str = HINT
    model: str = ""

    @cached_property
    def run_id(self) -> str:
        """The run that went wrong."""
        return self.history.events[0].run_id

    def named(self) -> list[Suspect]:
        """All steps, the most suspicious first."""
        return suspects(self.history.task, steps_of(self.history))

    async def passes(self, result: RunResult) -> bool:
        """Whether the end of a run is good: by what the case expects, else by the run and its own reviews."""
        if self.case is not None:
            grade, _ = await self.experiment.grade(self.case, result, result.run_id)
            return grade.passed
        if result.output_kind != "answer":
            return False
        events = await self.experiment.engine.journal.read(result.run_id)
        verdicts = {one.fact.work: one.fact.verdict for one in events if isinstance(one.fact, TeamEvaluationResult)}
        last = {without_attempts(work): verdict for work, verdict in verdicts.items()}
        return all(verdict.passes for verdict in last.values())

    async def check(self) -> None:
        """Raise `UsageError` if the run has not ended, or its end is good."""
        result = self.history.result("running")
        if result.status not in FINAL:
            raise UsageError(
                f"Run {self.run_id!r} has not ended ({result.status}), so nothing can be blamed for its end."
            )
        if await self.passes(result):
            raise UsageError(
                f"Run {self.run_id!r} ended well, as far as it knows; say what is expected of it:"
                f"  teamwright runs blame {self.run_id} TEXT  or  --from FILE"
            )

    async def tried(self, chosen: Sequence[Suspect]) -> list[Fixed]:
        """Fork the run before each of the chosen suspects; the one that fixed it most often first.

        A fork before a step does everything after it again, too: of steps that fix equally often the last one counts.
        Those that were not tried keep their order.
        """
        jobs = [partial(self._try, one, number) for one in chosen for number in range(1, self.tries + 1)]
        outcomes = await self.experiment.side_by_side(jobs)
        found = [
            _fixed(one, [done for done in outcomes if done[0] == one.key and done[2] is not None]) for one in chosen
        ]
        tried = sorted(
            (one for one in found if one.rate), key=lambda one: (-one.fixed / one.tried, -one.suspect.number)
        )
        return [*tried, *(one for one in found if not one.rate)]

    async def _try(self, suspect: Suspect, number: int) -> tuple[str, str, bool | None]:
        """Fork once; returns the key of the suspect, the fork, and whether its end is good, None if it was too dear."""
        changed = digest(self.run_id, suspect.key, self.hint, self.model)[:DIGITS]
        run_id, make = f"{PREFIX}-{changed}.{number}", partial(self.team, suspect.member)
        try:
            result = await self.experiment.carry_out(run_id, make, partial(self._fork, suspect, run_id, make))
            return suspect.key, result.run_id, await self.passes(result)
        except OutOfBudget:
            return suspect.key, run_id, None

    async def _fork(self, suspect: Suspect, run_id: str, make: Callable[[], Team], limits: Limits | None) -> Handle:
        engine = self.experiment.engine
        if self.hint and not await engine.journal.inbox(run_id):
            await engine.journal.send(run_id, Tell(text=self.hint, to=suspect.member, by=BY))
        before = suspect.number - 1
        return await engine.start_fork(self.run_id, at=before, team=make(), new_id=run_id, limits=limits)


def _fixed(suspect: Suspect, outcomes: Sequence[tuple[str, str, bool | None]]) -> Fixed:
    good = sum(bool(passed) for _, _, passed in outcomes)
    rate = wilson(good / len(outcomes), len(outcomes)).rounded() if outcomes else None
    ids = tuple(run_id for _, run_id, _ in outcomes)
    return Fixed(suspect=suspect, tried=len(outcomes), fixed=good, rate=rate, run_ids=ids)
