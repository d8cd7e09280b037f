"""Writes cases: new ones, and those whose team does something else from now on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from teamwright.testing.cases.case_file import Case, Expected, ExpectedText, LoadedCase, read_case, recording_path
from teamwright.testing.cases.recording import Recording
from teamwright.testing.cases.replay import CaseResult


def write_case(case: LoadedCase) -> None:
    """Write a case and its recording."""
    recording_path(case.path).write_text(case.recording.to_text(), encoding="utf-8")
    case.path.write_text(case.case.to_yaml(), encoding="utf-8")


def with_recording(case: LoadedCase, recording: Recording) -> LoadedCase:
    """Return the case with another recording."""
    return replace(case, recording=recording)


def rewrite_case(path: Path, result: CaseResult) -> None:
    """Rewrite a case with what its run did: what its calls sent, and what is checked, but no check of the user's own."""
    case = read_case(path)
    assert result.now is not None
    recording = result.recorded or _asked_for(case.recording, result).with_prompts(result.sent)
    expect = _expected(case.case.expect, result.now)
    changed = Case.model_validate({**case.case.model_dump(exclude_unset=True), "expect": expect})
    write_case(LoadedCase(path, changed, recording))


def _asked_for(recording: Recording, result: CaseResult) -> Recording:
    """Return the recording without replies that no call asked for."""
    replies = {key: one for key, one in recording.replies.items() if key in result.sent or not one.is_answered}
    return Recording(recording.start, replies, recording.sent, recording.texts, recording.files)


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
