"""Round robin: all members in order, again and again."""

from __future__ import annotations

import pytest

from teamwright.errors import ManifestError, Refused
from teamwright.strategies.protocol import Members
from teamwright.strategies.round_robin import MOST_TURNS, RoundRobin
from teamwright.teams.team import Team
from tests.kit.members import FakeMembers, numbered
from tests.strategies.test_sequential import names, run


async def test_three_members_and_two_rounds_make_six_turns() -> None:
    fakes = FakeMembers(numbered)
    members = [fakes.member("a"), fakes.member("b"), fakes.member("c")]
    result = await run(Team("t", members=members, strategy="round-robin", max_turns=2))
    assert fakes.calls == names(result) == ["a", "b", "c", "a", "b", "c"]
    assert [turn.number for _, turn in fakes.received] == [1, 2, 3, 4, 5, 6]


async def test_reaching_max_turns_keeps_everything_and_warns_with_the_limit() -> None:
    fakes = FakeMembers(numbered)
    result = await run(Team("t", members=[fakes.member("a")], strategy="round_robin", max_turns=3))
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert names(result) == ["a", "a", "a"]
    assert result.output == "a 3"
    assert any("max_turns: 3" in warning for warning in result.warnings)


async def test_max_turns_may_be_a_failure_that_still_carries_the_messages() -> None:
    fakes = FakeMembers(numbered)
    team = Team("t", members=[fakes.member("a")], strategy="round_robin", max_turns=2, on_max_turns="fail")
    result = await run(team)
    assert (result.status, result.stop_reason) == ("failed", "max_turns")
    assert names(result) == ["a", "a"]
    assert result.failure is not None
    assert "max_turns: 2" in result.failure.message


def test_max_turns_is_required_unless_a_member_can_terminate() -> None:
    fakes = FakeMembers(numbered)
    with pytest.raises(ManifestError, match="needs max_turns"):
        Team("t", members=[fakes.member("a")], strategy="round_robin")
    able = fakes.member("b")
    able.policy = able.policy.changed(can_terminate=True)
    Team("t", members=[fakes.member("a"), able], strategy="round_robin")


def test_a_member_stands_in_a_round_once() -> None:
    fakes = FakeMembers(numbered)
    twice = fakes.member("a")
    with pytest.raises(ManifestError, match="listed twice"):
        Team("t", members=[twice, twice], strategy="round_robin", max_turns=1)


async def test_a_member_that_terminates_ends_the_rounds_in_the_middle() -> None:
    fakes = FakeMembers(numbered)
    members = [fakes.member("a"), fakes.member("b", "enough", signal="terminate"), fakes.member("c")]
    result = await run(Team("t", members=members, strategy="round_robin", max_turns=5))
    assert names(result) == ["a", "b"]
    assert (result.status, result.stop_reason, result.output) == ("completed", "terminated", "enough")


async def test_all_members_receive_the_conversation_and_the_task_last() -> None:
    fakes = FakeMembers(numbered)
    await run(Team("t", members=[fakes.member("a"), fakes.member("b")], strategy="round_robin", max_turns=2))
    assert [len(turn.history) for _, turn in fakes.received] == [0, 1, 2, 3]
    assert all(turn.prompt.endswith("Write a page.") for _, turn in fakes.received)


async def test_a_failure_in_a_later_round_keeps_the_earlier_ones() -> None:
    fakes = FakeMembers(numbered)
    result = await run(
        Team(
            "t", members=[fakes.member("a"), fakes.member("b", Refused("no ink"))], strategy="round_robin", max_turns=2
        )
    )
    assert result.status == "failed"
    assert names(result) == ["a"]


async def test_a_nested_team_takes_its_turn_in_each_round() -> None:
    fakes = FakeMembers(numbered)
    inner = Team("inner", members=[fakes.member("x"), fakes.member("y")])
    result = await run(Team("t", members=[fakes.member("a"), inner], strategy="round_robin", max_turns=2))
    assert fakes.calls == ["a", "x", "y", "a", "x", "y"]
    assert names(result) == ["a", "inner", "inner", "a", "inner", "inner"]


@pytest.mark.parametrize(("turns", "rounds", "spoken", "named"), [(3, None, 3, "turns: 3"), (3, 1, 2, "max_turns: 1")])
async def test_single_turns_have_their_own_limit(
    turns: int, rounds: int | None, spoken: int, named: str
) -> None:  # M-05
    fakes = FakeMembers(numbered)
    members = [fakes.member("a"), fakes.member("b")]
    team = Team("t", members=members, strategy="round_robin", max_turns=rounds, options={"turns": turns})
    result = await run(team)
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert len(fakes.calls) == spoken
    assert any(named in warning for warning in result.warnings)
    assert len(RoundRobin().expected_asks(team.settings, Members(members))) == spoken


async def test_where_only_terminate_ends_it_a_usual_bound_does(monkeypatch: pytest.MonkeyPatch) -> None:  # M-05
    assert MOST_TURNS == 1000
    monkeypatch.setattr("teamwright.strategies.round_robin.MOST_TURNS", 7)
    fakes = FakeMembers(numbered)
    members = [fakes.member("a"), fakes.member("b")]
    members[0].policy = members[0].policy.changed(can_terminate=True)
    team = Team("t", members=members, strategy="round_robin")
    (warning,) = team.warnings
    assert "it stops after 7 turns" in warning.message
    result = await run(team)
    assert fakes.calls == [*"abababa"]
    assert (result.status, result.stop_reason) == ("completed", "max_turns")
    assert result.warnings == ("t: stopped at its limit of 7 turns (the usual bound; max_turns sets another)",)


async def test_the_usual_bound_may_be_a_failure_as_any_other() -> None:  # M-05, R-07
    fakes = FakeMembers(numbered)
    members = [fakes.member("a"), fakes.member("b")]
    members[0].policy = members[0].policy.changed(can_terminate=True)
    result = await run(Team("t", members=members, strategy="round_robin", on_max_turns="fail"))
    assert (result.status, result.stop_reason, len(result.messages)) == ("failed", "max_turns", 1000)
