"""Dag: the turns of steps, skipped steps, the answer, and what is refused before the start."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, strategies as st

from teamwright.errors import ManifestError, Refused
from teamwright.runtime.engine import Engine
from teamwright.strategies.plan.options import PlanOptions
from teamwright.strategies.plan.schedule import StepGraph, StepNode
from teamwright.strategies.plan.steps.step_options import template_flaws
from teamwright.teams.team import Team
from teamwright.teams.team_loader import load_team
from teamwright.values.events.event import Event
from teamwright.values.events.team import StepSkipped
from teamwright.values.specs.plan import Step
from teamwright.values.turns.messages import Message
from teamwright.values.turns.results import RunResult
from teamwright.values.turns.turn import Reply
from tests.growth import assert_linear_calls, assert_linear_count
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, contents, run, speakers

TROUBLE = "the crane is stuck"


def steps(**needs: str) -> list[dict[str, Any]]:
    """Steps from keyword arguments: `b="a"`, `c="a b"`."""
    return [{"id": name, "needs": of.split()} for name, of in needs.items()]


def dag(fakes: FakeMembers, steps: list[dict[str, Any]], answers: dict[str, object] | None = None, **more: Any) -> Team:
    """A team with a member for each step that names no other agent."""
    names = dict.fromkeys(step.get("agent", step["id"]) for step in steps)
    members = [fakes.member(name, (answers or {}).get(name)) for name in names]
    fields = {name: more.pop(name) for name in ("share", "limits") if name in more}
    options: dict[str, Any] = {"steps": steps, **more}
    return Team("harbour", members=members, strategy="dag", options=options, **fields)


async def outcome(team: Team) -> RunResult:
    result, _ = await run(team)
    return result


def skips(events: list[Event]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.fact.step, one.fact.reason, one.fact.because) for one in events if isinstance(one.fact, StepSkipped)]


DIAMOND = steps(survey="", draw="survey", buy="survey", build="draw buy")


async def test_outputs_of_the_steps_it_needs_reach_a_step_under_their_ids() -> None:  # P-05
    fakes = FakeMembers()
    result = await outcome(dag(fakes, DIAMOND))
    assert fakes.calls[0] == "survey"
    assert fakes.calls[-1] == "build"
    told = [(message.name, message.content) for message in fakes.last_turn("build").history]
    assert told == [("draw", "draw is done"), ("buy", "buy is done")]
    assert [turn.task for turn in fakes.turns] == [TASK] * 4
    assert speakers(result) == ["survey", "draw", "buy", "build"]
    assert (result.status, result.output) == ("completed", "build is done")


async def test_the_history_of_the_caller_reaches_every_step() -> None:
    fakes = FakeMembers()
    history = [Message(name="user", content="before", role="user")]
    result, _ = await run(dag(fakes, DIAMOND), history)
    assert {turn.history[0].content for turn in fakes.turns} == {"before"}
    assert "before" not in contents(result.messages)


async def test_one_member_may_work_on_several_steps_and_ids_need_not_be_members() -> None:
    fakes = FakeMembers()
    team = dag(fakes, [{"id": "draft", "agent": "writer"}, {"id": "final", "agent": "writer", "needs": ["draft"]}])
    result = await outcome(team)
    assert speakers(result) == ["writer", "writer"]
    assert fakes.received[1][1].history[0].name == "draft"


async def test_in_a_pipeline_a_step_receives_only_the_results_that_it_needs() -> None:  # P-05, P-03
    fakes = FakeMembers()
    await run(dag(fakes, DIAMOND, {"draw": {"sheets": 2}}, share="output"))
    assert fakes.last_turn("survey").task == TASK
    assert fakes.last_turn("draw").task == "survey is done"
    assert json.loads(fakes.last_turn("build").task) == {"draw": {"sheets": 2}, "buy": "buy is done"}
    assert not any(turn.history for turn in fakes.turns)


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_a_step_may_have_its_own_task(share: str) -> None:  # P-02
    fakes = FakeMembers()
    made = steps(survey="", draw="survey")
    made[0]["task"] = "Measure the quay."
    made[1]["task"] = "Draw {{ data.survey.metres }} metres. The report: {{ outputs.survey }}"
    await run(dag(fakes, made, {"survey": {"metres": 40}}, share=share))
    assert fakes.last_turn("survey").task == "Measure the quay."
    assert contents(fakes.last_turn("survey").history) == [TASK]
    assert fakes.last_turn("draw").task == 'Draw 40 metres. The report: {"metres":40}'
    before = [] if share == "output" else [TASK]
    assert contents(fakes.last_turn("draw").history) == [*before, '{"metres":40}']


BRANCHING = [
    {"id": "survey"},
    {"id": "mend", "needs": ["survey"], "when": "data.survey.cracks > 0"},
    {"id": "praise", "needs": ["survey"], "when": "data.survey.cracks == 0"},
    {"id": "thank", "needs": ["praise"]},
    {"id": "report", "needs": ["mend", "thank"]},
]


async def test_a_condition_skips_a_step_visibly_and_its_dependents_alone() -> None:  # P-05, P-02
    fakes = FakeMembers()
    result, events = await run(dag(fakes, BRANCHING, {"survey": {"cracks": 3}}))
    assert fakes.calls == ["survey", "mend", "report"]
    assert skips(events) == [("praise", "condition", ()), ("thank", "needs", ("praise",))]
    assert [message.name for message in fakes.last_turn("report").history] == ["mend"]
    assert (result.status, result.output) == ("completed", "report is done")


async def test_the_other_branch_is_taken_where_the_other_condition_holds() -> None:  # P-05
    fakes = FakeMembers()
    _, events = await run(dag(fakes, BRANCHING, {"survey": {"cracks": 0}}))
    assert fakes.calls == ["survey", "praise", "thank", "report"]
    assert skips(events) == [("mend", "condition", ())]


async def test_a_step_without_needs_may_have_a_condition_too() -> None:
    fakes = FakeMembers()
    made = [{"id": "sing", "when": "'song' in task"}, {"id": "build"}]
    _, events = await run(dag(fakes, made))
    assert fakes.calls == ["build"]
    assert skips(events) == [("sing", "condition", ())]


async def test_where_every_step_is_skipped_the_result_is_empty_with_a_warning() -> None:
    fakes = FakeMembers()
    result, events = await run(dag(fakes, [{"id": "a", "when": "1 > 2"}, {"id": "b", "needs": ["a"]}]))
    assert fakes.received == []
    assert len(skips(events)) == 2
    assert (result.status, result.output, result.data) == ("degraded", "", None)
    assert result.warnings == ("harbour: every step was skipped",)


@pytest.mark.parametrize("when", ["data.survey.cracks > 0", "outputs.survey", "data.survey"])
async def test_a_condition_that_cannot_be_answered_fails_its_step(when: str) -> None:
    fakes = FakeMembers()
    made = [{"id": "survey"}, {"id": "mend", "needs": ["survey"], "when": when}]
    result = await outcome(dag(fakes, made))
    assert fakes.calls == ["survey"]
    assert result.failure is not None
    assert "can't be evaluated" in result.failure.message
    assert "(mend)" in result.failure.message
    assert contents(result.messages) == ["survey is done"]


async def test_a_template_that_cannot_be_filled_in_fails_its_step() -> None:
    fakes = FakeMembers()
    made = [{"id": "survey"}, {"id": "draw", "needs": ["survey"], "task": "{{ data.survey.metres }} m"}]
    result, events = await run(dag(fakes, [*made, {"id": "build", "needs": ["draw"]}]))
    assert fakes.calls == ["survey"]
    assert result.failure is not None
    assert "the template can't be rendered" in result.failure.message
    assert skips(events) == [("build", "failure", ("draw",))]


FAILING = steps(draw="", buy="", build="draw", paint="build buy", count="buy")


async def test_by_default_a_failed_step_fails_the_team_when_independent_steps_are_done() -> None:
    fakes = FakeMembers()
    result, events = await run(dag(fakes, FAILING, {"draw": Refused(TROUBLE)}))
    assert sorted(fakes.calls) == ["buy", "count", "draw"]
    assert skips(events) == [("build", "failure", ("draw",)), ("paint", "failure", ("build",))]
    assert (result.status, result.stop_reason) == ("failed", "error")
    assert contents(result.messages) == ["buy is done", "count is done"]
    assert result.failure is not None
    assert f"'draw' failed: {TROUBLE} (draw)" in result.failure.message


async def test_a_failed_step_may_cancel_the_others() -> None:
    fakes = FakeMembers()
    result = await outcome(dag(fakes, FAILING, {"buy": Refused(TROUBLE)}, on_failure="cancel", max_parallel=1))
    assert fakes.calls == ["draw", "buy"]
    assert (result.status, contents(result.messages)) == ("failed", ["draw is done"])


async def test_a_failed_step_may_be_taken_as_a_skipped_one() -> None:
    fakes = FakeMembers()
    result, events = await run(dag(fakes, FAILING, {"draw": Refused(TROUBLE)}, on_failure="skip"))
    assert skips(events) == [("build", "needs", ("draw",))]
    assert [message.name for message in fakes.last_turn("paint").history] == ["buy"]
    assert result.status == "degraded"
    assert result.warnings == (f"harbour: draw: 'draw' failed and was skipped (refused: {TROUBLE})",)


@pytest.mark.parametrize("share", ["transcript", "output"])
async def test_a_step_may_learn_that_what_it_needs_failed_and_never_why(share: str) -> None:  # law 5
    fakes = FakeMembers()
    result, events = await run(dag(fakes, FAILING, {"draw": Refused(TROUBLE)}, on_failure="collect", share=share))
    assert not skips(events)
    turn = fakes.last_turn("build")
    assert "This step failed" in (turn.task if share == "output" else turn.history[0].content)
    assert not fakes.any_received(TROUBLE)
    assert result.status == "degraded"
    both = await outcome(
        dag(
            fakes,
            steps(draw="", buy="", build="draw buy"),
            {"draw": Refused(TROUBLE)},
            on_failure="collect",
            share=share,
        )
    )
    assert both.status == "degraded"
    if share == "output":
        assert json.loads(fakes.last_turn("build").task) == {"draw": None, "buy": "buy is done"}


async def test_a_step_may_handle_the_failure_of_another() -> None:  # P-02
    fakes = FakeMembers()
    made = [
        {"id": "deploy"},
        {"id": "announce", "needs": ["deploy"], "when": "'deploy' not in failed"},
        {"id": "roll-back", "needs": ["deploy"], "when": "'deploy' in failed"},
    ]
    result = await outcome(dag(fakes, made, {"deploy": Refused(TROUBLE)}, on_failure="collect"))
    assert fakes.calls == ["deploy", "roll-back"]
    assert (result.status, result.output) == ("degraded", "roll-back is done")
    well = FakeMembers()
    assert (await outcome(dag(well, made, on_failure="collect"))).status == "completed"
    assert well.calls == ["deploy", "announce"]


async def test_the_failure_of_an_optional_member_is_taken_as_a_skip() -> None:
    fakes = FakeMembers()
    members = [fakes.member("draw", Refused(TROUBLE), optional=True), *fakes.members("buy build")]
    options: dict[str, Any] = {"steps": steps(draw="", buy="", build="draw buy")}
    result = await outcome(Team("harbour", members=members, strategy="dag", options=options))
    assert (result.status, speakers(result)) == ("degraded", ["buy", "build"])


async def test_of_several_last_steps_each_one_is_in_the_data_and_the_last_gives_the_text() -> None:
    fakes = FakeMembers()
    result = await outcome(dag(fakes, steps(survey="", b="survey", a="survey"), {"b": {"planks": 3}}))
    assert result.output == "a is done"
    assert result.data == {"b": {"planks": 3}, "a": "a is done"}


async def test_a_step_may_be_named_that_gives_the_answer() -> None:
    fakes = FakeMembers()
    made = steps(survey="", report="survey", file="report")
    result = await outcome(dag(fakes, made, {"report": {"pages": 2}}, answer="report"))
    assert speakers(result) == ["survey", "file", "report"]
    assert (result.output, result.data) == ('{"pages":2}', {"pages": 2})


async def test_where_the_named_step_was_skipped_the_last_one_gives_the_answer() -> None:
    fakes = FakeMembers()
    made = [{"id": "survey"}, {"id": "report", "needs": ["survey"], "when": "1 > 2"}]
    result = await outcome(dag(fakes, made, {"survey": {"cracks": 0}}, answer="report"))
    assert (result.output, result.data) == ('{"cracks":0}', {"cracks": 0})
    assert result.warnings == ("harbour: the step 'report', which gives the answer, was skipped",)


async def test_a_step_that_terminates_ends_the_team_with_its_answer() -> None:
    fakes = FakeMembers()
    made = steps(a="", b="a", c="b", z="")
    made[3]["execution_tokens"] = 3
    stop = Reply.of("b", "It sinks.", signal="terminate")
    result = await outcome(dag(fakes, made, {"b": stop}, max_parallel=1))
    assert fakes.calls == ["a", "z", "b"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "It sinks.")
    assert speakers(result) == ["a", "z", "b"]


async def test_a_team_may_work_on_a_step() -> None:
    fakes = FakeMembers()
    crew = Team("crew", members=fakes.members("scraper painter"))
    options = PlanOptions(steps=(Step(id="crew"), Step(id="report", agent="clerk", needs=("crew",))))
    result = await outcome(Team("harbour", members=[crew, fakes.member("clerk")], strategy="dag", options=options))
    assert speakers(result) == ["crew", "crew", "clerk"]
    assert contents(fakes.last_turn("clerk").history) == ["painter is done"]


@pytest.mark.parametrize(
    ("made", "more", "words"),
    [
        ([], {}, "steps: is empty"),
        (steps(a="c", b="a", c="b"), {}, "in a circle: 'a' needs 'c' needs 'b' needs 'a'"),
        (steps(a="a"), {}, "the step 'a' needs itself"),
        (
            steps(survey="", draw="surwey"),
            {},
            "the step 'draw' needs 'surwey', which is no step; did you mean 'survey'",
        ),
        ([{"id": "a"}, {"id": "a"}], {}, "two steps are called 'a'"),
        ([{"id": "a b"}], {}, "'a b' can't name a step"),
        ([{"id": ""}], {}, "step 1 has no id"),
        ([{"id": "a", "owns": [""]}], {}, "the step 'a' owns a key without a name"),
        ([{"id": "a", "execution_tokens": -1}], {}, "steps.0.execution_tokens: "),
        ([{"id": "a", "agent": "nobody"}], {}, "'nobody' is not a member"),
        ([{"id": "aa"}], {}, "the step 'aa' names no agent, and no member has its name; did you mean 'a'"),
        ([{"id": "a", "when": "data.x >"}], {}, "the condition 'data.x >'"),
        ([{"id": "a", "when": "dta.x > 1"}], {}, "'dta' is not known here; did you mean 'data'"),
        ([{"id": "a", "task": "{{ output.x }}"}], {}, "'output' is not known here; did you mean 'outputs'"),
        ([{"id": "a", "wen": "true"}], {}, "steps.0.wen: "),
        (steps(a=""), {"answer": "b"}, "there is no step 'b'"),
        (steps(a=""), {"max_parallel": 0}, "max_parallel: "),
    ],
)
def test_each_mistake_is_reported_before_anything_runs(
    made: list[Any], more: dict[str, Any], words: str
) -> None:
    fakes = FakeMembers()
    with pytest.raises(ManifestError, match=words):
        Team("harbour", members=fakes.members("a b c survey draw"), strategy="dag", options={"steps": made, **more})


def test_all_mistakes_are_reported_at_once_with_their_lines(tmp_path: Path) -> None:  # P-05, R-11
    (tmp_path / "replies.yaml").write_text("- {reply: done}\n")
    (tmp_path / "team.yaml").write_text(
        """
