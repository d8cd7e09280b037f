"""A strategy with its own form of answer, made from the facades alone: it conforms, runs, and can be simulated."""

from __future__ import annotations

import pytest

from teamwright import Rule, ScriptedAgent, Team, Turn, run_sync
from teamwright.testing import StrategyConformance
from tests.docs.pages import blocks
from tests.extending.ranked_vote import RankedVote, ballot_schema
from tests.paths import ROOT

NAMES = ["ada", "bea", "cem"]


def ballot(*names: str) -> Rule:
    return Rule.model_validate({"match": "Rank all", "json": {"ranking": list(names)}})


def panel(**ballots: Rule) -> Team:
    members = [ScriptedAgent(name, [ballots[name], Rule(reply=f"Plan of {name}.")]) for name in NAMES]
    return Team("panel", members=members, strategy=RankedVote())


class TestRankedVote(StrategyConformance):
    def make(self) -> RankedVote:
        return RankedVote()


def test_the_proposal_with_most_points_wins() -> None:
    team = panel(ada=ballot("bea", "ada", "cem"), bea=ballot("bea", "cem", "ada"), cem=ballot("cem", "bea", "ada"))
    result = run_sync(team, "Plan it.", journal="memory")
    assert (result.status, result.output) == ("completed", "Plan of bea.")


def test_a_ballot_that_names_a_member_twice_does_not_count() -> None:
    team = panel(ada=ballot("bea", "bea", "cem"), bea=ballot("ada", "cem", "bea"), cem=ballot("ada", "bea", "cem"))
    result = run_sync(team, "Plan it.", journal="memory")
    assert (result.status, result.output) == ("degraded", "Plan of ada.")
    assert "'ada'" in result.warnings[0]


def test_its_example_is_a_ballot_that_counts() -> None:
    turns = [Turn("Rank.", number=number, output_schema=ballot_schema(NAMES)) for number in (1, 2, 3)]
    for turn in turns:
        example = RankedVote().example_reply(turn)
        assert isinstance(example, dict)
        assert sorted(str(name) for name in [*example["ranking"]]) == NAMES  # pyright: ignore[reportGeneralTypeIssues, reportOptionalIterable]
    assert RankedVote().example_reply(Turn("Propose.")) is None


@pytest.mark.lab
def test_the_lab_simulates_it_with_ballots_that_count() -> None:
    from teamwright.lab import simulate

    report = simulate(panel(**{name: ballot(*NAMES) for name in NAMES}), "Plan it.", runs=5, seed=3)
    assert report.shapes[0].statuses == {"completed": 5}  # a ballot that does not count would make it degraded


def test_the_page_shows_this_very_strategy() -> None:
    page = ROOT / "docs" / "extending" / "strategies.md"
    [shown] = [block.text for block in blocks(page) if block.about == "ranked_vote.py"]
    assert shown == (ROOT / "tests" / "extending" / "ranked_vote.py").read_text(encoding="utf-8")
