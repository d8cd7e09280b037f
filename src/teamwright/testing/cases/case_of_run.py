"""Makes a case of a recorded run, and writes it: what the run did is what is expected, of the manifest of its team.

A case whose team does something else from now on is rewritten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import structs

from teamwright.errors import TeamwrightError, UsageError
from teamwright.history.run_history import RunHistory
from teamwright.journal.protocol import Journal
from teamwright.teams.builder import SCRIPTED
from teamwright.teams.manifests.environment_variables import secrets_of
from teamwright.teams.team_loader import read_manifest, source_of
from teamwright.testing.cases.case_file import Expected, ExpectedText, LoadedCase, RunCase, read_case, recording_path
from teamwright.testing.cases.expectations import observed
from teamwright.testing.cases.player import NOTHING_LIVE
from teamwright.testing.cases.recorded_case import Recording
from teamwright.testing.cases.recorded_replies import Cleaner, recording_of
from teamwright.testing.cases.replay import CaseReplay, CaseResult, run_now
from teamwright.values.specs.manifest import Source
from teamwright.values.specs.models import model_key
from teamwright.values.turns.results import RunResult

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
