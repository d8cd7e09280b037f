"""Whatever settings of a plan go together, whatever people change and wherever the run is cut: the laws of plans hold.

Settings, members that fail, reviews, interventions, budgets and crashes are drawn at random over every axis. What does
not go together is refused in words when the team is made; all else ends once, as its record says.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, event, given, settings
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.runtime.engine import Engine
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.run import PersonAnswered
from teamwright.values.limits import Limits
from teamwright.values.people import (
    Answered,
    EditPlan,
    PauseMember,
    RaiseBudget,
    RemoveMember,
    RestorePlan,
    Steer,
    StopStep,
    Tell,
)
from teamwright.values.turns.results import RunResult
from tests.growth import cut_off
from tests.kit.records import cut_into
from tests.laws.plan_laws import (
    check_reviews,
    check_run,
    pending_places,
    received,
    recorded_calls,
    settled,
    step_endings,
)
from tests.laws.plan_members import Desk, Habits
from tests.laws.random_plans import (
    ASKED,
    CHIEF,
    CLOSER,
    FINAL_JUDGE,
    GOOD,
    JUDGE,
    MIXED,
    OWN_EVALUATOR,
    PANEL,
    PLAIN,
    PRESETS,
    SENT,
    SOURCES,
    Cut,
    NestedPlan,
    PlanCase,
    plan_cases,
)
from tests.laws.steered_plan_laws import check_steering
from tests.laws.test_interventions import BatchJournal
from tests.profiles import is_thorough, sampled

pytestmark = pytest.mark.experts

MOST_PAUSES, LONGEST = 40, 20
EXAMPLES = 2500 if is_thorough() else 63
"""Of each source of plans, with and without the defaults of a preset: 20 000 in all, or 500."""
SAMPLE = 150
AXES: dict[str, tuple[object, ...]] = {
    "source": SOURCES,
    "preset": (*PRESETS["plain"], *PRESETS["preset"]),
    "who": ("agent", "role", "pool", "race", "parts", "split"),
    "merge": ("best", "vote", "fusion"),
    "enough": (True, False),
    "pool": (None, True, "first", "tuple"),
    "lead": (None, "boss", CHIEF),
    "roles": (True, False),
    "talk": (None, "none", "lead", "all"),
    "rounds": (0, 1, 2),
    "handout": (None, "step", "batch"),
    "sees": (None, "all"),
    "team_review": (None, "not_blank", "criteria", "judge", "both"),
    "review": (None, "not_blank", "criteria", "judge", "both"),
    "exceeded": ("ask", "fail"),
    "risk": (None, "low", "medium", "high"),
    "revisions": (None, 0, 1, 2),
    "on_failure": (None, "fail", "cancel", "skip", "collect", "ladder"),
    "attempts": (0, 1, 2),
    "attempt": ("retry", "other_member", "adjust"),
    **dict.fromkeys(("upgrade_model", "downgrade_model", "skip_step"), (True, False)),
    "other_models": ("tuple",),
    "answer": (None, "lead", "decision"),
    "judge": ("judge", "b", PANEL, MIXED),
    "own_evaluator": (True, False),
    "required": (True,),
    "requests": (1, 3),
    "finish": (True, False, CLOSER),
    "planner_failure": ("fail_fast", "single_step_fallback", "step_each", "finish"),
    "replans": (0, 1, 2),
    "proposals": (None, 0, 2),
    "confirm": (None, True),
    "share": (None, "transcript", "a2a_lite", "output"),
    "timeout": (None, "float"),
    "nested": (True, False),
    "inner": ("expert", "collaborate", "live", "react", "dag"),
    "limits": (None, "calls", "tokens"),
    "sent": SENT,
    "sent_at": (0, "later"),
    "fails": (0, 10, 30, 90),
    "terminates": (0, 4, 25),
    "cut_while_pending": (True, False),
    "crashes": (0, 1, 2),
}
"""The values of settings, and what else happens, that the cases have to contain."""


class PlanRunner:
    """Runs and resumes the team of a case, and answers whatever it asks people, until it ends."""

    def __init__(self, case: PlanCase, desk: Desk, team: Team) -> None:
        self.case, self.desk, self.team = case, desk, team

    async def run(self, journal: BatchJournal, *, resume: bool = False) -> RunResult:
        """Run the team, or resume it from this journal."""
        async with Engine(journal, seed=lambda: 1) as engine:
            result = await (engine.resume("r", team=self.team) if resume else engine.run(self.team, "go", run_id="r"))
            for _ in range(MOST_PAUSES):
                if result.status != "paused":
                    return result
                history = await engine.runs.history("r")
                for key, asked in history.questions().items():
                    await engine.runs.answer("r", key, self.desk.person(asked, key))
                result = await engine.resume("r", team=self.team)
        raise AssertionError("the run never ends")

    async def check_all(self) -> None:
        """Run the team, cut its record and resume it, and check all laws."""
        case, desk, journal = self.case, self.desk, BatchJournal()
        waiting = sorted(case.sent, key=lambda one: one[0])

        async def send_due(number: int) -> None:
            while waiting and waiting[0][0] <= number:
                await journal.send("r", waiting.pop(0)[1])

        await send_due(0)
        desk.meanwhile = send_due
        result = await self.run(journal)
        events = await journal.read("r")
        self._check(events, result)
        for where in case.cuts:
            if (resumed := await self._resume_cut(journal, events, result, where)) is not None:
                journal, events, result = resumed

    def _check(self, events: list[Event], result: RunResult) -> None:
        check_run(self.case, events, result)
        check_reviews(self.case, events, self.desk.prompts, result)
        check_steering(self.case, self.desk, events, result)

    async def _cut(self, journal: BatchJournal, events: list[Event]) -> BatchJournal:
        """Copy these events and the inbox, without the answers that were given later: people give them again."""
        copy, inbox = await cut_into(BatchJournal(), journal, len(events), letters=False), await journal.inbox("r")
        keys = {event.key for event in events if isinstance(event.fact, PersonAnswered)}
        answered = {
            item.id for item in inbox if isinstance(item.intervention, Answered) and item.intervention.key in keys
        }
        last = max(answered | received(events), default=0)
        for item in inbox:
            if item.id <= last or isinstance(item.intervention, Steer):
                await copy.send("r", item.intervention)
        return copy

    async def _resume_cut(
        self, journal: BatchJournal, events: list[Event], result: RunResult, where: Cut
    ) -> tuple[BatchJournal, list[Event], RunResult] | None:
        """Cut the record at the end of a write, resume it, and compare; returns the other record and its result."""
        case, desk = self.case, self.desk
        places = (pending_places(events, journal.ends) if where.pending else ()) or journal.ends
        at = places[where.place % len(places)]
        if events[at - 1].kind == "run.ended":
            return None
        copy = await self._cut(journal, events[:at])
        desk.clear()
        again = await self.run(copy, resume=True)
        after = await copy.read("r")
        self._check(after, again)
        assert not recorded_calls(events[:at]) & set(desk.called)
        sent = {item.id for item in await journal.inbox("r") if isinstance(item.intervention, Steer)}
        if not case.has_limits and sent <= settled(events[:at]):
            assert (again.status, again.stop_reason) == (result.status, result.stop_reason)
            assert (again.output, again.messages) == (result.output, result.messages)
            assert step_endings(after) == step_endings(events)
        return copy, after, again


def made_or_refused(case: PlanCase, desk: Desk) -> Team | None:
    """Make the team; settings that don't go together are refused with a sentence for people."""
    try:
        return case.team(desk)
    except UsageError as error:
        text = str(error)
        event("refused: " + re.sub(r"'[^']*'", "…", text)[:90])
        assert text.startswith("the team 't': ")
        assert "Traceback" not in text
        return None


