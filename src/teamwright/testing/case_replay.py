"""Replays cases with the ordinary engine, in virtual time and a journal in memory, and cuts them off at each write.

With anything live, time is real. Nothing is written to the user's journal.

Makes a case of a recorded run, and writes it: what the run did is what is expected, of the manifest of its team.

A case whose team does something else from now on is rewritten.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.lowlevel
from msgspec import structs
from typing_extensions import override

from teamwright.agents.clients.client_pool import Models
from teamwright.errors import ManifestError, NonDeterminism, TeamwrightError, UsageError
from teamwright.history.run_history import RunHistory
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.journal.protocol import Batch, Committed, Journal
from teamwright.runtime.engine import Engine
from teamwright.runtime.handle import Handle
from teamwright.teams.builder import SCRIPTED
from teamwright.teams.manifests.environment_variables import lenient_environment, secrets_of
from teamwright.teams.team import Team
from teamwright.teams.team_loader import read_manifest, source_of, team_from_source
from teamwright.testing.case_file import (
    CaseFinding,
    Expected,
    ExpectedText,
    LoadedCase,
    RunCase,
    differences,
    observed,
    read_case,
    recording_path,
)
from teamwright.testing.case_player import NOTHING_LIVE, LiveCalls, Player
from teamwright.testing.recorded_case import Recording, SentPrompt, SentToRun
from teamwright.testing.recorded_replies import UNSENT, Cleaner, recording_of
from teamwright.testing.virtual_loop import run_virtually
from teamwright.values.events.agent import AgentCalled, AgentCallFailed, AgentReturned
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered, RunIntervened
from teamwright.values.limits import Limits
from teamwright.values.people import Answer, Answered
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.models import model_key
from teamwright.values.text.display import count_text
from teamwright.values.turns.results import RunResult
from teamwright.values.value import JsonValue

RUN_ID = "case"
MOST_LINES = 40
"""At most so many lines of one difference are shown."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CaseResult:
    """What the replay of a case has found; it passes if that is nothing."""

    name: str
    findings: tuple[CaseFinding, ...]
    seconds: float = 0.0
    kills: int = 0
    """At how many writes it was cut off and resumed."""
    now: Expected | None = None
    """What the run did."""
    sent: dict[str, SentPrompt] = field(default_factory=dict[str, SentPrompt])
    """What its calls have sent, by key."""
    recorded: Recording | None = None
    """The recording of this run, where anything was live."""
    was_halted: bool = False
    """Whether a call was made that the case does not know, so that the run did not go on."""

    @property
    def passes(self) -> bool:
        """Whether the run did what the case expects, with the calls that it has."""
        return not self.findings

    @property
    def status(self) -> str:
        """The word for it."""
        return "passed" if self.passes else "failed"

    def lines(self) -> Iterator[str]:
        """Yield the lines that say what differs."""
        for one in self.findings:
            yield f"  {one.key}: {one.text}" if one.key else f"  {one.text}"
            yield from (f"    {line}" for line in one.difference[:MOST_LINES])
            if len(one.difference) > MOST_LINES:
                yield f"    … and {count_text(len(one.difference) - MOST_LINES, 'more line')}"

    def to_json(self) -> dict[str, JsonValue]:
        """The fields that a report shows, as JSON data."""
        return {
            "case": self.name,
            "status": self.status,
            "seconds": round(self.seconds, 3),
            "kills": self.kills,
            "findings": [one.to_json() for one in self.findings],
        }


class CaseJournal(MemoryJournal):
    """A journal in memory that keeps its writes apart, and may begin with some."""

    def __init__(self, writes: Sequence[Batch] = (), inbox_items: int = 0) -> None:
        super().__init__()
        self.writes: list[Batch] = []
        self._sent = inbox_items
        for batch in writes:
            self.append(batch, lambda _error: None)

    @override
    def append(self, batch: Batch, done: Committed) -> None:
        self.writes.append(batch)
        super().append(batch, done)


def run_case(path: Path, live: LiveCalls = NOTHING_LIVE, *, kill: bool = False) -> CaseResult:
    """Read a case and replay it; a case that can't be read fails with every mistake in it."""
    try:
        case = read_case(path)
    except ManifestError as error:
        return CaseResult(str(path), tuple(CaseFinding("", str(one)) for one in error.problems))
    return replace(replay_case(case, live, kill=kill), name=str(path))


