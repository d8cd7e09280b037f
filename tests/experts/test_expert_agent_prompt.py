from __future__ import annotations

from teamwright.experts.expert_agent import Colleague, expert_prompt, join_parts, team_prompt
from teamwright.values.specs.members import ExpertProfile


def test_an_expert_without_a_profile_is_told_its_name_and_role() -> None:
    assert expert_prompt("ada", "Counts\n things.", ExpertProfile()) == (
        "You are ada, an expert in a team. Your role: Counts things."
    )


def test_a_profile_is_told_section_by_section_and_empty_ones_are_left_out() -> None:
    profile = ExpertProfile(persona="Calm.", collaboration_strategy="Ask early.")
    assert expert_prompt("ada", "", profile, "## Method\n\nCount.\n", "Count twice.") == (
        "You are ada, an expert in a team.\n\n## Who you are\n\nCalm.\n\n## How you work with others\n\nAsk early."
        "\n\n## Method\n\nCount.\n\n## What you do here\n\nCount twice."
    )


def test_instructions_without_a_template_need_no_heading() -> None:
    assert expert_prompt("ada", "", ExpertProfile(), "", "Count.").endswith("team.\n\nCount.")


def test_an_expert_alone_is_told_of_no_team() -> None:
    assert join_parts("Hello.", team_prompt("t", [])) == "Hello."


def test_a_colleague_stands_on_one_line_with_what_it_can_do() -> None:
    assert Colleague("bob", "Builds\nthings.", ("code", "tests"), is_lead=True).line == (
        "- bob (leads the team): Builds things. Good at: code, tests."
    )
    assert Colleague("eve").line == "- eve"
