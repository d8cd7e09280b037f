"""An experiment: teams on a data set, each attempt a run whose id follows from what it measures.

So the journal is the state of an experiment: carried out again, it goes on where it was, and pays for no run twice. A
team, a task or a criterion that was changed has other ids and is measured again. A team is its manifest, the files that
it names and the Python code beside it, but not the folders that its tools work in. Money is reserved before each run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio

from teamwright.errors import RunIsLive, TeamwrightError, UsageError
from teamwright.lab.experiments.dataset import Case, DataSet
from teamwright.lab.experiments.grades import (
    Grade,
    MakeGrader,
    expectation_grade,
    joined,
    verdict_grade,
)
from teamwright.teams.manifests.manifest_loader import LOCAL, relocate
from teamwright.values.events.agent import AgentCallFailed, AgentReturned
from teamwright.values.events.budget import BudgetRefused
from teamwright.values.limits import Limits
from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.tools import FILES
from teamwright.values.turns.messages import digest
from teamwright.values.turns.results import FINAL, RunResult, RunSummary, Status
from teamwright.values.value import JsonValue, Record

if TYPE_CHECKING:
    from teamwright.history.run_history import RunHistory
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.handle import Handle
    from teamwright.teams.team import Team


SECTIONS = {"agents": "agent", "models": "model", "tools": "tool"}
WORKED_IN = frozenset((FILES, LOCAL, "mcp", "sandbox"))
"""Paths of these kinds are not part of a team: the folders of its work, and the weights of a model that has a name."""
SKIPPED, ENVIRONMENT = frozenset(("__pycache__", "node_modules")), "pyvenv.cfg"
CODE = ".py"
MOST_FILES = 20_000


def team_identity(source: Source, name: str = "") -> str:
    """Return the identity of a team; another `name` makes it another team."""
    base = Path(source.base)
    manifest = source.manifest.model_dump_json(exclude_defaults=True)
    files = sorted({*_files_in(base, CODE), *_named(source, base)})
    return digest(name, source.team, manifest, *(_digest_of(one) for one in files))


def files_digest(folder: Path, files: tuple[str, ...]) -> str:
    """Return the digest of some files in a folder: their names and contents; empty for none."""
    return digest("", *(f"{one} {_digest_of(folder / one)}" for one in files)) if files else ""


def _named(source: Source, base: Path) -> Iterator[Path]:
    """Yield the files that a manifest names, and those in the folders that it names."""
    found: list[Path] = []

    def keep(kind: str, written: str) -> str:
        if kind not in WORKED_IN:
            found.append(base / written)
        return written

    data: dict[str, dict[str, JsonValue]] = source.manifest.model_dump(mode="json", exclude_unset=True)
    for section, kind in SECTIONS.items():
        for value in data.get(section, {}).values():
            relocate(kind, value, keep)
    for path in found:
        yield from _files_in(path) if path.is_dir() else [path]


def _files_in(folder: Path, suffix: str = "") -> Iterator[Path]:
    """Yield the files below a folder but hidden ones and those of other programs, with this suffix if there is one."""
    number = 0
    for parent, folders, names in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".") and one not in SKIPPED]
        if ENVIRONMENT in names:
            folders.clear()
            continue
        for one in names:
            if one.endswith(suffix) and not one.startswith("."):
                number += 1
                yield Path(parent, one)
        if number > MOST_FILES:
            raise UsageError(f"{str(folder)!r} has more than {MOST_FILES} files, so what is measured can't be told.")


def _digest_of(file: Path) -> str:
    try:
        return blake2b(file.read_bytes(), digest_size=16).hexdigest() if file.is_file() else ""
    except OSError as error:
        raise UsageError(f"The file {str(file)!r} can't be read: {error.strerror}.") from error


PREFIX = "eval"
WORTH_IT = 1.5
"""A run that was cut goes on if it may then spend so many times as much."""
UNLIMITED = 1e6
"""Dollars that stand for no limit, where a run that had one goes on without."""
WAIT = 0.1
"""Seconds between two looks at a run that another process drives."""
LONGEST_SLUG, DIGITS, CASE_DIGITS = 20, 8, 10
_T = TypeVar("_T")
Progress = Callable[[int, int], None]


class CaseAttempt(Record, frozen=True):
    """One attempt of a variant at a case. `passed` is None where the budget of the experiment did not suffice.

    `usd` is None where no price is known. `judge_usd` is what its grade cost.
    """

    case: str
    attempt: int
    variant: str
    run_id: str
    status: Status
    passed: bool | None
    score: float | None = None
    reason: str = ""
    usd: float | None = None
    judge_usd: float | None = None
    tokens: int = 0
    seconds: float = 0.0


class JudgedLabel(Record, frozen=True):
    """What the judge said of an answer that people have labelled, and again with its criteria in reverse order."""

    case: str
    author: str
    label: bool
    passed: bool
    score: float | None = None
    reversed_passed: bool | None = None


@dataclass(frozen=True)
class Variant:
    """A team to measure. `identity` is the digest of all that may change its answers; `forks` continues its runs."""

    name: str
    make: Callable[[], Team]
    identity: str
    forks: Variant | None = None

    def run_id(self, case: Case, attempt: int, files: str = "") -> str:
        """The id of the run of an attempt at a case, whose files have this digest."""
        slug = re.sub(r"[^A-Za-z0-9_-]+", "-", case.id).strip("-")[:LONGEST_SLUG] or "case"
        asked = digest(case.id, case.task, *([files] if files else []))[:CASE_DIGITS]
        return f"{PREFIX}-{self.identity[:DIGITS]}-{slug}-{asked}.{attempt}"


class OutOfBudget(Exception):
    """No money is left for another run."""


@dataclass(slots=True)
class Purse:
    """The money of an experiment: what its runs have spent, and what those under way may spend at most.

    A run gets an equal share of what is free, so that all that run at once together can't exceed it.
    """

    most: float | None
    slots: int
    spent: float = 0.0
    reserved: dict[str, float] = field(default_factory=dict[str, float])

    def reserve(self, run_id: str) -> Limits | None:
        """Reserve the share of a run; raises `OutOfBudget`."""
        if self.most is None:
            return None
        free = self.most - self.spent - sum(self.reserved.values())
        share = free / max(1, self.slots - len(self.reserved))
        if share <= 1e-9:
            raise OutOfBudget
        self.reserved[run_id] = share
        return Limits(usd=share)

    def settle(self, run_id: str, spent: float) -> None:
        """Replace the share of a run by what it has spent."""
        self.reserved.pop(run_id, None)
        self.spent += spent


@dataclass(frozen=True)
class Experiment:
    """Variants on the cases of a data set, so many attempts each, at most `limit` runs at once."""

    engine: Engine
    data: DataSet
    variants: Sequence[Variant]
    grader: MakeGrader
    judged_by: Evaluate | None = None
    """The evaluation of labelled answers where neither the case nor the data set has one."""
    attempts: int = 1
    limit: int = 4
    most_usd: float | None = None
    folder: Path = field(default_factory=Path)
    """Where the files of cases are."""
    progress: Progress = lambda _done, _total: None
    _under_way: set[str] = field(default_factory=set[str])
    """The runs that this process drives."""

    @cached_property
    def purse(self) -> Purse:
        return Purse(self.most_usd, self.limit)

    @cached_property
    def _files(self) -> dict[str, str]:
        """The digests of the files of cases, as they are when the experiment begins."""
        return {case.id: files_digest(self.folder, case.files) for case in self.data.cases}

    def run_id(self, variant: Variant, case: Case, attempt: int) -> str:
        """The id of the run of an attempt."""
        return variant.run_id(case, attempt, self._files[case.id])

    async def run(self) -> list[CaseAttempt]:
        """Carry out what is not recorded yet, and return all trials in the order of the cases."""
        jobs = list(self._jobs())
        if self.most_usd is not None:
            await self._count_recorded(jobs)
        found: list[CaseAttempt] = []
        for forks in (False, True):  # a fork needs the run that it continues
            due = [job for job in jobs if (job[0].forks is not None) == forks]
            found += await self.side_by_side([partial(self._trial, *job) for job in due])
        if self.most_usd is not None and any(one.passed is None for one in found):
            self.purse.slots = 1  # one after another, each may have all that is left
            found = [await self._trial(*job) for job in jobs]
        order = {case.id: number for number, case in enumerate(self.data.cases)}
        names = [variant.name for variant in self.variants]
        return sorted(found, key=lambda one: (names.index(one.variant), order[one.case], one.attempt))

    def _jobs(self) -> Iterator[tuple[Variant, Case, int]]:
        """All attempts, so that what a budget cuts off is the last attempts of all variants."""
        for attempt in range(1, self.attempts + 1):
            for case in self.data.cases:
                for variant in self.variants:
                    yield variant, case, attempt

    async def labels(self) -> list[JudgedLabel]:
        """Let the judge grade the labelled answers, also with its criteria in reverse order."""
        jobs = [
            partial(self._label, case, declared)
            for case in self.data.cases
            if case.is_labelled and (declared := self.data.evaluation(case) or self.judged_by) is not None
        ]
        return [one for one in await self.side_by_side(jobs) if one is not None]

    async def side_by_side(self, jobs: Sequence[Callable[[], Awaitable[_T]]]) -> list[_T]:
        """Do the jobs, `limit` of them at once; the results are in the order of the jobs."""
        waiting, found = iter(enumerate(jobs)), dict[int, _T]()

        async def work() -> None:
            for number, job in waiting:
                found[number] = await job()
                self.progress(len(found), len(jobs))

        try:
            async with anyio.create_task_group() as group:
                for _ in range(min(self.limit, len(jobs))):
                    group.start_soon(work)
        except* TeamwrightError as errors:  # the first mistake is that of all
            raise errors.exceptions[0] from None
        return [found[number] for number in range(len(jobs))]

    async def _trial(self, variant: Variant, case: Case, attempt: int) -> CaseAttempt:
        run_id = self.run_id(variant, case, attempt)
        trial = CaseAttempt(
            case=case.id, attempt=attempt, variant=variant.name, run_id=run_id, status="queued", passed=None,
            reason="the budget of the experiment is spent",
        )  # fmt: skip
        try:
            if variant.forks is None:
                begin = partial(self._start, variant, case, run_id)
            else:
                sources = await self._chain(self.run_id(variant.forks, case, attempt))
                if not sources:
                    raise OutOfBudget
                begin = partial(self._fork, variant, sources[-1], run_id)
            result = await self.carry_out(run_id, variant.make, begin)
            run_id = result.run_id
            if result.stop_reason == "quota":
                return trial.changed(run_id=run_id, status=result.status, reason="it waits for a provider's limit")
            grade, judge_usd = await self.grade(case, result, run_id)
        except OutOfBudget:
            return trial
        return trial.changed(
            run_id=run_id,
            status=result.status,
            passed=grade.passed,
            score=grade.score,
            reason=grade.reason,
            usd=result.usage.usd,
            judge_usd=judge_usd,
            tokens=result.usage.total_tokens,
            seconds=result.seconds,
        )

    async def _start(self, variant: Variant, case: Case, run_id: str, limits: Limits | None) -> Handle:
        files = [self.folder / file for file in case.files]
        return await self.engine.start(variant.make(), case.task, run_id=run_id, attachments=files, limits=limits)

    async def _fork(self, variant: Variant, source: str, run_id: str, limits: Limits | None) -> Handle:
        return await self.engine.start_fork(source, team=variant.make(), new_id=run_id, limits=limits)

    async def carry_out(
        self, run_id: str, make: Callable[[], Team], begin: Callable[[Limits | None], Awaitable[Handle]]
    ) -> RunResult:
        """Return the result of a run: from the record, else after it was begun or resumed.

        One that its share of the money was too small for goes on in a fork, as soon as there is enough for it.
        """
        result, number = await self._driven(run_id, make, begin), 2
        while (had := await self._cut_at(result, make)) is not None:
            result = await self._driven(f"{run_id}-{number}", make, partial(self._extend, result, had, number, make))
            number += 1
        return result

    async def _cut_at(self, result: RunResult, make: Callable[[], Team]) -> float | None:
        """The money that an experiment gave a run, if it was too little, and no limit of the team itself; else None."""
        own = make().policy.limits
        if result.stop_reason != "budget" or (own is not None and own.bounds_spend):
            return None
        given = (await self.engine.runs.history(result.run_id)).started.limits
        return None if given is None or given.usd == UNLIMITED else given.usd

    async def _extend(
        self, cut: RunResult, had: float, number: int, make: Callable[[], Team], limits: Limits | None
    ) -> Handle:
        """Fork a run that was cut, with more money; raises `OutOfBudget` if it would be cut again at once."""
        may = UNLIMITED if limits is None else (limits.usd or 0.0) + (cut.usage.usd or 0.0)
        if may < WORTH_IT * had:
            raise OutOfBudget
        new = f"{cut.run_id.removesuffix(f'-{number - 1}') if number > 2 else cut.run_id}-{number}"
        at = _before_refusal(await self.engine.runs.history(cut.run_id))
        return await self.engine.start_fork(cut.run_id, at=at, team=make(), new_id=new, limits=Limits(usd=may))

    async def _driven(
        self, run_id: str, make: Callable[[], Team], begin: Callable[[Limits | None], Awaitable[Handle]]
    ) -> RunResult:
        """Return the result of a run that this process drives, or waits for while another one does."""
        while True:
            known = await self.engine.journal.find(run_id)
            if known is not None and known.status in FINAL:
                return await self.engine.runs.result(run_id)
            if run_id not in self._under_way:  # as the grade of an answer is that is there twice
                with suppress(RunIsLive):
                    handle, result = await self._drive(run_id, known, make, begin)
                    if handle.drives or result.status in FINAL:
                        return result
                if self.most_usd is not None:
                    raise _other_process(run_id)
            await anyio.sleep(WAIT)
            await self.engine.runs.wait(run_id)

    async def _drive(
        self,
        run_id: str,
        known: RunSummary | None,
        make: Callable[[], Team],
        begin: Callable[[Limits | None], Awaitable[Handle]],
    ) -> tuple[Handle, RunResult]:
        limits = self.purse.reserve(run_id)
        self._under_way.add(run_id)
        try:
            handle = await begin(limits) if known is None else await self.engine.start_resume(run_id, team=make())
            result = await handle.result()
        except BaseException:
            self.purse.reserved.pop(run_id, None)
            raise
        finally:
            self._under_way.discard(run_id)
        if self.most_usd is not None:
            self.purse.settle(run_id, await self._spent(run_id))
        return handle, result

    async def _chain(self, run_id: str) -> list[str]:
        """The recorded run of this id, and the forks in which it went on; the last one counts."""
        found: list[str] = []
        while await self.engine.journal.find(run_id if not found else f"{run_id}-{len(found) + 1}") is not None:
            found.append(run_id if not found else f"{run_id}-{len(found) + 1}")
        return found

    async def _count_recorded(self, jobs: Sequence[tuple[Variant, Case, int]]) -> None:
        for variant, case, attempt in jobs:
            await self._count(self.run_id(variant, case, attempt), case)
        for case in self.data.cases:
            if case.is_labelled and (declared := self.data.evaluation(case) or self.judged_by) is not None:
                await self._count_grades(_label_id(case), declared)
                await self._count_grades(_label_id(case), _turned(declared))

    async def _count(self, run_id: str, case: Case) -> None:
        """Count what a run and its grades have cost already, before any other one is begun."""
        declared = self.data.evaluation(case)
        for one in await self._chain(run_id):
            await self._count_run(one)
            if declared is not None:
                await self._count_grades(one, declared)

    async def _count_grades(self, run_id: str, declared: Evaluate) -> None:
        for one in await self._chain(_grading_id(run_id, declared)):
            await self._count_run(one)

    async def _count_run(self, run_id: str) -> None:
        self.purse.settle(run_id, await self._spent(run_id))

    async def _spent(self, run_id: str) -> float:
        """What the calls of a run cost, without those that a fork inherited."""
        history = await self.engine.runs.history(run_id)
        calls = (e.fact for e in history.events if e.number > history.record.inherited)
        return sum(one.usage.usd or 0.0 for one in calls if isinstance(one, AgentReturned | AgentCallFailed))

    async def grade(self, case: Case, result: RunResult, run_id: str) -> tuple[Grade, float | None]:
        """The grade of a result, and what it cost."""
        if result.output_kind != "answer":
            why = result.failure.message if result.failure else result.stop_reason or ""
            return Grade(False, None if self.data.evaluation(case) is None else 0.0, f"{result.status}: {why}"), None
        grades = [one] if (one := expectation_grade(case, result)) else []
        declared, usd = self.data.evaluation(case), None
        if declared is not None:
            graded = await self._graded(declared, run_id, case.task, result.output or "", result.data)
            grades.append(verdict_grade(graded))
            usd = graded.usage.usd
        return joined(grades) if grades else Grade(True), usd

    async def _graded(self, declared: Evaluate, run_id: str, task: str, work: str, data: JsonValue = None) -> RunResult:
        """The result of the run that grades an answer."""
        if not work.strip():
            return RunResult(run_id=run_id, status="failed", output=None)
        grading, make = _grading_id(run_id, declared), partial(self.grader, declared, task, data)

        async def begin(limits: Limits | None) -> Handle:
            return await self.engine.start(make(), work, run_id=grading, limits=limits)

        return await self.carry_out(grading, make, begin)

    async def _label(self, case: Case, declared: Evaluate) -> JudgedLabel | None:
        """What the judge says of a labelled answer; `None` where the budget does not suffice."""
        try:
            return await self._judged_label(case, declared)
        except OutOfBudget:
            return None

    async def _judged_label(self, case: Case, declared: Evaluate) -> JudgedLabel:
        work, named = case.output or "", _label_id(case)
        grade = verdict_grade(await self._graded(declared, named, case.task, work))
        other: bool | None = None
        if sum(one.judge is not None for one in declared.criteria) > 1:
            other = verdict_grade(await self._graded(_turned(declared), named, case.task, work)).passed
        return JudgedLabel(
            case=case.id, author=case.author, label=case.label == "pass", passed=grade.passed, score=grade.score,
            reversed_passed=other,
        )  # fmt: skip


def _other_process(run_id: str) -> UsageError:
    """The error where there is a budget, which can't bound what another process spends beside this one."""
    return UsageError(
        f"Another process carries out this experiment: it drives the run {run_id!r}. Wait until it is done; then the"
        " same command goes on where it stopped."
    )


def _before_refusal(history: RunHistory) -> int | None:
    """The last event before the first turn that was refused a call: asked again, that turn knows of more money."""
    refused = (event.scope for event in history.events if isinstance(event.fact, BudgetRefused))
    turns = (history.record.asks.get(history.record.turn_of(scope)) for scope in refused)
    return min((turn.number - 1 for turn in turns if turn is not None), default=None)


def _turned(declared: Evaluate) -> Evaluate:
    """The same criteria in reverse order."""
    return declared.model_copy(update={"criteria": declared.criteria[::-1]})


def _label_id(case: Case) -> str:
    return f"{PREFIX}-label-{digest(case.task, case.output or '')[:CASE_DIGITS]}"


def _grading_id(run_id: str, declared: Evaluate) -> str:
    return f"{run_id}.{digest(declared.model_dump_json(exclude_defaults=True))[:CASE_DIGITS]}"
