"""`teamwright eval`: measures a team on a data set, as an experiment that goes on where it was interrupted."""

from __future__ import annotations

import json as json_reader
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, find_run, load_manifest, with_engine
from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.options import AllowRoot, Model, Quiet, TeamName, With, complete_runs
from teamwright.cli.terminal.output import (
    Json,
    Out,
    ProgressCounter,
    check_out,
    report_failed_gates,
    say,
    write_file,
    write_json,
    write_pieces,
    write_result,
)
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from typing import Self

    from teamwright.history.kpis import Bound, KpiGate
    from teamwright.lab.experiments.dataset import DataSet
    from teamwright.lab.experiments.experiment import CaseAttempt, Variant
    from teamwright.lab.experiments.grades import Judges
    from teamwright.lab.experiments.report import ExperimentReport
    from teamwright.runtime.engine import Engine
    from teamwright.teams.team import Team
    from teamwright.values.specs.evaluation import Evaluate
    from teamwright.values.specs.manifest import Source

HTML, REPORT, ALL = ".html", ".json", "all"
PASS_RATE = "pass_rate"
GATES: Mapping[str, Bound] = {PASS_RATE: ">=", "usd_per_pass": "<="}
"""What a gate of an experiment may bound, and how."""


ManifestFile = Annotated[Path | None, typer.Argument(metavar="MANIFEST", help="The team to measure.")]
Cases = Annotated[Path | None, typer.Argument(metavar="CASES", help="A data set: .yaml, .jsonl or .csv.")]
Against = Annotated[
    Path | None, typer.Option("--against", metavar="MANIFEST", help="Another team, compared over the same cases.")
]
Attempts = Annotated[int, typer.Option("--attempts", min=1, max=100, metavar="N", help="Runs of each case.")]
AtOnce = Annotated[int, typer.Option("--at-once", min=1, max=100, metavar="N", help="At most N runs at once.")]
MostUsd = Annotated[
    float | None, typer.Option("--max-usd", min=0, metavar="X", help="Limit the experiment to X US dollars.")
]
Ablate = Annotated[
    bool, typer.Option("--ablate", help="Leave out each member, step, tool and review in turn, by forks.")
]
Gate = Annotated[
    list[str] | None,
    typer.Option(
        "--gate",
        metavar="GATE",
        help="'pass_rate>=P', 'usd_per_pass<=X', or FILE: no worse than in this --json report; may be repeated.",
    ),
]
FromRuns = Annotated[
    list[str] | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Write a data set from this run, or `all`, to --out; may be repeated.",
        autocompletion=complete_runs,
    ),
]
Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="Measure again, apart from experiments of other names.")
]


def evaluate(
    manifest: ManifestFile = None,
    cases: Cases = None,
    *,
    against: Against = None,
    attempts: Attempts = 1,
    at_once: AtOnce = 4,
    max_usd: MostUsd = None,
    ablate: Ablate = False,
    gate: Gate = None,
    from_runs: FromRuns = None,
    name: Name = "",
    team: TeamName = None,
    more: With = None,
    model: Model = None,
    allow_root: AllowRoot = None,
    quiet: Quiet = False,
    json: Json = False,
    out: Out = None,
) -> int:
    """Measure a team on a data set: pass rate, cost and time, with what chance alone would explain.

    Each attempt is a recorded run, so that the same command goes on where it was interrupted, and pays for nothing
    twice. `--out FILE.html` writes the report as a page with a plot.

    Examples:
      teamwright eval team.yaml cases.jsonl --attempts 5 --max-usd 2
      teamwright eval team.yaml cases.yaml --against other.yaml --gate 'pass_rate>=0.9'
      teamwright eval --from all --out cases.jsonl
    """
    check_out(out)
    if from_runs:
        return _write_cases(from_runs, manifest, out)
    if manifest is None or cases is None:
        raise UsageError("Name the team and the data set:  teamwright eval team.yaml cases.jsonl")
    gates = EvalGates.read(gate or ())
    wanted = EvalRequest(cases, attempts, at_once, max_usd, name, quiet, ablate, tuple(allow_root or ()))
    first = Chosen(manifest, tuple(more or ()), team, model)
    other = None if against is None else Chosen(against, (), None, model)
    if ablate and against is not None:
        raise UsageError("--ablate compares a team with itself; leave out --against.")
    with goes_on():
        return with_engine(lambda engine: wanted.run(engine, first, other, gates, json=json, out=out))


@contextmanager
def goes_on() -> Generator[None]:
    """Say on Ctrl-C, which interrupts the runs under way, that nothing is lost."""
    with raise_on_interrupt():
        try:
            yield
        except KeyboardInterrupt:
            say("interrupted — the same command goes on where it stopped, and pays for nothing twice")
            raise


