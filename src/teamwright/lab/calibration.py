"""Fits the topology model to the user's recorded runs, measures the errors of its predictions, stores the result.

A number that the runs say nothing about keeps its built-in value. A calibration is a file in the user's data folder by
name, or anywhere by path; writes are atomic, and a file that is not a calibration is rejected with a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple, cast

from pydantic import Field, FiniteFloat, JsonValue, ValidationError
from pydantic_core import from_json

from teamwright.errors import UnknownName, UsageError
from teamwright.journal.location import data_folder
from teamwright.lab.observations import Observation
from teamwright.lab.simulation.simulated_agents import Learnt
from teamwright.lab.topology_decision import OwnRuns
from teamwright.lab.topology_model import (
    BUDGETS,
    MOST_CACHED,
    MOST_ROUNDS,
    MOST_TOKENS,
    PROTOCOLS,
    TIME_DIGITS,
    TOPOLOGIES,
    WORKLOADS,
    BudgetLevel,
    Evaluation,
    EvaluationSettings,
    Topology,
    TopologyProfile,
    TopologyProfiles,
    Workload,
    evaluate_topology,
)
from teamwright.lab.topology_options import refusal
from teamwright.values.names import NAME, check_name
from teamwright.values.text.validation_messages import misfits_of, misfits_text
from teamwright.values.value import Record, Value

VERSION = 1
DIGITS = 6
NEARLY_THE_SAME = 1e-6
"""If the determinant is below this share of its maximum, the times of tasks and messages can't be separated."""
LARGEST_FACTOR = 1000.0
"""With larger factors, token counts would exceed what a float represents exactly."""
WORST_TIMES = 0.5
"""A fit of times with a larger mean error, as a share, is rejected."""
Factor = Annotated[FiniteFloat, Field(ge=0, le=LARGEST_FACTOR)]
Share = Annotated[FiniteFloat, Field(ge=-1, le=2)]
Seconds = Annotated[FiniteFloat, Field(ge=0, le=1e9)]
FITTED = ("execution", "pass_rate", "cache", "messages", "summary", "seconds_per_task", "seconds_per_message")


class Fit(Value):
    """The numbers of one topology fitted to own runs; None for a number that the runs say nothing about.

    `judged` counts the steps that an evaluator judged, and the pass rate is theirs; without any, it only says that
    steps were completed.
    """

    runs: int = Field(ge=1)
    steps: int = Field(ge=0)
    judged: int = Field(default=0, ge=0)
    execution: Factor | None = None
    pass_rate: Share | None = None
    cache: Share | None = None
    messages: Factor | None = None
    summary: Factor | None = None
    seconds_per_task: Seconds | None = None
    seconds_per_message: Seconds | None = None

    def over(self, profile: TopologyProfile) -> TopologyProfile:
        """The profile with the fitted numbers in place of its own."""
        return profile._replace(**{name: value for name in FITTED if (value := getattr(self, name)) is not None})


class Calibration(Value):
    """What was fitted to own runs: the numbers of topologies, and the behaviour of members."""

    version: int = VERSION
    workload: Workload = "mixed"
    budget: BudgetLevel = "medium"
    rounds: int = Field(default=4, ge=0, le=MOST_ROUNDS)
    average_tokens: int | None = Field(default=None, ge=1, le=MOST_TOKENS)
    runs: tuple[str, ...] = ()
    topologies: dict[Topology, Fit] = {}
    learnt: Learnt = Learnt()

    @property
    def profiles(self) -> TopologyProfiles:
        """The profiles of all topologies: fitted, or built in for a topology without runs."""
        fits = self.topologies
        return {name: fits[name].over(built) if name in fits else built for name, built in TOPOLOGIES.items()}

    @property
    def own_runs(self) -> dict[Topology, OwnRuns]:
        """The runs behind each fitted topology, for a decision; a pass rate counts only if steps were judged."""
        return {
            name: OwnRuns(fit.runs, 0 if fit.pass_rate is None else fit.judged, fit.over(TOPOLOGIES[name]))
            for name, fit in self.topologies.items()
        }


