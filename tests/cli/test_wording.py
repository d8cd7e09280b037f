"""Events in words: what a reader must know besides who said what."""

from __future__ import annotations

import pytest

from teamwright.cli.wording import note_text
from teamwright.values.events import (
    Event,
    Fact,
    StepSkipped,
    TeamBounded,
    TeamDecided,
    TeamEmitted,
    TeamGoalReached,
    TeamToldBack,
)


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (StepSkipped(step="mend", reason="condition"), "step mend was skipped: its condition does not hold"),
        (
            StepSkipped(step="thank", reason="needs", because=("praise", "mend")),
            "step thank was skipped: there is nothing from praise, mend, which it needs",
        ),
        (
            StepSkipped(step="paint", reason="failure", because=("build",)),
            "step paint was skipped: it stands on build, and a step failed there",
        ),
        (TeamDecided(by="lead", action="delegate", iteration=2, to=("a", "b")), "decision 2 of lead: delegate to a, b"),
        (TeamDecided(by="lead", action="synthesize", iteration=3), "decision 3 of lead: synthesize"),
        (
            TeamToldBack(member="lead", problem="it holds no JSON"),
            "lead is asked again, since its answer can't be used: it holds no JSON",
        ),
        (TeamEmitted(event="1", type="workflow.started", depth=0, to=("a",)), "event workflow.started, to a"),
        (TeamEmitted(event="1.1-1", type="found", depth=1, by="a"), "event found from a, to nobody"),
        (
            TeamBounded(limit="max_depth", most=6, type="ping", by="a", chain=("ping", "pong", "ping")),
            "stopped by max_depth (6): ping from a does not happen, in the loop ping → pong → ping",
        ),
        (
            TeamGoalReached(by="b", waiting=1, at_work=2),
            "b reached the goal; 2 at work are stopped, 1 reaction dropped",
        ),
    ],
)
def test_a_fact_is_told_in_words(fact: Fact, words: str) -> None:  # P-05
    assert note_text(Event("r", 1, 0.0, "team", "event-2", fact)) == words