def run_case(case: PlanCase) -> bool:
    """Check all laws on a case; return whether its team could be made."""
    desk = case.desk()
    team = made_or_refused(case, desk)
    if team is None:
        return False
    runner = PlanRunner(case, desk, team)

    async def run() -> None:
        with anyio.fail_after(LONGEST):
            await runner.check_all()

    with cut_off(LONGEST):  # a loop that never waits can't be cancelled
        anyio.run(run)
    return True


@pytest.mark.parametrize("presets", PRESETS)
@pytest.mark.parametrize("source", SOURCES)
def test_whatever_is_combined_the_laws_of_plans_hold(source: str, presets: str) -> None:  # K-09, A-05, A-13
    ran = Counter[bool]()

    @settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
    @given(case=plan_cases(source, PRESETS[presets]))
    def hold(case: PlanCase) -> None:
        ran[run_case(case)] += 1

    hold()
    assert ran[False] < ran[True] / 2, "settings that are refused say nothing about the laws"


QUIET = Habits(fails=0, poor=0, garbled=0, talks=0, proposes=0, terminates=0, requests=1)
FIRST: dict[str, JsonValue] = {"id": "s1", "agent": "a", "task": "Step 1."}
SECOND: dict[str, JsonValue] = {"id": "s2", "agent": "boss", "task": "As edited."}
OTHER: dict[str, JsonValue] = {"id": "s2", "agent": "b", "task": "Step 2."}


