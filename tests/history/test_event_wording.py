"""Events as text: what a reader must know besides the messages."""

from __future__ import annotations

import pytest

from teamwright.history.event_wording import detail_text, note_text
from teamwright.values.events.agent import (
    AgentCalled,
    AgentCallFailed,
    AgentReplied,
    WorkspaceConflicted,
    WorkspaceKept,
    WorkspaceWritten,
)
from teamwright.values.events.budget import BudgetDegraded, BudgetEased, BudgetThrottled
from teamwright.values.events.event import Event, Fact
from teamwright.values.events.run import Origin, RunCheckpoint, RunIntervened, RunLogged, RunStarted
from teamwright.values.events.team import (
    StepSkipped,
    TeamBounded,
    TeamDecided,
    TeamEmitted,
    TeamEscalated,
    TeamGoalReached,
    TeamReplyRejected,
)
from teamwright.values.limits import NO_CUTBACK
from teamwright.values.people import Mark
from teamwright.values.turns.artifacts import Artifact


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (StepSkipped(step="mend", reason="condition"), "step mend was skipped: its condition does not hold"),
        (
            StepSkipped(step="thank", reason="needs", because=("praise", "mend")),
            "step thank was skipped: there is no output from praise, mend, which it needs",
        ),
        (
            StepSkipped(step="paint", reason="failure", because=("build",)),
            "step paint was skipped: it depends on build, where a step failed",
        ),
        (TeamDecided(by="lead", action="delegate", iteration=2, to=("a", "b")), "decision 2 of lead: delegate to a, b"),
        (TeamDecided(by="lead", action="synthesize", iteration=3), "decision 3 of lead: synthesize"),
        (
            TeamReplyRejected(member="lead", problem="it holds no JSON"),
            "lead is asked again because its answer can't be used: it holds no JSON",
        ),
        (TeamEmitted(event="1", type="workflow.started", depth=0, to=("a",)), "event workflow.started, to a"),
        (TeamEmitted(event="1.1-1", type="found", depth=1, by="a"), "event found from a, no subscribers"),
        (
            TeamBounded(limit="max_depth", most=6, type="ping", by="a", chain=("ping", "pong", "ping")),
            "stopped by max_depth (6): ping from a is dropped, in the loop ping → pong → ping",
        ),
        (
            TeamEscalated(member="a", task_id="step-1", risk_level="high", to="lead"),
            "a reports high risk; its reply counts only if lead approves it",
        ),
        (
            TeamEscalated(member="a", task_id="step-1", risk_level="critical", reason="'lead' failed (refused)"),
            "a reports critical risk; its reply counts only if a person approves it, because 'lead' failed (refused)",
        ),
        (
            TeamGoalReached(by="b", waiting=1, at_work=2),
            "b reached the goal; 2 running are cancelled, 1 reaction dropped",
        ),
    ],
)
def test_a_fact_is_described_in_plain_words(fact: Fact, words: str) -> None:  # P-05
    assert note_text(Event("r", 1, 0.0, "team", "event-2", fact)) == words


BEGUN = RunStarted(team="t", task="", manifest="", seed=1)


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (RunCheckpoint(name="half"), "checkpoint half"),
        (RunCheckpoint(name="half", by="Ada"), "checkpoint half, set by Ada"),
        (RunIntervened(intervention=Mark(name="half"), inbox_id=1), None),
        (RunLogged(text="wet", level="warning"), "warning: wet"),
        (RunLogged(text="as usual"), None),
        (
            WorkspaceConflicted(name="plan", based_on=1, revision=2, body="", by="b"),
            "a write to plan was refused: it was based on version 1, but the current one is 2, written by b",
        ),
        (BEGUN.changed(origin=Origin(run_id="r", number=7, how="fork")), "forked from run r (event 7)"),
        (
            BEGUN.changed(origin=Origin(run_id="r", number=7, how="fork", checkpoint="half")),
            "forked from run r at half (event 7)",
        ),
    ],
)
def test_checkpoints_logs_and_conflicts_are_described_in_plain_words(
    fact: Fact, words: str | None
) -> None:  # P-08, P-09
    assert note_text(Event("r", 1, 0.0, "team", "event-2", fact)) == words