def source_of_case(case: LoadedCase) -> Source:
    """Return the team of a case as its manifest declares it today."""
    model = case.case.model or None
    if model is not None and model.startswith(SCRIPTED):
        model = SCRIPTED + str((case.path.parent / model.removeprefix(SCRIPTED)).resolve())
    loaded = read_manifest([case.manifest], models_replaced=model is not None)
    return source_of(loaded, team=case.case.team or None, model=model)


def replay_case(case: LoadedCase, live: LiveCalls = NOTHING_LIVE, *, kill: bool = False) -> CaseResult:
    """Replay a case, and return what differs; with `kill`, also cut it off at each write and resume it."""
    began = time.monotonic()
    try:
        source = source_of_case(case)
        replay = CaseReplay(case, source, live)
        found = run_now(replay.run, live)
        if kill and found.passes:
            found = _killed(replay, found)
    except NonDeterminism as error:
        found = CaseResult(case.name, (_non_determinism(error),))
    except TeamwrightError as error:
        found = CaseResult(case.name, (CaseFinding("", str(error)),))
    return replace(found, seconds=time.monotonic() - began)


def run_now(main: Callable[[], Coroutine[Any, Any, T]], live: LiveCalls) -> T:
    """Run a coroutine in virtual time, or in real time if anything is live."""
    return anyio.run(main) if live.is_any else run_virtually(main, patient=True)


def _killed(replay: CaseReplay, whole: CaseResult) -> CaseResult:
    """Cut the run off after each write but the last; the first way in which it ends otherwise is the finding.

    A call in flight is charged in full when it is killed, so a run with a budget is cut off only between calls.
    """
    writes, kills = replay.writes, 0
    for number in range(1, len(writes)):
        if replay.has_budget and _is_calling(writes[:number]):
            continue
        kills += 1
        try:
            findings = run_virtually(partial(replay.resume, writes[:number], whole), patient=True)
        except NonDeterminism as error:
            findings = (_non_determinism(error),)
        if findings:
            last = writes[number - 1].events[-1]
            where = f"killed after write {number} of {len(writes)} ({last.kind} at {last.key!r})"
            return replace(whole, findings=tuple(replace(one, text=f"{where}: {one.text}") for one in findings))
    return replace(whole, kills=kills)


def _is_calling(writes: Sequence[Batch]) -> bool:
    """Whether a call is in flight after these writes."""
    facts = [(event.key, event.fact) for batch in writes for event in batch.events]
    called = Counter(key for key, fact in facts if isinstance(fact, AgentCalled))
    called.subtract(key for key, fact in facts if isinstance(fact, AgentReturned | AgentCallFailed))
    return any(count > 0 for count in called.values())


def _non_determinism(error: NonDeterminism) -> CaseFinding:
    return CaseFinding("", f"the record has {error.recorded}, and the team now {error.replayed}")