def found(
    options: dict[str, Any], *sent: tuple[int, Steer], preset: str = "plan", salt: int = 4, fails: int = 0
) -> PlanCase:
    """A case that was drawn once: its options, and what people do."""
    helpers, habits = (JUDGE, FINAL_JUDGE, CHIEF, CLOSER), QUIET._replace(fails=fails)
    return PlanCase(preset, {"timeout": None, **options}, PLAIN, helpers, None, salt, habits, None, None, sent, ())


STEPWISE = {
    "decide": "stepwise",
    "lead": "boss",
    "answer": None,
    "max_parallel": 1,
    "on_failure": ["adjust", "upgrade_model", "downgrade_model", "skip_step"],
}
PART: dict[str, JsonValue] = {"parallel": "subtask_parallel", "parts": [{"id": "p1", "agent": "a"}]}
NESTED = NestedPlan(
    "expert",
    {"timeout": None, "steps": [{"id": "i1", "agent": "y"}, {"id": "i2", "agent": "z", "needs": ["i1"]}]},
)
SPLIT: dict[str, Any] = {
    "talk": "all",
    "rounds_of_talk": 2,
    "max_parallel": 1,
    "confirm": True,
    "lead": CHIEF,
    "answer": None,
    "evaluate": {"criteria": [{**GOOD, "required": False}], "evaluator": OWN_EVALUATOR},
    "steps": [
        {
            "id": "s1",
            "task": "Step 1.",
            "parallel": "subtask_parallel",
            "agents": ["a", "b"],
            "evaluate": {"criteria": [ASKED], "judge": JUDGE, "on_failure": "ask", "revisions": 0},
        },
        {"id": "s2", "task": "Step 2.", "parallel": "competitive_parallel", "agents": ["a", "b", "c"], "enough": 1},
        {"id": "s3", "task": "Step 3.", "needs": ["s1", "s2"], "agent": "b"},
    ],
}
FOUND: dict[str, PlanCase] = {
    "the lead hears what a person said while another change is decided": replace(
        found(
            {
                "evaluate": {"criteria": [{**GOOD, "required": False}]},
                "talk": "lead",
                "sees": "all",
                "timeout": 600.0,
                "proposals": 2,
                "lead": "boss",
                "answer": None,
                "on_failure": ["retry", "retry", "upgrade_model", "downgrade_model"],
                "steps": [
                    {"id": "s1", "task": "Step 1.", "agent": "a"},
                    {
                        "id": "s2",
                        "task": "Step 2.",
                        "needs": ["s1"],
                        "agent": "a",
                        "when": "1 == 1",
                        "nothing_found": True,
                    },
                    {"id": "s3", "task": "Step 3.", "needs": ["s1", "s2"], "agent": "a", "when": "1 == 1"},
                    {"id": "s4", "task": "Step 4.", "needs": ["s1", "s2"], "agent": "a", "nothing_found": True},
                ],
            },
            (3, StopStep(step="s2")),
            (3, EditPlan(plan={"steps": [FIRST]})),
            (3, Tell(text="Be brief.", to="")),
            salt=29467,
        ),
        habits=QUIET._replace(proposes=30, terminates=25),
    ),
    "a plan without states is confirmed by a person": found({"confirm": True, "steps": [FIRST]}),
    "a step is stopped while another agent finishes the task": replace(
        found(
            {
                "evaluate": {"criteria": [{**GOOD, "required": False}]},
                "revisions": 0,
                "on_failure": ["upgrade_model", {"finish": CLOSER}],
            },
            (3, StopStep(step="a")),
            preset="dag",
            salt=0,
        ),
        habits=QUIET._replace(poor=60),
        upgraded=PLAIN,
    ),
    "a version of the plan with a part of one who left is restored": found(
        {"pool": "first", "lead": "boss", "steps": [{"id": "s1", "task": "Step 1.", **PART}]},
        (0, RemoveMember(member="a")),
        (0, RestorePlan(plan_version=1)),
        preset="dag",
    ),
    "a step of one part is done again after its review": replace(
        found(
            {
                "evaluate": {"criteria": [ASKED], "judge": [PANEL, FINAL_JUDGE]},
                "on_failure": ["retry", "adjust"],
                "lead": "boss",
                "steps": [{"id": "s1", "task": "Step 1.", **PART}],
            },
            preset="dag",
            salt=673,
        ),
        helpers=(JUDGE, FINAL_JUDGE, CHIEF, CLOSER, PANEL),
        habits=QUIET._replace(poor=20, garbled=20),
    ),
    "a step of a round needs one that comes in a later round": found(
        {"lead": "boss", "handout": "batch", "talk": "all", "rounds_of_talk": 2, "steps": [FIRST, OTHER]},
        (1, EditPlan(plan={"steps": [FIRST, {**OTHER, "needs": ["e1"]}, {"id": "e1", "agent": "c", "task": "New."}]})),
    ),
    "a team within the team is asked for help": replace(
        found({"talk": "all"}, salt=247), nested=NESTED, habits=QUIET._replace(talks=80)
    ),
    "a plan is edited while the lead splits one of its steps": replace(
        found(SPLIT, (0, RaiseBudget(calls=31)), (4, EditPlan(plan={"steps": [FIRST]})), salt=1554),
        share="a2a_lite",
        limits=Limits(calls=4),
        habits=QUIET._replace(talks=80, proposes=30, requests=3),
    ),
    "a notice of a later change is in no turn that began before it": found(
        {},
        (0, EditPlan(plan={"steps": [FIRST, SECOND]})),
        (1, EditPlan(plan={"put": [{**SECOND, "agent": "a", "needs": ["s1"]}]})),
    ),
    "who left gets no step that starts together with others": found(
        {"steps": [FIRST], "answer": "lead", "on_failure": ["upgrade_model"]},
        (0, Tell(text="Be brief.")),
        (0, PauseMember(member="boss")),
        (1, RemoveMember(member="a")),
    ),
    **{
        f"a step that waits for its adjustment is edited ({salt})": found(
            STEPWISE,
            (0, EditPlan(plan={"steps": [FIRST, {**SECOND, "id": "e1"}]})),
            (0, RestorePlan(plan_version=1)),
            (2, EditPlan(plan={"steps": [FIRST, {**SECOND, "id": "e1", "needs": ["s1"]}]})),
            preset="dag",
            salt=salt,
            fails=90,
        )
        for salt in (2, 4, 7)
    },
}


@pytest.mark.parametrize("place", range(0, 16, sampled(3, 1)))
@pytest.mark.parametrize("name", FOUND)
def test_what_was_broken_once_holds_wherever_it_is_cut(name: str, place: int) -> None:
    assert run_case(replace(FOUND[name], cuts=(Cut(place),)))


def test_every_value_of_every_setting_is_drawn() -> None:
    drawn = set[str]()
    for source, presets in product(SOURCES, PRESETS.values()):

        @settings(max_examples=SAMPLE, database=None, suppress_health_check=[HealthCheck.too_slow])
        @given(case=plan_cases(source, presets))
        def draw(case: PlanCase) -> None:
            drawn.update(case.axes)

        draw()
    expected = {f"{axis}={value}" for axis, values in AXES.items() for value in values}
    assert not expected - drawn, sorted(expected - drawn)