def test_recorded_events_are_described_in_plain_words() -> None:  # P-08
    written = WorkspaceWritten(name="plan", revision=2, body="", by="a")
    kept = WorkspaceKept(artifact=Artifact(hash="", name="plan.md", size=1500), by="a")
    told = [detail_text(Event("r", 1, 0.0, "team", "write-1", fact)) for fact in (written, kept)]
    assert told == ["writes plan, version 2", "stores plan.md (text/plain, 1.5 kB)"]


@pytest.mark.parametrize(
    ("fact", "words"),
    [
        (
            BudgetThrottled(model="m", before=8, after=4, seconds=20.0),
            "m is rate limited: no calls for 20.0 s, then at most 4 at once instead of 8",
        ),
        (BudgetThrottled(model="m", before=8, after=8, seconds=3.0), "m is rate limited: no calls for 3.0 s"),
        (BudgetThrottled(model="m", before=8, after=4), "m is rate limited: at most 4 at once instead of 8"),
        (BudgetEased(model="m", concurrency=8), "m accepts 8 calls at once again"),
        (AgentCalled(effect="model", name="m", request="", waited=75.0), "waited 1 min 15 s in the queue for m"),
        (AgentCalled(effect="model", name="m", request="", waited=0.5), None),
    ],
)
def test_rate_limits_are_described_in_plain_words(fact: Fact, words: str | None) -> None:  # P-13
    assert note_text(Event("r", 1, 0.0, "team", "event-2", fact)) == words


@pytest.mark.parametrize(
    ("rung", "before", "after", "words"),
    [
        ("compaction", None, 6.0, "budget running low: only the last 6 messages are sent in full (why)"),
        ("workers", None, 2, "budget running low: at most 2 workers at once (why)"),
        ("workers", 2, None, "budget recovered: more workers may run at once (why)"),
        ("summaries", 1.0, 0.82, "budget running low: summaries are limited to 82% of their length (why)"),
    ],
)
def test_a_degradation_step_is_described_in_plain_words(
    rung: str, before: float | None, after: float | None, words: str
) -> None:  # Z-11
    fact = BudgetDegraded(rung=rung, before=before, after=after, reason="why", cutback=NO_CUTBACK, undone=after is None)
    assert note_text(Event("r", 1, 0.0, "team", "event-2", fact)) == words


@pytest.mark.parametrize(
    ("place", "retry_in", "words"),
    [
        ("request-1", 0.5, "attempt 1 failed: no (the service failed or could not be reached); retrying in 0.5 s"),
        ("request-1", None, "attempt 1 failed: no (the service failed or could not be reached); gave up"),
        (
            "tool-3",
            None,
            (
                "tool call failed: no (the service failed or could not be reached);"
                " the member sees the error and continues"
            ),
        ),
    ],
)
def test_a_retry_is_not_described_as_giving_up(place: str, retry_in: float | None, words: str) -> None:  # M-10
    fact = AgentCallFailed(error="server", message="no", retry_in=retry_in)
    assert note_text(Event("r", 1, 0.0, "team/a", place, fact)) == words


def test_a_cut_reply_names_its_cap() -> None:
    cut = AgentReplied(truncated=True)
    assert note_text(Event("r", 1, 0.0, "team", "a", cut)) == "the reply was cut at its output cap"
    by_size = cut.changed(warnings=("the reply of 'a' was cut at 4000000 bytes; raise  max_bytes  to get more of it",))
    assert note_text(Event("r", 1, 0.0, "team", "a", by_size)) == "the reply was cut at its size cap"
    by_cap = cut.changed(warnings=("a: the result of the tool 't' was cut at 9 bytes; raise  max_bytes  to get more",))
    assert note_text(Event("r", 1, 0.0, "team", "a", by_cap)) == "the reply was cut at its output cap"