class CaseReplay:
    """The replay of one case."""

    def __init__(self, case: LoadedCase, source: Source, live: LiveCalls = NOTHING_LIVE) -> None:
        self._case, self._source, self._live = case, source, live
        self.writes: list[Batch] = []
        """The writes of the run, once it has run."""

    @property
    def _recording(self) -> Recording:
        return self._case.recording

    @property
    def has_budget(self) -> bool:
        """Whether turns of the run knew what was left of a budget."""
        return bool(self._recording.turns)

    def _team(self, models: Models | None = None) -> Team:
        environment = None if self._live.is_any else lenient_environment(self._source.manifest)
        return team_from_source(self._source, models, environment=environment)

    async def run(self) -> CaseResult:
        """Run the case from its start, and return what differs."""
        journal = CaseJournal()
        cleaner = Cleaner((), self._source.base)
        player = Player(self._recording, cleaner, self._live)
        result, history = await self._drive(journal, player, ())
        self.writes = list(journal.writes)
        now = await observed(journal, history, result)
        findings = list(player.findings)
        if not player.halted.is_set():
            if not self._live.models:
                findings += player.unasked()
            findings += differences(self._case.case.expect, now)
        recorded = None
        if self._live.is_any:
            recorded, _ = await recording_of(journal, history, cleaner)
            recorded = recorded.with_prompts(player.sent)
        return CaseResult(
            self._case.name,
            tuple(findings),
            now=now,
            sent=player.sent,
            recorded=recorded,
            was_halted=player.halted.is_set(),
        )

    async def resume(self, writes: Sequence[Batch], whole: CaseResult) -> tuple[CaseFinding, ...]:
        """Resume a run of which these writes are left, and return how it differs from the whole run."""
        events = [event for batch in writes for event in batch.events]
        items = (event.fact.inbox_id for event in events if isinstance(event.fact, RunIntervened))
        journal = CaseJournal(writes, max(items, default=0))
        player = Player(self._recording, Cleaner((), self._source.base), record=events)
        result, history = await self._drive(journal, player, events)
        now = await observed(journal, history, result)
        assert whole.now is not None
        wanted = whole.now.model_copy(update={"tokens": None})
        return (*player.findings, *differences(wanted, now))

    async def _drive(
        self, journal: CaseJournal, player: Player, record: Sequence[Event]
    ) -> tuple[RunResult, RunHistory]:
        """Drive the run to its end, from its start or from a record."""
        start = self._recording.start
        began = record[-1].time if record else start.started_at
        origin = anyio.current_time()

        def wall() -> float:
            return began + anyio.current_time() - origin

        player.seconds = lambda: wall() - start.started_at
        engine = Engine(journal, wall=wall, seed=lambda: start.seed, placement="here")
        engine.driver.observer = player
        async with engine:
            handle = await self._start(engine, player, resumes=bool(record))
            handle.set_interactive(True)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_all, journal, player, handle, record)
                tasks.start_soon(_interrupt_halted, player, handle)
                await handle.result()
                tasks.cancel_scope.cancel()
            return await handle.result(), await engine.runs.history(RUN_ID)

    async def _start(self, engine: Engine, player: Player, *, resumes: bool) -> Handle:
        team = self._team(engine.models)
        if team.workspace is not None and self._live.models and not self._live.tools:
            raise UsageError(
                "This team works on files, so its models have to see what its tools do to them now: use  --live all"
            )
        if resumes:
            return await engine.start_resume(RUN_ID, team=team)
        start = self._recording.start
        return await engine.start(
            team,
            self._case.case.task,
            run_id=RUN_ID,
            history=start.history,
            limits=None if start.limits is None else Limits.from_bounds(start.limits),
            attachments=[player.file(one) for one in start.attachments[len(team.attachments) :]],
        )

    async def _send_all(self, journal: CaseJournal, player: Player, handle: Handle, record: Sequence[Event]) -> None:
        """Send what people sent, at its time; after the last of it, the run pauses where it waits for people."""
        for one in self._unsent(record):
            if not self._live.is_any:
                await anyio.sleep(max(0.0, one.at - player.seconds()))
            if one.intervention is not None:
                await journal.send(RUN_ID, one.intervention)
            else:
                given = self._case.case.answers[one.answers]
                answer = Answer(text=given.text, data=given.data, by=given.by)
                await journal.send(RUN_ID, Answered(key=one.answers, answer=answer))
        await anyio.lowlevel.checkpoint()
        handle.set_interactive(False)

    def _unsent(self, record: Sequence[Event]) -> list[SentToRun]:
        """What people sent that a record does not have yet; an answer without a time is there from the start."""
        timed = {one.answers for one in self._recording.sent}
        known = [SentToRun(at=0.0, answers=key) for key in self._case.case.answers if key not in timed]
        answered = {event.key for event in record if isinstance(event.fact, PersonAnswered)}
        facts = (event.fact for event in record)
        received = sum(isinstance(one, RunIntervened) and not isinstance(one.intervention, UNSENT) for one in facts)
        found: list[SentToRun] = []
        for one in (*known, *self._recording.sent):
            if one.intervention is None:
                found += [one] if one.answers not in answered else []
            elif received:
                received -= 1
            else:
                found.append(one)
        return found


async def _interrupt_halted(player: Player, handle: Handle) -> None:
    await player.halted.wait()
    handle.interrupt()


SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class FoundTeam:
    """Where the team of a run is declared; `model` replaced every model of it in the run."""

    manifest: Path
    team: str = ""
    model: str = ""
    has_changed: bool = False
    """Whether it is declared otherwise now."""


async def case_of_run(
    journal: Journal, history: RunHistory, result: RunResult, path: Path, manifest: Path | None = None
) -> tuple[LoadedCase, Source, FoundTeam]:
    """Return the case of a run for this file, still without prompts, and the team as the run recorded it."""
    source = history.record.source()
    found = find_team(source, manifest)
    cleaner = Cleaner(secrets_of(history.manifest), source.base)
    recording, answers = await recording_of(journal, history, cleaner)
    expect = await observed(journal, history, result)
    expect = expect.model_validate(cleaner.value(expect.model_dump(mode="json", exclude_unset=True)))
    written: dict[str, object] = {"manifest": _relative(found.manifest, path)}
    written |= {name: value for name, value in (("team", found.team), ("model", _beside(found.model, path))) if value}
    written["task"] = cleaner.text(history.task)
    if answers:
        written["answers"] = {key: one.model_dump(exclude_unset=True) for key, one in answers.items()}
    written["expect"] = expect.model_dump(exclude_unset=True)
    return LoadedCase(path, RunCase.model_validate(written), recording), source, found


