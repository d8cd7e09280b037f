"""The example of an expert team: a design is reviewed in steps, with a revision, a milestone, a vote and a tie."""

from __future__ import annotations

import subprocess
import sys

from teamwright import Engine, load_team
from teamwright.journal import MemoryJournal
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamEvaluationResult, TeamMerged, TeamStepCompleted
from tests.paths import EXAMPLES

FOLDER = EXAMPLES / "expert_review"


async def reviewed() -> tuple[str, list[Event]]:
    team = load_team(FOLDER)
    async with Engine(MemoryJournal()) as engine:
        result = await engine.run(team, (FOLDER / "task.txt").read_text(), run_id="review")
        history = await engine.runs.history("review")
    assert (result.status, result.stop_reason, result.warnings) == ("completed", "done", ())
    assert result.output is not None
    return result.output, list(history.events)


async def test_a_design_is_reviewed_by_experts_step_by_step() -> None:  # A-03 A-04 A-05
    output, events = await reviewed()
    verdicts = [fact for event in events if isinstance(fact := event.fact, TeamEvaluationResult)]
    assert [(one.member, one.verdict.outcome) for one in verdicts] == [
        ("architect", "revise"),
        ("architect", "pass"),
        ("architect", "pass"),
    ]
    (merged,) = [fact for event in events if isinstance(fact := event.fact, TeamMerged)]
    assert (merged.entries[merged.winner], merged.by, merged.tied) == ("guard", "chief", ("answer-1", "answer-2"))
    assert merged.votes == {
        "architect": "answer-1", "guard": "answer-2", "tester": "answer-2", "advocate": "answer-1"
    }  # fmt: skip
    ended = [
        fact.step for event in events if isinstance(fact := event.fact, TeamStepCompleted) and fact.state == "completed"
    ]
    assert ended == ["reading", "findings", "first_fix", "fixes", "answer"]
    assert output.startswith("# Review: offline sync for the inspection app")


def test_a_person_steers_the_review_while_it_runs() -> None:  # A-07 A-13
    done = subprocess.run(
        [sys.executable, FOLDER / "steer.py"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    first, *_, changed, last = dict.fromkeys(done.stdout.splitlines())
    assert "failed" not in done.stdout
    assert first == "in effect: say"
    assert changed == "plan, version 2: + roll_out (advocate, after fixes): Write the roll-out in three lines."
    assert last == "completed: Roll-out: ten inspectors for four weeks with paper beside it, then fifty a week."
