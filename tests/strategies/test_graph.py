"""Graph: from member to member along edges."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given, settings, strategies as st

from teamwright.agents.functions.agent import FunctionAgent
from teamwright.errors import ManifestError, Refused
from teamwright.strategies.edges import Edge
from teamwright.strategies.graph import GraphOptions
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamRouted
from teamwright.values.turns.messages import Message
from teamwright.values.turns.turn import Reply
from tests.kit.members import FakeMembers
from tests.kit.runs import TASK, contents, run, speakers


def edge(way: str, when: str | None = None, task: str | None = None) -> Edge:
    """An edge from a way like `a>b`."""
    source, _, to = way.partition(">")
    return Edge(source=source, to=to, when=when, task=task)


def team(members: list[FunctionAgent], *edges: Edge, **more: Any) -> Team:
    return Team("t", members=members, strategy="graph", options=GraphOptions(edges=edges), **more)


def routes(events: list[Event]) -> list[tuple[str, str | None, str | None]]:
    facts = [event.fact for event in events if isinstance(event.fact, TeamRouted)]
    return [(fact.source, fact.to, fact.when) for fact in facts]


async def test_it_begins_with_the_first_member_and_follows_the_edges() -> None:
    fakes = FakeMembers()
    result, events = await run(team(fakes.members("a b c"), edge("b>c"), edge("a>b")))
    assert fakes.calls == speakers(result) == ["a", "b", "c"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "done", "c is done")
    assert routes(events) == [("a", "b", None), ("b", "c", None)]
    assert [event.place for event in events if event.kind == "agent.asked"][1:] == ["turn-1/a", "turn-2/b", "turn-3/c"]


async def test_all_members_receive_the_conversation_and_the_task_last() -> None:
    fakes = FakeMembers()
    await run(
        team(fakes.members("a b c"), edge("a>b"), edge("b>c")), [Message(name="user", content="before", role="user")]
    )
    assert [turn.task for turn in fakes.turns] == [TASK] * 3
    assert contents(fakes.last_turn("c").history) == ["before", "a is done", "b is done"]


async def test_with_the_output_alone_the_output_of_one_is_the_input_of_the_next() -> None:  # P-03
    fakes = FakeMembers()
    await run(team(fakes.members("a b c"), edge("a>b"), edge("b>c", task="Shorten: {{ text }}"), share="output"))
    assert [(turn.task, len(turn.history)) for turn in fakes.turns] == [
        (TASK, 0),
        ("a is done", 0),
        ("Shorten: b is done", 0),
    ]


@pytest.mark.parametrize(("score", "next_one"), [(9, "publish"), (5, "rewrite"), (1, "reject")])
async def test_the_first_edge_whose_condition_holds_is_taken(score: int, next_one: str) -> None:
    fakes = FakeMembers()
    first = fakes.member("review", Reply.of("review", "hm", data={"score": score}))
    result, events = await run(
        team(
            [first, *fakes.members("publish rewrite reject")],
            edge("review>publish", "data.score >= 8"),
            edge("review>rewrite", "data.score >= 4"),
            edge("review>reject"),
        )
    )
    assert speakers(result) == ["review", next_one]
    assert routes(events)[0][:2] == ("review", next_one)


async def test_conditions_see_the_reply_the_task_and_the_state() -> None:
    fakes = FakeMembers()
    a = fakes.member("a", Reply(messages=(Message(name="a", content="x"), Message(name="a", content="yes")), data=[1]))
    seen = "text == 'yes' and data == [1] and error is none and task is startingwith 'Bring'"
    state = "state.turn == 1 and state.turns == {'a': 1, 'b': 0, 'c': 0} and state.replies.a.data == [1]"
    result, _ = await run(
        team([a, *fakes.members("b c")], edge("a>b", seen), edge("b>c", "state.turns.b == 1 and 'a' in state.replies"))
    )
    assert speakers(result) == ["a", "a", "b", "c"]
    result, _ = await run(team([a, *fakes.members("b c")], edge("a>b", state), edge("a>c", "false")))
    assert speakers(result) == ["a", "a", "b"]


async def test_conditions_see_what_members_share() -> None:  # R-06, P-08
    fakes = FakeMembers()
    a = fakes.member("a", Reply(messages=(Message(name="a", content="x"),), context_updates={"risk": 7}))
    result, _ = await run(
        team([a, *fakes.members("b c")], edge("a>b", "workspace.risk > 8"), edge("a>c", "workspace.risk == 7"))
    )
    assert speakers(result) == ["a", "c"]


async def test_a_transform_makes_the_task_of_the_next_member() -> None:
    fakes = FakeMembers()
    a = fakes.member("a", Reply.of("a", "…", data={"points": ["one", "two"]}))
    transform = "{{ task }} Mind {{ data.points | join(' and ') }}."
    await run(team([a, *fakes.members("b c")], edge("a>b", task=transform), edge("b>c")))
    assert fakes.last_turn("b").task == f"{TASK} Mind one and two."
    assert contents(fakes.last_turn("b").history) == ["…"]
    assert fakes.last_turn("c").task == TASK


async def test_no_open_edge_ends_it_well() -> None:
    fakes = FakeMembers()
    result, events = await run(team(fakes.members("a b"), edge("a>b", "'never' in text")))
    assert (result.status, result.stop_reason, speakers(result)) == ("completed", "done", ["a"])
    assert result.warnings == ()
    assert routes(events) == [("a", None, None)]


async def test_a_loop_goes_round_until_its_condition_lets_go() -> None:
    fakes = FakeMembers()
    verdicts = iter([False, False, True])
    review = fakes.member("review", lambda turn: Reply.of("review", "look", data={"good": next(verdicts)}))
    result, _ = await run(
        team([fakes.member("write"), review], edge("write>review"), edge("review>write", "not data.good"), max_turns=20)
    )
    assert speakers(result) == ["write", "review"] * 3
    assert result.stop_reason == "done"


async def test_max_turns_guards_cycles_and_keeps_everything() -> None:
    fakes = FakeMembers()
    result, _ = await run(team(fakes.members("a b"), edge("a>b"), edge("b>a"), max_turns=5))
    assert speakers(result) == ["a", "b", "a", "b", "a"]
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert result.warnings == ("t: stopped at its limit of 5 turns (max_turns: 5)",)
    result, _ = await run(team(fakes.members("a b"), edge("a>b"), edge("b>a"), max_turns=2, on_max_turns="fail"))
    assert (result.status, result.stop_reason, len(result.messages)) == ("failed", "max_turns", 2)


async def test_a_way_that_ends_at_the_limit_has_not_reached_it() -> None:
    result, _ = await run(team(FakeMembers().members("a b"), edge("a>b"), max_turns=2))
    assert (result.stop_reason, result.warnings) == ("done", ())
    result, _ = await run(team(FakeMembers().members("a b"), edge("a>b"), max_turns=1))
    assert result.stop_reason == "max_turns"


@pytest.mark.parametrize(
    ("when", "task", "words"),
    [
        ("data.ok", None, "the condition 'data.ok' can't be evaluated: data.ok is missing"),
        ("text", None, "text is the text 'a is done', neither true nor false"),
        (None, "{{ data.ok }}", "the template can't be rendered: data.ok is missing"),
    ],
)
async def test_what_cannot_be_worked_out_fails_the_team_and_names_the_edge(
    when: str | None, task: str | None, words: str
) -> None:
    result, _ = await run(team(FakeMembers().members("a b"), edge("a>b", when, task)))
    assert (result.status, result.stop_reason, speakers(result)) == ("failed", "error", ["a"])
    assert result.failure is not None
    assert result.failure.error == "expression"
    assert result.failure.message.startswith("the edge from 'a' to 'b': ")
    assert words in result.failure.message


async def test_a_failing_member_fails_the_run_by_name_and_keeps_the_messages() -> None:
    fakes = FakeMembers()
    result, _ = await run(team([fakes.member("a"), fakes.member("b", Refused("no ink"))], edge("a>b")))
    assert (result.status, result.stop_reason, speakers(result)) == ("failed", "error", ["a"])
    assert result.failure is not None
    assert "'b' failed: no ink" in result.failure.message


async def test_an_edge_that_looks_at_the_error_handles_a_failure() -> None:  # P-02
    fakes = FakeMembers()
    members = [fakes.member("a", Refused("no ink")), *fakes.members("b c")]
    edges = [
        edge("a>b"),
        edge("a>c", "error == 'timeout'"),
        edge("a>c", "error == 'refused'", "Do it instead of a, which has {{ error }}: {{ task }}"),
    ]
    result, events = await run(team(members, *edges))
    assert speakers(result) == ["c"]
    assert fakes.last_turn("c").task == f"Do it instead of a, which has refused: {TASK}"
    assert (result.status, result.stop_reason) == ("degraded", "done")
    assert result.warnings == ("t: 'a' failed and was skipped (refused: no ink)",)
    assert routes(events) == [("a", "c", "error == 'refused'")]
    assert not fakes.any_received("no ink")


async def test_a_failure_that_no_edge_handles_is_a_failure() -> None:  # P-02
    fakes = FakeMembers()
    members = [fakes.member("a", Refused("no ink")), *fakes.members("b c")]
    result, _ = await run(team(members, edge("a>c", "error == 'timeout'"), edge("a>b")))
    assert (result.status, fakes.calls) == ("failed", ["a"])


async def test_after_an_optional_member_it_continues_without_it() -> None:
    fakes = FakeMembers()
    members = [fakes.member("a", Refused("no ink"), optional=True), *fakes.members("b c")]
    result, _ = await run(team(members, edge("a>b", "'x' in text"), edge("a>c")))
    assert (speakers(result), result.status) == (["c"], "degraded")
    result, _ = await run(team([*members[:2]], edge("a>b", "text == ''")))
    assert (speakers(result), result.status) == ([], "degraded"), "a condition on a reply does not hold without one"


async def test_a_member_that_terminates_ends_it_before_any_condition_is_asked() -> None:
    fakes = FakeMembers()
    a = fakes.member("a", Reply.of("a", "enough", signal="terminate"))
    result, _ = await run(team([a, fakes.member("b")], edge("a>b", "data.nothing")))
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "enough")


async def test_a_nested_team_stands_in_it_like_any_member() -> None:
    fakes = FakeMembers()
    inner = team(fakes.members("x y"), edge("x>y"))
    made = Team(
        "outer", members=[fakes.member("a"), inner], strategy="graph", options=GraphOptions(edges=(edge("a>t"),))
    )
    result, _ = await run(made)
    assert speakers(result) == ["a", "t", "t"]


@pytest.mark.parametrize(
    ("edges", "words"),
    [
        ([], "edges: "),
        ([{"from": "a", "to": "b"}], "no edge leads to 'c'; the team begins with 'a', its first member"),
        ([{"from": "a", "to": "z"}], "'z' is not a member"),
        ([{"from": "z", "to": "a"}], "'z' is not a member"),
        ([{"to": "b"}], "from: "),
        ([{"from": "a", "to": "b", "if": "x"}], "if: "),
        ([{"from": "a", "to": "b"}, {"from": "a", "to": "c"}], "'a' has more than one outgoing edge"),
        ([{"from": "a", "to": "b"}, {"from": "a", "to": "c", "when": "'x' in text"}], "more than one outgoing edge"),
        ([{"from": "a", "to": "b", "when": "dat.x"}, {"from": "a", "to": "c"}], "did you mean 'data'?"),
        ([{"from": "a", "to": "b", "task": "{{ x }}"}, {"from": "b", "to": "c"}], "'x' is not known here"),
        (
            [{"from": "a", "to": "b"}, {"from": "b", "to": "c"}, {"from": "c", "to": "b"}],
            "'graph' needs max_turns, since its edges lead back: b → c → b",
        ),
        (
            [{"from": "a", "to": "b"}, {"from": "b", "to": "c", "when": "data.x"}, {"from": "b", "to": "b"}],
            "lead back: b → b",
        ),
    ],
)
def test_what_is_wrong_is_reported_before_anything_runs(edges: list[Any], words: str) -> None:
    with pytest.raises(ManifestError) as raised:
        Team("t", members=FakeMembers().members("a b c"), strategy="graph", options={"edges": edges})
    assert words in str(raised.value)


def test_without_options_it_says_that_edges_are_missing() -> None:
    with pytest.raises(ManifestError, match="'graph' needs edges"):
        Team("t", members=FakeMembers().members("a b"), strategy="graph")


def test_a_member_stands_in_it_once() -> None:
    a, b = FakeMembers().members("a b")
    with pytest.raises(ManifestError, match="listed twice"):
        team([a, b, b], edge("a>b"))


def test_edges_are_written_in_a_manifest_as_in_python() -> None:
    one = edge("a>b", "data.x")
    assert Edge.model_validate({"from": "a", "to": "b", "when": "data.x"}) == one
    assert one.model_dump(by_alias=True, exclude_unset=True, exclude_none=True) == {
        "from": "a",
        "to": "b",
        "when": "data.x",
    }
    made = team(FakeMembers().members("a b"), one)
    assert made.spec.options["edges"] == [{"from": "a", "to": "b", "when": "data.x", "task": None}]


ways = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd"), st.integers(0, 3)), min_size=1, max_size=8)


@settings(max_examples=60)
@given(ways, st.integers(1, 9))
async def test_it_only_goes_along_open_edges_and_always_ends(
    drawn: list[tuple[str, str, int]], limit: int
) -> None:
    reached = {"a"}
    for _ in drawn:
        reached |= {other for one, other, _ in drawn if one in reached}
    found = [way for way in drawn if way[0] in reached]
    assume(found)
    edges = [edge(f"{one}>{other}", f"state.turns['{one}'] > {least}") for one, other, least in found]
    result, events = await run(team(FakeMembers().members(" ".join(sorted(reached))), *edges, max_turns=limit))
    said = speakers(result)
    assert said[0] == "a"
    assert len(said) <= limit
    assert [(one, other) for one, other, _ in routes(events) if other][: len(said) - 1] == list(pairwise(said))
    for place, (one, other) in enumerate(pairwise(said), start=1):
        turns = said[:place].count(one)
        assert other == next(to for source, to, least in found if source == one and turns > least)