class Gap(Record, frozen=True):
    """One figure of a topology: as measured, as predicted, and the mean errors of both predictions, as shares."""

    topology: Topology
    figure: str
    actual: float
    built_in: float
    built_in_off: float
    fitted: float
    fitted_off: float


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """A calibration, the errors that remain, and the runs that could not be used, each with the reason.

    `notes` say what was not fitted for topologies with runs, and why.
    """

    calibration: Calibration
    gaps: tuple[Gap, ...]
    left_out: Mapping[str, str]
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, JsonValue]:
        return {
            "calibration": self.calibration.model_dump(mode="json", exclude_none=True),
            "gaps": [gap.to_json() for gap in self.gaps],
            "left_out": dict[str, JsonValue](self.left_out),
            "notes": list[JsonValue](self.notes),
        }


def calibrate(
    runs: Sequence[Observation],
    *,
    workload: Workload = "mixed",
    budget: BudgetLevel = "medium",
    coordination_rounds: int = 4,
    learnt: Learnt | None = None,
    left_out: Mapping[str, str] | None = None,
) -> CalibrationReport:
    """Fit the model to these runs of one kind of work."""
    if not 0 <= coordination_rounds <= MOST_ROUNDS:
        raise UsageError(refusal("coordination_rounds", coordination_rounds))
    usual = tokens_per_task(runs)
    seen = [one if one.average_tokens is not None else one.with_average(usual) for one in runs]
    kind = EvaluationSettings(workload=workload, budget=budget, rounds=coordination_rounds)
    by_topology: dict[Topology, list[Observation]] = {name: [] for name in TOPOLOGIES}
    for one in seen:
        by_topology[one.topology].append(one)
    fits: dict[Topology, Fit] = {name: fit(name, found, kind) for name, found in by_topology.items() if found}
    calibration = Calibration(
        workload=workload,
        budget=budget,
        rounds=coordination_rounds,
        average_tokens=usual,
        runs=tuple(one.run_id for one in runs),
        topologies=fits,
        learnt=learnt or Learnt(),
    )
    gaps = [gap for name in fits for gap in gaps_of(name, by_topology[name], kind, calibration.profiles[name])]
    notes = [f"{name}: {why}" for name in fits if (why := times_of(name, by_topology[name], kind).refused)]
    return CalibrationReport(calibration, tuple(gaps), left_out or {}, tuple(notes))


def tokens_per_task(runs: Sequence[Observation]) -> int | None:
    """The mean tokens that a single agent uses per task, for runs whose plan declares none."""
    alone = [one for one in runs if one.topology == "single"] or runs
    tasks = sum(one.tasks for one in alone)
    return min(MOST_TOKENS, max(1, round(sum(one.execution for one in alone) / tasks))) if tasks else None


def fit(topology: Topology, runs: Sequence[Observation], kind: EvaluationSettings) -> Fit:
    """Fit the numbers of one topology to its runs. Unfinished runs count only for the pass rate."""
    whole = [one for one in runs if one.whole]
    expected = [predict(topology, _without_factors(topology), one, kind) for one in whole]
    messages = sum(one.messages for one in whole)
    times = times_of(topology, runs, kind)
    return Fit(
        runs=len(runs),
        steps=sum(one.steps for one in runs),
        judged=sum(one.judged for one in runs),
        execution=_ratio(sum(one.execution for one in whole), sum(one.execution_tokens for one in expected)),
        pass_rate=_pass_rate(runs, kind),
        cache=_cache(whole),
        messages=_ratio(messages, sum(one.messages for one in expected)),
        summary=_summary(whole, expected) if messages else None,
        seconds_per_task=times.per_task,
        seconds_per_message=times.per_message,
    )


def predict(topology: Topology, profile: TopologyProfile, run: Observation, kind: EvaluationSettings) -> Evaluation:
    """The model's prediction for the work of a run, with the participants that the run had."""
    rounds = kind.rounds if run.rounds is None else run.rounds
    average = run.average_tokens or 1
    work = {"tasks": run.tasks, "average_tokens": average, "protocol": run.protocol, "rounds": rounds}
    settings = kind.model_copy(update=work)
    return evaluate_topology(topology, settings, {topology: profile._replace(participants=run.participants)})