agents:
  survey: {model: scripted:replies.yaml}
  build: {model: scripted:replies.yaml}
teams:
  harbour:
    strategy: dag
    members: [survey, build]
    dag:
      steps:
        - {id: survey, needs: [build]}
        - {id: build, needs: [survey]}
        - {id: paint, agent: build, needs: [bild]}
        - {id: check, agent: survey, when: "data.x ="}
"""
    )
    with pytest.raises(ManifestError) as caught:
        load_team(tmp_path / "team.yaml")
    told = str(caught.value)
    for line, words in ((11, "in a circle"), (13, "needs 'bild'"), (14, "the condition")):
        assert any(f"team.yaml:{line}:" in one and words in one for one in told.splitlines()), told


def test_a_manifest_gives_the_same_team(tmp_path: Path) -> None:
    (tmp_path / "replies.yaml").write_text("- {reply: done}\n")
    (tmp_path / "team.yaml").write_text(
        """
agents: {survey: {model: scripted:replies.yaml}, build: {model: scripted:replies.yaml}}
teams:
  harbour:
    strategy: dag
    members: [survey, build]
    dag: {steps: [{id: survey}, {id: build, needs: [survey], when: "outputs.survey != ''"}], max_parallel: 2}
"""
    )
    options = load_team(tmp_path / "team.yaml").settings.read(PlanOptions)
    assert [step.id for step in options.steps] == ["survey", "build"]
    assert options.max_parallel == 2


@st.composite
def flows(draw: st.DrawFn) -> tuple[list[dict[str, Any]], set[str]]:
    """Steps that need earlier ones, some with a condition that does not hold, and those that fail."""
    made: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 9))):
        needs = sorted(draw(st.sets(st.sampled_from([one["id"] for one in made]), max_size=3))) if made else []
        made.append({"id": f"s{number}", "needs": needs, "when": draw(st.sampled_from(["1 < 2", "1 < 2", "1 > 2"]))})
    return draw(st.permutations(made)), draw(st.sets(st.sampled_from([one["id"] for one in made]), max_size=2))


@given(made=flows(), policy=st.sampled_from(["fail", "skip", "collect"]), limit=st.integers(1, 4))
async def test_every_step_runs_after_its_needs_or_is_reported_as_skipped(
    made: tuple[list[dict[str, Any]], set[str]], policy: str, limit: int
) -> None:
    flow, failing = made
    fakes = FakeMembers()
    answers: dict[str, object] = dict.fromkeys(failing, Refused(TROUBLE))
    result, events = await run(dag(fakes, flow, answers, on_failure=policy, max_parallel=limit))
    skipped = [step for step, _, _ in skips(events)]
    assert sorted([*fakes.calls, *skipped]) == sorted(step["id"] for step in flow)
    assert fakes.most_in_flight <= limit
    assert not fakes.any_received(TROUBLE)
    settled = {"agent.replied", "agent.failed", "step.skipped"}
    place = {
        getattr(event.fact, "step", event.key.split("/")[-2] if event.key.count("/") > 1 else ""): event.number
        for event in events
        if event.kind in settled
    }
    asked = {event.key.split("/")[1]: event.number for event in events if event.key.endswith("/work")}
    for step in flow:
        assert all(place[need] < asked.get(step["id"], len(events)) for need in step["needs"])
    assert speakers(result) == [step for step in _order(flow) if step in fakes.calls and step not in failing]


def _order(flow: list[dict[str, Any]]) -> list[str]:
    return list(StepGraph.from_nodes([StepNode(step["id"], step["needs"]) for step in flow]).order)


@pytest.mark.parametrize("shape", ["chain", "wide", "skipped"])
async def test_a_thousand_steps(shape: str) -> None:
    fakes = FakeMembers()
    made: list[dict[str, Any]] = [{"id": "s0", "agent": "hand"}]
    for number in range(1, 1000):
        need = number - 1 if shape != "wide" else 0
        when = {"when": "1 > 2"} if shape == "skipped" and number == 1 else {}
        made.append({"id": f"s{number}", "agent": "hand", "needs": [f"s{need}"], **when})
    result, events = await run(dag(fakes, made))
    assert len(result.messages) == (1 if shape == "skipped" else 1000)
    assert len(skips(events)) == (999 if shape == "skipped" else 0)


async def test_a_dag_resumes_and_forks_without_asking_again(tmp_path: Path) -> None:
    fakes = FakeMembers()
    team = dag(fakes, BRANCHING, {"survey": {"cracks": 1}})
    async with Engine(tmp_path / "journal.db") as engine:
        result = await engine.run(team, TASK)
        fork = await engine.fork(result.run_id, team=team)
    assert fork.messages == result.messages
    assert fakes.calls == ["survey", "mend", "report"]


def test_the_report_of_unneeded_steps_grows_linearly_with_the_plan() -> None:  # S-01
    def told(size: int) -> int:
        asked = "".join(f"{{{{ outputs.a{number} }}}}" for number in range(size))
        needs = tuple(f"b{number}" for number in range(size))
        names = (*needs, *(f"a{number}" for number in range(size)))
        flaws = list(template_flaws([*(Step(id=name) for name in names), Step(id="last", needs=needs, task=asked)]))
        assert len(flaws) == size
        return sum(len(flaw.text) for flaw in flaws)

    assert_linear_count(told)


@pytest.mark.parametrize("is_wide", [True, False])
def test_the_work_on_each_step_stays_the_same_however_long_the_plan_is(is_wide: bool) -> None:  # S-01
    def run_plan(size: int) -> None:
        needs: list[list[str]] = [[] if is_wide or not place else [f"s{place - 1}"] for place in range(size)]
        plan: list[Any] = [{"id": f"s{place}", "agent": "a", "needs": of} for place, of in enumerate(needs)]
        anyio.run(run, Team("t", members=FakeMembers().members("a"), strategy="dag", options={"steps": plan}))

    assert_linear_calls(run_plan, size=60)
