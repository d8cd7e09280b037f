"""Names the steps of a run whose change could fix it, and tries them: it forks the run before each, with a hint or
another model, and counts the good ends.

Suspects are named from texts and outcomes in the record, and no one is asked. A name is a guess until a fork has tried
it, and is reported as that.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING

from teamwright.errors import UsageError
from teamwright.history.kpis import turns_of
from teamwright.history.run_history import RunHistory
from teamwright.lab.experiments.dataset import Case
from teamwright.lab.experiments.experiment import Experiment, OutOfBudget
from teamwright.lab.experiments.statistics import Interval, wilson
from teamwright.values.events.agent import AgentAsked, AgentCalled, AgentCallFailed, AgentFailed
from teamwright.values.events.team import TeamEvaluationResult
from teamwright.values.limits import Limits
from teamwright.values.people import Tell
from teamwright.values.run_keys import join_key, without_attempts
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL, RunResult
from teamwright.values.value import Record

if TYPE_CHECKING:
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team


FAILED, NOT_PASSED, TOOL_FAILED, NAMED, DOUBTED, MADE_UP, LOST, NEW_NUMBER = 3.0, 3.0, 2.0, 2.0, 1.0, 1.5, 1.0, 0.5
EARLY = 0.3
"""The advantage of the first step over the last, where nothing else speaks for either: faults spread forwards."""
MOST_SHOWN = 3
_DOUBT = re.compile(
    r"\b(wrong|incorrect|mistakes?|errors?|inaccurate|contradicts?|inconsistent|not (?:correct|right|true)|"
    r"doesn't match|does not match|discrepanc(?:y|ies))\b",
    re.IGNORECASE,
)
_MADE_UP = re.compile(
    r"\b(assum(?:e|es|ed|ing|ption|ptions)|simulated?|hypothetical|suppose|placeholder|made[- ]up|mock)\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"(?<![\w.])\d+(?:[.,]\d+)*(?![\w])")
_TERM = re.compile(r"\"([^\"\n]{2,60})\"|\b([A-Z]{2,}[A-Z0-9-]*|[A-Za-z]+-\d+)\b")


@dataclass(frozen=True, slots=True)
class StepText:
    """One step of a run: what it was asked and said, and how it ended. `number` is that of the event that began it."""

    key: str
    member: str
    text: str
    number: int = 0
    failure: str = ""
    not_passed: str = ""
    failed_tools: tuple[str, ...] = ()


class Suspect(Record, frozen=True):
    """A step whose change could fix the run, and why, with the strongest sign first."""

    key: str
    member: str
    number: int
    score: float
    why: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Sign:
    place: int
    weight: float
    why: str


def suspects(task: str, steps: Sequence[StepText]) -> list[Suspect]:
    """Return all steps, the most suspicious first."""
    signs = [*_outcomes(steps), *_doubts(steps), *_contents(task, steps)]
    found: list[Suspect] = []
    for place, step in enumerate(steps):
        own = sorted((one for one in signs if one.place == place), key=lambda one: -one.weight)
        early = EARLY * (1 - place / len(steps))
        why = tuple(dict.fromkeys(one.why for one in own))[:MOST_SHOWN]
        score = round(sum(one.weight for one in own) + early, 3)
        found.append(Suspect(key=step.key, member=step.member, number=step.number, score=score, why=why))
    return sorted(found, key=lambda one: -one.score)


def _outcomes(steps: Sequence[StepText]) -> Iterator[_Sign]:
    for place, step in enumerate(steps):
        if step.failure:
            yield _Sign(place, FAILED, f"it failed: {step.failure}")
        if step.not_passed:
            yield _Sign(place, NOT_PASSED, f"its review did not pass: {step.not_passed}")
        for tool in step.failed_tools:
            yield _Sign(place, TOOL_FAILED, f"its tool {tool} failed")


def _doubts(steps: Sequence[StepText]) -> Iterator[_Sign]:
    """Steps that a later one doubts: those of a member that it names, else the one before it by another member."""
    names = {step.member for step in steps}
    for place, step in enumerate(steps):
        if not _DOUBT.search(step.text):
            continue
        others = {name for name in names - {step.member} if re.search(rf"\b{re.escape(name)}\b", step.text)}
        before = range(place - 1, -1, -1)
        why = f"{step.member} doubts it"
        if others:
            for name in others:
                earlier = next((one for one in before if steps[one].member == name), None)
                if earlier is not None:
                    yield _Sign(earlier, NAMED, why)
        elif (earlier := next((one for one in before if steps[one].member != step.member), None)) is not None:
            yield _Sign(earlier, DOUBTED, why)


def _contents(task: str, steps: Sequence[StepText]) -> Iterator[_Sign]:
    """What steps made up, left out, or said in numbers that no one had given them."""
    numbers, kept = set(_NUMBER.findall(task)), _terms(task)
    for place, step in enumerate(steps):
        if found := _MADE_UP.search(step.text):
            yield _Sign(place, MADE_UP, f"it makes something up ({found[0].lower()!r})")
        own = set(_NUMBER.findall(step.text))
        if new := sorted(own - numbers):
            yield _Sign(place, NEW_NUMBER, f"it is the first to say {', '.join(new[:3])}")
        numbers |= own
        lost = sorted(one for one in kept if one.casefold() not in step.text.casefold())
        if lost and (len(lost) < len(kept) or place == 0):
            yield _Sign(place, LOST, f"it leaves out {', '.join(map(repr, lost[:3]))}")
        kept = kept - set(lost) if lost else kept


def _terms(text: str) -> set[str]:
    """What a task names exactly: texts in quotes, abbreviations and identifiers."""
    return {quoted or word for quoted, word in _TERM.findall(text)}


def baseline_member(steps: Sequence[StepText]) -> str:
    """The most frequent speaker: the guess that a naming has to beat."""
    names = [step.member for step in steps]
    return max(dict.fromkeys(names), key=names.count)


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