def gaps_of(
    topology: Topology, runs: Iterable[Observation], kind: EvaluationSettings, fitted: TopologyProfile
) -> list[Gap]:
    """The errors of the built-in and the fitted predictions, figure by figure."""
    whole = [one for one in runs if one.whole]
    before = [predict(topology, TOPOLOGIES[topology], one, kind) for one in whole]
    after = [predict(topology, fitted, one, kind) for one in whole]
    found: list[Gap] = []
    for figure in ("execution_tokens", "coordination_tokens", "total_tokens", "pass_rate", "seconds"):
        actual = [one.figure(figure) for one in whole]
        built_in, refitted = ([_figure(one, figure) for one in rows] for rows in (before, after))
        if whole and any(map(any, (actual, built_in, refitted))):
            found.append(
                Gap(
                    topology=topology,
                    figure=figure,
                    actual=_mean(actual),
                    built_in=_mean(built_in),
                    built_in_off=_mean_error(built_in, actual),
                    fitted=_mean(refitted),
                    fitted_off=_mean_error(refitted, actual),
                )
            )
    return found


def _figure(evaluation: Evaluation, figure: str) -> float:
    return evaluation.p95_latency_s if figure == "seconds" else getattr(evaluation, figure)


def _pass_rate(runs: Sequence[Observation], kind: EvaluationSettings) -> float | None:
    """The pass rate without the effects of workload, budget and protocol, because the model adds them again."""
    if any(one.judged for one in runs):
        counts = [(one, one.judged, one.right) for one in runs]
    else:
        counts = [(one, one.steps, one.passed) for one in runs]
    steps, passed = sum(count for _, count, _ in counts), sum(right for _, _, right in counts)
    if passed == steps and not any(one.judged for one in runs):
        return None  # a run without failures says nothing of steps that were not judged
    added = BUDGETS[kind.budget].quality + WORKLOADS[kind.workload].quality
    protocols = sum(PROTOCOLS[one.protocol].quality * count for one, count, _ in counts) / steps
    return round(passed / steps - added - protocols, DIGITS)


def _cache(runs: Sequence[Observation]) -> float | None:
    """The share of the work that was served from a cache, without the effect of the protocol."""
    work = sum(one.execution for one in runs)
    if not work:
        return None
    bonus = sum(PROTOCOLS[one.protocol].cache_bonus * one.execution for one in runs) / work
    return round(min(MOST_CACHED, sum(one.cached for one in runs) / work) - bonus, DIGITS)


def _summary(runs: Sequence[Observation], expected: Sequence[Evaluation]) -> float | None:
    """The ratio of the measured tokens per message to the model's."""
    predicted = sum(
        one.coordination_tokens / one.messages * run.messages
        for run, one in zip(runs, expected, strict=True)
        if one.messages
    )
    return _ratio(sum(one.coordination for one in runs), predicted)


class Times(NamedTuple):
    """Fitted seconds per task and per message, or why there are none."""

    per_task: float | None = None
    per_message: float | None = None
    refused: str = ""


def times_of(topology: Topology, runs: Sequence[Observation], kind: EvaluationSettings) -> Times:
    """Fit seconds per task and per message by least squares; only per task if the runs can't separate the two.

    A message then has its built-in time. A fit to runs that are too similar or too short is rejected, because a number
    from noise is worse than the built-in one.
    """
    whole = [one for one in runs if one.whole]
    expected = [predict(topology, _without_factors(topology), one, kind) for one in whole]
    found = _least_squares(whole, expected, kind, TOPOLOGIES[topology].seconds_per_message)
    if found.per_task is None:
        return found
    profile = TOPOLOGIES[topology]._replace(seconds_per_task=found.per_task)
    if found.per_message is not None:
        profile = profile._replace(seconds_per_message=found.per_message)
    predicted = [
        one.tasks / this.parallelism * WORKLOADS[kind.workload].latency * profile.seconds_per_task
        + one.messages * (profile.seconds_per_message + PROTOCOLS[one.protocol].latency)
        for one, this in zip(whole, expected, strict=True)
    ]
    error = _mean_error([round(one, TIME_DIGITS) for one in predicted], [one.seconds for one in whole])
    if error > WORST_TIMES:
        return Times(refused=f"{NOT_FITTED} follow neither their tasks nor their messages; {STAY}")
    return found


NOT_FITTED = "times are not fitted, because those of these runs"
STAY = "the built-in ones are used"