@dataclass(frozen=True, slots=True)
class Chosen:
    """The manifests and the team of one variant."""

    manifest: Path
    more: tuple[Path, ...]
    team: str | None
    model: str | None

    def source(self, allow_roots: Sequence[Path]) -> Source:
        from teamwright.teams.team_loader import source_of

        loaded = load_manifest((self.manifest, *self.more), self.model)
        return source_of(loaded, team=self.team, model=self.model, allow_roots=allow_roots)


@dataclass(frozen=True, slots=True)
class EvalRequest:
    """What to measure, how often, and for how much."""

    cases: Path
    attempts: int
    at_once: int
    max_usd: float | None
    name: str
    quiet: bool
    ablate: bool
    allow_roots: tuple[Path, ...]

    async def run(
        self, engine: Engine, first: Chosen, other: Chosen | None, gates: EvalGates, *, json: bool, out: Path | None
    ) -> int:
        from teamwright.lab.experiments.dataset import read_data_set
        from teamwright.lab.experiments.grades import Judges
        from teamwright.lab.experiments.recorded_evaluations import record_report
        from teamwright.lab.experiments.report import html_of, text_of

        extend_sys_path()
        sources = [one.source(self.allow_roots) for one in (first, other) if one is not None]
        judges = Judges(sources[0], engine.models)
        data = read_data_set(self.cases, judges.problems)
        gates.check(data)
        names = _labels([one for one in (first, other) if one is not None], sources)
        variants = [_variant(engine, label, source, self.name) for label, source in zip(names, sources, strict=True)]
        if len({one.identity for one in variants}) < len(variants):
            raise UsageError("--against is the same team, so that both would have the same runs; name another.")
        if self.ablate:
            variants += list(_without(engine, sources[0], variants[0]))
        report = await self._measured(engine, data, judges, variants)
        title = f"{' and '.join(names)} on {self.cases.name}{', without each part' if self.ablate else ''}"
        await record_report(engine, report, title)
        if out is not None and out.suffix.lower() == HTML:
            write_pieces([html_of(report, title)], out)
        elif json:
            write_json(report.to_json(), out)
        else:
            write_result(text_of(report), out)
        return report_failed_gates(gates.failures(report))

    async def _measured(
        self, engine: Engine, data: DataSet, judges: Judges, variants: Sequence[Variant]
    ) -> ExperimentReport:
        from teamwright.lab.experiments.experiment import Experiment
        from teamwright.lab.experiments.report import report_of
        from teamwright.teams.preflight import check_ready

        own = _own_evaluation(judges.source)
        if own is None and (unused := sum(one.is_labelled and data.evaluation(one) is None for one in data.cases)):
            say(f"{count_text(unused, 'label')} not used, because nothing judges the answer; name a judge in  evaluate")
        graders = [judges.team(one, "", None) for one in data.judged(own)]
        for team in (*(variant.make() for variant in variants), *graders):
            await check_ready(team, engine.models)
        experiment = Experiment(
            engine, data, variants, judges.team, own, self.attempts, self.at_once, self.max_usd, self.cases.parent,
            ProgressCounter("runs") if not self.quiet else lambda _done, _total: None,
        )  # fmt: skip
        trials = await experiment.run()
        assumed = any(
            case.expected is None and case.data is None and data.evaluation(case) is None for case in data.cases
        )
        return report_of(trials, data.cases, await experiment.labels(), assumed=assumed, ablated=self.ablate)


def _labels(chosen: Sequence[Chosen], sources: Sequence[Source]) -> list[str]:
    """Return what teams are called in the report: their names, with their manifests if they have the same one."""
    names = [source.team for source in sources]
    if len(set(names)) == len(names):
        return names
    manifests = (", ".join(map(str, (one.manifest, *one.more))) for one in chosen)
    return [f"{name} ({files})" for name, files in zip(names, manifests, strict=True)]


def _own_evaluation(source: Source) -> Evaluate | None:
    spec = source.manifest.teams.get(source.team) or source.manifest.agents.get(source.team)
    return None if spec is None else spec.evaluate


def _variant(engine: Engine, label: str, source: Source, name: str) -> Variant:
    from teamwright.lab.experiments.experiment import Variant, team_identity
    from teamwright.teams.team_loader import team_from_source

    @cache
    def make() -> Team:
        return team_from_source(source, engine.models)

    return Variant(label, make, team_identity(source, name))


