"""A failure is shown once, where it happened."""

from __future__ import annotations

from teamwright import Engine, FunctionAgent, Rule, ScriptedAgent, Team
from teamwright.agents import ToolRule
from teamwright.cli.terminal.explanation import Explanation, explain, explanation_text
from teamwright.cli.terminal.line_views import PlainLines


async def lines_of(team: Team) -> tuple[list[str], str, Explanation]:
    """Run a team, and return its lines and its story, as text and as data."""
    async with Engine("memory") as engine:
        lines: list[str] = []
        view = PlainLines(engine.journal, lines.append)
        async for item in engine.stream(team, "Go.", run_id="r"):
            await view.show(item)
        history, result = await engine.runs.history("r"), await engine.runs.result("r")
        story = explain(history, result)
        return lines, explanation_text(story), story


async def test_a_failed_call_its_turn_and_its_team_are_one_line() -> None:  # L-S-7
    inner = Team("inner", members=[ScriptedAgent("a", [Rule(error="refused")])])
    lines, story, explanation = await lines_of(Team("outer", members=[inner]))
    assert [" ".join(line.split("(")[0].split()) for line in lines if "!" in line] == [
        "a ! attempt 1 failed: the script says so"
    ]
    assert story.count("the script says so") == 2  # where it happened, and why the run ended
    assert [entry.text.partition(":")[0] for entry in explanation.entries if "says so" in entry.text] == [
        "attempt 1 failed",
        "failed",
        "failed",
    ], "data has them all"


async def test_a_turn_that_fails_by_itself_has_a_line() -> None:
    def broken(text: str) -> str:
        raise ValueError("no")

    lines, *_ = await lines_of(Team("t", members=[FunctionAgent("a", broken)]))
    assert sum("ValueError: no" in line for line in lines) == 1


async def test_a_handoff_without_words_is_one_line_under_the_name_of_the_member() -> None:
    desk = Team(
        "desk",
        members=[
            ScriptedAgent("triage", [Rule(tool=ToolRule(name="transfer_to_bills"))], handoffs=["bills"]),
            ScriptedAgent("bills", [Rule(reply="All paid.")]),
        ],
    )
    lines, story, _ = await lines_of(desk)
    assert [" ".join(line.split()[:4]) for line in lines[1:]] == ["triage · hands off", "bills ▸ All paid."]
    assert " tok " in lines[1]
    assert "(empty)" not in story
    assert "triage said nothing (" in story