def _least_squares(
    runs: Sequence[Observation], expected: Sequence[Evaluation], kind: EvaluationSettings, usual: float
) -> Times:
    latency = WORKLOADS[kind.workload].latency
    tasks = [run.tasks / one.parallelism * latency for run, one in zip(runs, expected, strict=True)]
    messages = [float(run.messages) for run in runs]
    times = [run.seconds - run.messages * PROTOCOLS[run.protocol].latency for run in runs]
    aa, bb = _dot(tasks, tasks), _dot(messages, messages)
    ab, ay, by = _dot(tasks, messages), _dot(tasks, times), _dot(messages, times)
    determinant = aa * bb - ab * ab
    if not aa:
        return Times()
    if determinant > NEARLY_THE_SAME * aa * bb:
        both = (ay * bb - by * ab) / determinant, (by * aa - ay * ab) / determinant
        if min(both) >= 0:
            return Times(round(both[0], DIGITS), round(both[1], DIGITS))
    alone = round((ay - usual * ab) / aa, DIGITS)
    if alone <= 0:
        return Times(refused=f"{NOT_FITTED} are too short and too similar to separate tasks from messages; {STAY}")
    return Times(alone)


def _without_factors(topology: Topology) -> TopologyProfile:
    """The built-in profile of a topology with all factors set to one."""
    return TOPOLOGIES[topology]._replace(execution=1.0, messages=1.0, summary=1.0)


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


def _ratio(actual: float, expected: float) -> float | None:
    ratio = round(actual / expected, DIGITS) if expected else None
    return ratio if ratio is None or ratio <= LARGEST_FACTOR else None


def _mean(values: Sequence[float]) -> float:
    return round(sum(values) / len(values), 4)


def _mean_error(predicted: Sequence[float], actual: Sequence[float]) -> float:
    """The mean relative error; where the actual figure is zero, relative to the prediction."""
    pairs = zip(predicted, actual, strict=True)
    shares = [abs(one - real) / (real or one) if real or one else 0.0 for one, real in pairs]
    return round(sum(shares) / len(shares), 4)


DEFAULT = "default"
ENDING = ".json"


def profiles_folder() -> Path:
    """The folder of profiles with a name."""
    return data_folder() / "profiles"


def profile_names() -> list[str]:
    """The names of the saved profiles."""
    folder = profiles_folder()
    return sorted(one.stem for one in folder.glob(f"*{ENDING}")) if folder.is_dir() else []


def profile_file(wanted: str) -> Path:
    """The file of a profile: a name means a file in the data folder, anything else is a path."""
    if NAME.fullmatch(wanted) and not wanted.endswith(ENDING):
        return profiles_folder() / f"{wanted}{ENDING}"
    return Path(wanted)


def read_profile(wanted: str) -> Calibration:
    """Read the calibration with this name or path."""
    file = profile_file(wanted)
    if not file.is_file():
        if file.parent == profiles_folder():
            raise UnknownName("profile", wanted, profile_names())
        raise UsageError(f"There is no file {str(file)!r}; create it with  teamwright lab calibrate --out {file}")
    data: object = None
    try:
        data = from_json(file.read_bytes())
        found = Calibration.model_validate(data)
    except ValidationError as error:
        is_ours = isinstance(data, dict) and "topologies" in data  # another file is not quoted
        wrong = f": {misfits_text(misfits_of(error, cast('object', data)))}" if is_ours else ""
        raise UsageError(f"{str(file)!r} is not a calibration{wrong}.") from error
    except ValueError as error:
        raise UsageError(f"{str(file)!r} is not a calibration: it is not JSON.") from error
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be read: {error.strerror}.") from error
    if found.version > VERSION:
        raise UsageError(f"{str(file)!r} was written by a newer version of Teamwright; install that one.")
    return found


def profiles_of(wanted: str | None) -> TopologyProfiles:
    """The topology profiles of a calibration; without one, the built-in ones."""
    return TOPOLOGIES if wanted is None else read_profile(wanted).profiles


def save_profile(calibration: Calibration, name: str = DEFAULT) -> Path:
    """Save a calibration in the data folder under a name, and return its file."""
    folder = profiles_folder()
    file = folder / f"{check_name('profile', name)}{ENDING}"
    part = file.with_suffix(".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text(profile_text(calibration), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be written: {error.strerror}; name a file with --out.") from error
    return file


def profile_text(calibration: Calibration) -> str:
    """The content of a profile file."""
    return calibration.model_dump_json(indent=2, exclude_none=True) + "\n"