def _without(engine: Engine, source: Source, whole: Variant) -> Iterator[Variant]:
    """The team without each of its parts; says why it can't be without some of them."""
    from teamwright.lab.experiments.ablation import without_parts
    from teamwright.lab.experiments.experiment import Variant
    from teamwright.teams.team_loader import team_from_source
    from teamwright.values.turns.messages import digest

    for part in without_parts(source):
        try:
            team = team_from_source(part.source, engine.models)
        except UsageError as error:
            say(f"not without {part.name}: {str(error).splitlines()[0]}")
            continue
        yield Variant(f"without {part.name}", lambda team=team: team, digest(whole.identity, part.name), whole)


@dataclass(frozen=True, slots=True)
class EvalGates:
    """What the first team has to reach, and the trials that it may not be worse than, by the files that have them."""

    bounds: tuple[KpiGate, ...]
    baselines: Mapping[str, Sequence[CaseAttempt]]

    @classmethod
    def read(cls, texts: Sequence[str]) -> Self:
        """Read bounds on figures, and files with reports; raises `UsageError`."""
        from teamwright.history.kpis import read_gates

        files = [text for text in texts if text.endswith(REPORT) or Path(text).is_file()]
        bounds = read_gates((text for text in texts if text not in files), tuple(GATES))
        for one in bounds:
            if one.bound != GATES[one.figure]:
                known = ", ".join(f"{figure}{bound}X" for figure, bound in GATES.items())
                raise UsageError(f"An experiment has no gate {str(one)!r}; it has {known}.")
        return cls(bounds, {file: _read_baseline(Path(file)) for file in files})

    def check(self, data: DataSet) -> None:
        """Raise `UsageError`, before anything is paid, if there is nothing to compare with."""
        for file, trials in self.baselines.items():
            if not {one.case for one in trials} & {one.id for one in data.cases}:
                raise UsageError(f"--gate {file!r} has no case in common with the data set; use the same one.")

    def failures(self, report: ExperimentReport) -> Iterator[str]:
        """Say which gates fail."""
        from teamwright.lab.experiments.report import compare, interval_text

        first = report.variants[0]
        rate, price = first.pass_rate, first.usd_per_pass
        for one in self.bounds:
            if one.figure == PASS_RATE:
                if rate is None or rate.value < one.limit:
                    yield f"gate failed: pass rate {interval_text(rate)}, and {one.limit:g} is wanted"
            elif not first.passed:
                yield "gate failed: nothing passed, so that a pass has no price"
            elif price is None:
                yield "gate failed: a pass has no known price; declare the  price  of the team's models"
            elif price > one.limit:
                yield f"gate failed: a pass costs ${price:g}, and ${one.limit:g} is the most"
        for file, trials in self.baselines.items():
            found = compare(trials, [one for one in report.trials if one.variant == first.variant])
            if found.pass_rate.high < 0:
                yield f"gate failed: worse than {file}: {found.sentence}"


def _read_baseline(file: Path) -> list[CaseAttempt]:
    """The trials of the first team in a report."""
    from msgspec import ValidationError, convert

    from teamwright.lab.experiments.experiment import CaseAttempt

    try:
        written = json_reader.loads(file.read_text(encoding="utf-8"))
        trials = convert(written["trials"], list[CaseAttempt])
        first = [one for one in trials if one.variant == trials[0].variant]
    except (OSError, ValueError, TypeError, LookupError, ValidationError) as error:
        raise UsageError(f"--gate {str(file)!r} is no report: write one with  eval … --json --out FILE") from error
    return [one.changed(variant=f"{one.variant} before") for one in first]


def _write_cases(runs: Sequence[str], manifest: Path | None, out: Path | None) -> int:
    """Write a data set from recorded runs."""
    from teamwright.lab.experiments.dataset import write_lines

    if manifest is not None or out is None:
        raise UsageError("--from writes a data set:  teamwright eval --from all --out cases.jsonl")

    async def work(engine: Engine) -> int:
        from teamwright.lab.experiments.recorded_evaluations import is_experimental, recorded_cases

        ids: list[str] = []
        for run in runs:
            listed = [one.id for one in await engine.runs.list() if not one.parent and not is_experimental(one.id)]
            ids += listed if run == ALL else [(await find_run(engine.journal, run)).id]
        cases, left_out = await recorded_cases(engine, list(dict.fromkeys(ids)))
        for run_id, why in left_out.items():
            say(f"left out: {run_id}: {why}")
        if not cases:
            raise UsageError("None of these runs is a case: they have not ended, or are those of experiments")
        lines = write_lines([one.model_dump(mode="json", exclude_defaults=True) for one in cases])
        write_file(lines, out, private=True)
        labelled = sum(one.is_labelled for one in cases)
        say(f"{len(cases)} cases, {labelled} with a label; add what is expected of each as  expected  or  evaluate")
        return 1 if left_out else 0

    return with_engine(work)
