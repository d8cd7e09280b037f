"""Competition: one budget, one result; votes are never for oneself, the lead breaks ties, and losers are cancelled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import anyio
import pytest

from teamwright.agents.agent import Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.agent import FunctionAgent
from teamwright.agents.scripted import Rule, ScriptedAgent
from teamwright.errors import InvalidRequest, Refused, ServiceError
from teamwright.teams.team import Team
from teamwright.values.events.team import TeamMerged
from teamwright.values.limits import Limits
from teamwright.values.retries import RetryPolicy
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Turn
from teamwright.values.usage_and_prices import Usage
from tests.kit.collaboration import RACE, collaboration, deciding, facts, steps_of
from tests.kit.members import FakeMembers
from tests.kit.runs import contents, run, speakers

BEST: list[Any] = [{"id": "title", "parallel": RACE, "agents": ["a", "b", "c"]}]
VOTE: list[Any] = [{**BEST[0], "merge": "vote"}]
PICK_B = {"winner": "answer-2", "reason": "It is the shortest."}


def offered(turn: Turn) -> list[str]:
    fields: Any = (turn.output_schema or {}).get("properties", {})
    return fields["winner"]["enum"] if "winner" in fields else []


def voting(name: str) -> Callable[[Turn], str | None]:
    """Vote for the answer of this name, if it is offered; otherwise answer as usual."""
    return lambda turn: json.dumps({"winner": name, "reason": "good"}) if offered(turn) else None


async def test_the_lead_picks_the_best_with_a_reason() -> None:
    fakes = FakeMembers()
    result, events = await run(
        collaboration(fakes, BEST, members={"lead": fakes.member("lead", deciding(winner=PICK_B))})
    )
    assert result.status == "completed"
    (merged,) = facts(events, TeamMerged)
    assert (merged.winner, merged.by, merged.reason) == ("answer-2", "lead", "It is the shortest.")
    assert merged.entries == {"answer-1": "a", "answer-2": "b", "answer-3": "c"}
    assert contents(fakes.last_turn("lead").history) == ["b is done"]
    assert speakers(result) == ["a", "c", "b", "lead"]


async def test_answers_are_shown_without_their_authors() -> None:
    fakes = FakeMembers(default=lambda name, turn: "an answer")
    await run(collaboration(fakes, BEST, members={"lead": fakes.member("lead", deciding(winner=PICK_B))}))
    pick = next(turn for _, turn in fakes.received if offered(turn))
    assert [message.name for message in pick.history] == ["answer-1", "answer-2", "answer-3"]


async def test_all_members_vote_and_most_votes_win() -> None:
    fakes = FakeMembers()
    members = {name: fakes.member(name, voting("answer-2")) for name in ("lead", "a", "c")}
    members["b"] = fakes.member("b", voting("answer-1"))
    result, events = await run(collaboration(fakes, VOTE, members=members))
    (merged,) = facts(events, TeamMerged)
    assert merged.votes == {"lead": "answer-2", "a": "answer-2", "b": "answer-1", "c": "answer-2"}
    assert (merged.winner, merged.tied, merged.by) == ("answer-2", (), "")
    assert result.status == "completed"


async def test_no_member_is_offered_its_own_answer_and_a_vote_for_it_does_not_count() -> None:
    fakes = FakeMembers()
    own = {"a": "answer-1", "b": "answer-2", "c": "answer-3"}
    members = {name: fakes.member(name, voting(answer)) for name, answer in own.items()}
    members["lead"] = fakes.member("lead", voting("answer-3"))
    _, events = await run(collaboration(fakes, VOTE, members=members))
    for name, turn in fakes.received:
        assert own.get(name) not in offered(turn)
    (merged,) = facts(events, TeamMerged)
    assert merged.votes == {"lead": "answer-3", "a": "", "b": "", "c": ""}
    assert merged.winner == "answer-3"


async def test_voters_see_the_answers_in_different_orders() -> None:
    fakes = FakeMembers()
    members = {name: fakes.member(name, voting("answer-1")) for name in ("lead", "d")}
    await run(collaboration(fakes, VOTE, "lead a b c d", members=members))
    ballots = [turn for _, turn in fakes.received if len(offered(turn)) == 3]
    assert len({tuple(message.name for message in turn.history) for turn in ballots}) == 2


async def test_a_tie_goes_to_the_lead() -> None:
    fakes = FakeMembers()
    votes = {"a": "answer-2", "b": "answer-1", "c": "answer-1"}
    members = {name: fakes.member(name, voting(answer)) for name, answer in votes.items()}
    members["lead"] = fakes.member("lead", voting("answer-2"))
    _, events = await run(collaboration(fakes, VOTE, members=members))
    (merged,) = facts(events, TeamMerged)
    assert (merged.tied, merged.winner, merged.by) == (("answer-1", "answer-2"), "answer-2", "lead")
    tie = [turn for name, turn in fakes.received if name == "lead" and len(offered(turn)) == 2]
    assert [sorted(offered(turn)) for turn in tie] == [["answer-1", "answer-2"]]


async def test_the_lead_merges_all_answers_in_a_fusion() -> None:
    fakes = FakeMembers()
    lead = fakes.member("lead", lambda turn: "fused" if "Merge them" in turn.task else None)
    result, events = await run(collaboration(fakes, [{**BEST[0], "merge": "fusion"}], members={"lead": lead}))
    (merged,) = facts(events, TeamMerged)
    assert (merged.winner, merged.by) == ("", "lead")
    assert contents(fakes.last_turn("lead").history) == ["fused"]
    assert speakers(result) == ["a", "b", "c", "lead", "lead"]


async def test_a_competitor_that_fails_does_not_sink_the_phase() -> None:
    fakes = FakeMembers()
    members = {"a": fakes.member("a", Refused("trouble")), "lead": fakes.member("lead", deciding(winner=PICK_B))}
    result, events = await run(collaboration(fakes, BEST, members=members))
    assert result.status == "degraded"
    assert steps_of(events) == ["title starts", "title completed"]
    assert not fakes.any_received("trouble")


async def test_a_competitor_with_wrong_settings_is_not_asked_for_a_vote() -> None:
    fakes = FakeMembers()
    members = {name: fakes.member(name, voting("answer-2")) for name in ("lead", "b", "c")}
    members["a"] = fakes.member("a", InvalidRequest("The model 'gpt-6' refused the request, HTTP 404"))
    result, events = await run(collaboration(fakes, VOTE, members=members))
    assert fakes.calls.count("a") == 1
    assert result.status == "degraded"
    assert "gpt-6" in result.warnings[0]
    (merged,) = facts(events, TeamMerged)
    assert (merged.winner, merged.votes["a"]) == ("answer-2", "")


async def test_a_competitor_whose_retries_are_used_up_makes_one_attempt_to_vote() -> None:
    calls: list[Turn] = []

    def fail(turn: Turn) -> str:
        calls.append(turn)
        raise ServiceError("no connection")

    fakes = FakeMembers()
    members: dict[str, Any] = {name: fakes.member(name, voting("answer-2")) for name in ("lead", "b", "c")}
    members["a"] = FunctionAgent("a", fail, retry=RetryPolicy(times=2, backoff=0.0))
    result, _ = await run(collaboration(fakes, VOTE, members=members))
    assert (result.status, len(calls)) == ("degraded", 3 + 1)


async def test_the_only_answer_that_is_left_needs_no_decision() -> None:
    fakes = FakeMembers()
    members = {name: fakes.member(name, Refused("trouble")) for name in ("a", "c")}
    _, events = await run(collaboration(fakes, VOTE, members=members))
    assert facts(events, TeamMerged)[0].winner == "answer-2"
    assert fakes.calls.count("lead") == 1


async def test_without_a_usable_decision_the_first_answer_counts_with_a_warning() -> None:
    fakes = FakeMembers()
    result, events = await run(collaboration(fakes, BEST))
    assert result.status == "degraded"
    assert facts(events, TeamMerged)[0].winner == "answer-1"
    assert any("did not decide" in text for text in result.warnings)


async def test_enough_answers_cancel_the_others() -> None:
    """The call of `b` is cancelled in flight; that of `c` waits for its turn and is never made."""
    fakes, started, never, cancelled = FakeMembers(), asyncio.Event(), asyncio.Event(), list[str]()

    async def answer(turn: Turn) -> str:
        await started.wait()
        return "a is first"

    async def hang(turn: Turn) -> str:
        started.set()
        try:
            await never.wait()
        except asyncio.CancelledError:
            cancelled.append("b")
            raise
        return "too late"

    members = {"a": fakes.member("a", answer), "b": fakes.member("b", hang)}
    team = collaboration(fakes, [{**BEST[0], "enough": 1}], members=members, max_parallel=2)
    result, events = await run(team)
    assert result.status == "completed"
    assert cancelled == ["b"]
    assert sorted(fakes.calls) == ["a", "b", "lead"]
    assert facts(events, TeamMerged)[0].entries == {"answer-1": "a"}
    assert contents(fakes.last_turn("lead").history) == ["a is first"]


async def test_one_expert_may_compete_with_itself() -> None:
    fakes, seeds = FakeMembers(), iter(("one", "two"))
    members = {
        "a": fakes.member("a", lambda turn: next(seeds)),
        "lead": fakes.member("lead", deciding(winner=PICK_B)),
    }
    result, events = await run(
        collaboration(fakes, [{"id": "title", "parallel": RACE, "agents": ["a", "a"]}], members=members)
    )
    assert facts(events, TeamMerged)[0].entries == {"answer-1": "a", "answer-2": "a"}
    assert sorted(contents(result.messages)[:2]) == ["one", "two"]


async def test_competitors_share_the_limits_of_their_phase_and_leave_the_merge_its_part() -> None:
    """Three calls for three competitors and the lead: the third is refused, and the lead picks one of two."""
    fakes = FakeMembers()
    lead = fakes.member("lead", deciding(winner={"winner": "answer-1", "reason": "."}))
    steps = [{**BEST[0], "limits": {"calls": 3}}]
    result, events = await run(collaboration(fakes, steps, members={"lead": lead}))
    (merged,) = facts(events, TeamMerged)
    assert (len(merged.entries), merged.by) == (2, "lead")
    assert (result.status, result.stop_reason) == ("degraded", "budget")


def tight(merge: str, limits: Limits, enough: int | None = None, **options: Any) -> Team:
    """Three competitors with long answers, and a lead who merges."""
    rules = [
        Rule(match="(?i)pick the best|vote for", reply='{"winner": "answer-1", "reason": "It is good."}'),
        Rule(match="Merge them", reply="All of them, merged."),
        Rule(match="Put the answer together", reply="The answer of the lead."),
        Rule(reply="A long answer. " * 40),
    ]
    step: dict[str, Any] = {"id": "title", "parallel": RACE, "agents": ["a", "b", "c"], "merge": merge}
    if enough is not None:
        step["enough"] = enough
    members = [ScriptedAgent(name, rules) for name in ("lead", "a", "b", "c")]
    given: dict[str, Any] = {"steps": [step], "lead": "lead", **options}
    return Team("t", members=members, strategy="expert", options=given, limits=limits)


@pytest.mark.parametrize("limits", [Limits(calls=3), Limits(tokens=850)], ids=["calls", "tokens"])
@pytest.mark.parametrize("merge", ["best", "vote", "fusion"])
async def test_the_merge_is_paid_where_the_budget_does_not_cover_all_competitors(
    merge: str, limits: Limits
) -> None:
    result, events = await run(tight(merge, limits))
    (merged,) = facts(events, TeamMerged)
    assert len(merged.entries) == 2
    assert merged.by == ("" if merge == "vote" else "lead")
    assert any(merged.votes.values()) == (merge == "vote")
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert result.output == "All of them, merged." if merge == "fusion" else str(result.output).startswith("A long")
    assert any("failed and was skipped (budget: " in text for text in result.warnings)


@pytest.mark.parametrize("limits", [Limits(calls=3), Limits(tokens=850)], ids=["calls", "tokens"])
async def test_a_competition_that_ends_early_leaves_enough_for_its_merge(limits: Limits) -> None:
    result, events = await run(tight("fusion", limits, 2))
    assert facts(events, TeamMerged)[0].by == "lead"
    assert (result.status, result.output) == ("completed", "All of them, merged.")


async def test_the_merge_and_the_answer_of_the_lead_are_both_paid() -> None:
    result, events = await run(tight("fusion", Limits(calls=4), answer="lead"))
    (merged,) = facts(events, TeamMerged)
    assert (len(merged.entries), merged.by) == (2, "lead")
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert result.output == "The answer of the lead."


async def test_where_no_merge_can_be_paid_the_first_answer_counts() -> None:
    steps: list[Any] = [{**BEST[0], "merge": "fusion"}]
    fakes = FakeMembers()
    members = {"lead": fakes.member("lead", limits=Limits(calls=0))}
    result, events = await run(
        collaboration(fakes, steps, members=members, answer=None, lead="lead", on_failure="fail")
    )
    (merged,) = facts(events, TeamMerged)
    assert (merged.winner, merged.reason) == ("answer-1", "the budget did not cover the merge, and it is the first")
    assert (result.status, result.stop_reason) == ("degraded", "budget")
    assert result.output == "a is done"


async def test_what_cancelled_competitors_had_reserved_is_free_again() -> None:
    """A call in flight stays charged; one that waits for the budget is never made, and the lead gets its share."""
    begun, never, made = asyncio.Event(), asyncio.Event(), list[str]()

    async def call(name: str, attempt: Attempt) -> Returned:
        made.append(name)
        if name == "b":
            begun.set()
            await never.wait()
        if name == "a":
            await begun.wait()
        return Returned(f"{name} is done", Usage(requests=1, input_tokens=1, output_tokens=1))

    def member(name: str) -> FunctionAgent:
        async def respond(turn: Turn, ctx: Context) -> str:
            effect = Effect("model", "model", digest(turn.prompt), partial(call, name), max_output=400)
            return str((await ctx.effect("call", effect)).value)

        return FunctionAgent(name, respond)

    steps: list[Any] = [{**BEST[0], "enough": 1}]
    members = {name: member(name) for name in ("lead", "a", "b", "c")}
    team = collaboration(FakeMembers(), steps, members=members, team={"limits": Limits(tokens=1600)})
    with anyio.fail_after(20):
        result, _ = await run(team)
    assert sorted(made) == ["a", "b", "lead"]
    assert (result.status, result.output) == ("completed", "lead is done")


async def test_a_lead_that_competes_does_not_pick_its_own_answer() -> None:
    fakes = FakeMembers()
    b = fakes.member("b", deciding(winner={"winner": "answer-2", "reason": "it is short"}))
    steps = [{"id": "title", "parallel": RACE, "agents": ["lead", "a"]}]
    result, events = await run(collaboration(fakes, steps, members={"b": b}))
    (merged,) = facts(events, TeamMerged)
    assert (merged.winner, merged.by) == ("answer-2", "b")
    assert result.status == "completed"


async def test_where_all_compete_all_vote_and_a_tie_that_none_may_break_goes_to_the_first_with_a_warning() -> None:
    fakes = FakeMembers()
    votes = {"lead": "answer-2", "a": "answer-1"}
    members = {name: fakes.member(name, deciding(winner={"winner": vote})) for name, vote in votes.items()}
    steps = [{"id": "title", "parallel": RACE, "agents": ["lead", "a"]}]
    result, events = await run(collaboration(fakes, steps, names="lead a", members=members))
    (merged,) = facts(events, TeamMerged)
    assert (merged.winner, merged.by, merged.tied) == ("answer-1", "", ("answer-1", "answer-2"))
    assert (result.status, "no other member is left to decide" in result.warnings[0]) == ("degraded", True)
