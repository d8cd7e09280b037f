"""A case reports every mistake in both of its files at once, with its line and what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright.errors import ManifestError
from teamwright.testing.case_file import find_cases, read_case, recording_path
from teamwright.testing.case_replay import replay_case
from tests.kit.cases import made_case


def problems(path: Path) -> list[str]:
    """The mistakes of a case, without its folder."""
    with pytest.raises(ManifestError) as caught:
        read_case(path)
    return [str(one).replace(f"{path.parent}/", "") for one in caught.value.problems]


def test_every_mistake_is_reported_with_its_line_and_a_suggestion(team: Path) -> None:
    path = made_case(team, "Explain B-trees").path
    mistakes = "expect:\n  status: complete\n  output: {match: '('}\n  tokens: {about: -1}\n"
    path.write_text(f"manifest: ../teem.yaml\ntaks: Explain\n{mistakes}")
    recording = recording_path(path)
    lines = recording.read_text().splitlines()
    recording.write_text("\n".join([*lines, lines[1], '{"type":"replay"}', "{"]))
    found = problems(path)
    for words in ("'taks' is not a field here", "did you mean 'task'?", "did you mean 'completed'?", "about", "teem"):
        assert any(words in one for one in found), (words, found)
    assert sum(one.startswith("one.replies.jsonl:") for one in found) == 3


def test_a_case_without_its_recording_says_so(team: Path) -> None:
    path = made_case(team, "Explain B-trees").path
    recording_path(path).unlink()
    assert problems(path)[0].startswith("one.replies.jsonl: There is no such file")


def test_an_answer_that_is_missing_is_named(team: Path) -> None:
    path = made_case(team, "Explain B-trees").path
    recording = recording_path(path)
    recording.write_text(recording.read_text() + '{"type":"sent","at":1.0,"answers":"report/ask-1"}\n')
    assert "the question 'report/ask-1' of the recording has no answer" in problems(path)[0]


def test_what_members_say_may_contain_any_character(team: Path) -> None:
    said = "".join(map(chr, range(1, 0xA1))) + "\u2028\u2029\ufeff\uffff\n"
    data = {said: [said]}
    rules = [{"agent": "critic", "json": data}, {"reply": said}]
    (team / "scripts").mkdir()
    (team / "scripts" / "replies.yaml").write_text(json.dumps({"rules": rules}))
    manifest = (team / "team.yaml").read_text()
    (team / "team.yaml").write_text(manifest.replace("scripted:", "scripted:scripts/"))
    case = made_case(team, said)
    assert case.case.expect.data == data
    assert replay_case(case).passes


def test_folders_give_their_cases_and_no_other_file(team: Path) -> None:
    path = made_case(team, "Explain B-trees").path
    assert find_cases([team]) == [path]
    assert find_cases([team / "team.yaml"]) == [team / "team.yaml"]