def find_team(source: Source, manifest: Path | None) -> FoundTeam:
    """Find the manifest of a recorded team, unless it is given: the one that declares it so, else one that names it."""
    candidates = [manifest] if manifest is not None else list(_candidates(Path(source.base)))
    named: list[FoundTeam] = []
    for path in candidates:
        try:
            loaded = read_manifest([path], models_replaced=True)
        except TeamwrightError:
            if manifest is not None:
                raise
            continue
        declared = loaded.manifest
        if source.team not in {*declared.teams, *declared.agents}:
            continue
        default = _default_team(loaded)
        team = "" if source.team == default else source.team
        if declared == source.manifest:
            return FoundTeam(path, team)
        if (model := _replaced_model(source)) is not None:
            replaced = source_of(loaded, team=source.team, model=model).manifest
            if replaced == source.manifest:
                return FoundTeam(path, team, model)
        named.append(FoundTeam(path, team, has_changed=True))
    if not named:
        where = f"{str(manifest)!r} declares no {source.team!r}" if manifest else f"no manifest in {source.base!r} does"
        raise UsageError(
            f"The team {source.team!r} of this run must be declared in a manifest, and {where}; name it with"
            "  --from FILE."
        )
    return named[0]


def _candidates(folder: Path) -> Iterator[Path]:
    if folder.is_dir():
        yield from sorted(one for one in folder.iterdir() if one.suffix in SUFFIXES and one.is_file())
        yield folder


def _default_team(loaded: object) -> str | None:
    try:
        return source_of(loaded).team  # pyright: ignore[reportArgumentType]
    except UsageError:
        return None


def _replaced_model(source: Source) -> str | None:
    """Return the model that all agents have, as `--model` gives it to them."""
    models = {model_key(one.model) for one in source.manifest.agents.values() if one.model is not None}
    return models.pop() if len(models) == 1 else None


def _relative(manifest: Path, case: Path) -> str:
    return Path(os.path.relpath(manifest.resolve(), case.resolve().parent)).as_posix()


def _beside(model: str, case: Path) -> str:
    if not model.startswith(SCRIPTED):
        return model
    return SCRIPTED + _relative(Path(model.removeprefix(SCRIPTED)), case)


def write_case(case: LoadedCase) -> None:
    """Write a case and its recording."""
    recording_path(case.path).write_text(case.recording.to_text(), encoding="utf-8")
    case.path.write_text(case.case.to_yaml(), encoding="utf-8")


def with_prompts(case: LoadedCase, source: Source) -> LoadedCase:
    """Return the case with what its calls send by this source, found by a replay."""
    sent = run_now(CaseReplay(case, source).run, NOTHING_LIVE).sent
    return replace(case, recording=case.recording.with_prompts(sent))


def rewrite_case(path: Path, result: CaseResult) -> None:
    """Rewrite a case with what its run did: what its calls sent, and what is checked, not the user's own checks."""
    case = read_case(path)
    assert result.now is not None
    recording = result.recorded or _asked_for(case.recording, result).with_prompts(result.sent)
    expect = _expected(case.case.expect, result.now)
    changed = RunCase.model_validate({**case.case.model_dump(exclude_unset=True), "expect": expect})
    write_case(LoadedCase(path, changed, recording))


def _asked_for(recording: Recording, result: CaseResult) -> Recording:
    """Return the recording without replies that no call asked for."""
    replies = {key: one for key, one in recording.replies.items() if key in result.sent or not one.is_answered}
    return structs.replace(recording, replies=replies)


def _expected(before: Expected, now: Expected) -> dict[str, object]:
    """Return what is expected from now on: of the same fields, and no pattern or margin is lost."""
    found: dict[str, object] = {}
    for name in before.model_fields_set:
        if name == "output" and isinstance(before.output, ExpectedText):
            found[name] = before.output.model_dump()
        elif name == "tokens" and before.tokens is not None and now.tokens is not None:
            found[name] = {**before.tokens.model_dump(exclude_unset=True), "about": now.tokens.about}
        else:
            value = now.model_dump(exclude_unset=True).get(name)
            found |= {name: value} if value is not None else {}
    return found
