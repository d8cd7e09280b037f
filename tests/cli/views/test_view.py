"""Lines of a live run: what is said twice is shown once."""

from __future__ import annotations

from teamwright import Engine, FunctionAgent, Team
from teamwright.cli.views.view import PlainLines, Repeats
from teamwright.journal.memory import MemoryJournal
from tests.history.test_member_board import noted
from tests.kit.evaluators import WordEvaluator, words


def test_a_repeated_line_is_shown_once_with_a_count() -> None:
    repeats = Repeats()
    said = [line for text in ("a", "b", "b", "b", "a") for line in repeats.lines(text)]
    assert [*said, *repeats.rest()] == ["a", "b", "  … 2 more like this", "a"]


def test_held_lines_are_shown_once_at_the_end() -> None:
    repeats = Repeats()
    assert [*repeats.lines("a"), *repeats.lines("a"), *repeats.rest(), *repeats.rest()] == ["a", "  … 1 more like this"]


def test_an_important_line_is_always_shown() -> None:
    repeats = Repeats()
    assert [line for _ in range(2) for line in repeats.lines("a", once=True)] == ["a", "a"]


async def test_plain_lines_show_a_note_again_after_a_reply() -> None:
    lines: list[str] = []
    view = PlainLines(MemoryJournal(), lines.append)
    for event in noted().events:
        await view.show(event)
    view.close()
    told = [" ".join(line.split()) for line in lines[1:]]
    note, more = "a · it waits for x, queued behind b", "… 1 more like this"
    assert told[:-1] == [note, more, "a ▸ (empty) 0 tok 1.0 s", note, more]
    assert told[-1].startswith("a ! attempt 1 failed")


async def test_a_verdict_has_one_line() -> None:
    lines: list[str] = []
    journal, evaluator = MemoryJournal(), WordEvaluator(words())
    author = FunctionAgent("author", lambda prompt: "It is good.", evaluate=evaluator)
    async with Engine(journal) as engine:
        await engine.run(Team("t", members=[author]), "go", run_id="r")
    view = PlainLines(journal, lines.append)
    for event in await journal.read("r"):
        await view.show(event)
    told = [" ".join(line.split()) for line in lines]
    assert [line for line in told if "pass" in line] == ["· the work of author is evaluated: pass, score 1.00"]
