"""Compares two pieces of work by a judge that sees them in both orders, because judges have a position bias."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter

from teamwright.agents.contract.agent import Agent
from teamwright.agents.contract.context import Context
from teamwright.agents.evaluators.protocol import failure_text, model_of
from teamwright.experts.evaluation.judge_prompt import HEADERS, INSTRUCTIONS, validated
from teamwright.strategies.reply_parsing import ParseFailure, read_valid
from teamwright.values.turns.transcript import with_header
from teamwright.values.turns.turn import Failure, Turn

Winner = Literal["first", "second", "tie"]
QUESTION = (
    'Which work answers the task better? Answer with one JSON object and nothing else: "better" is "a", "b" or "tie",'
    ' and "reason" is one sentence that points to both.'
)


class PairAnswer(BaseModel):
    """A judge's choice between two pieces of work."""

    model_config = ConfigDict(frozen=True)

    better: Literal["a", "b", "tie"]
    reason: str = ""


ANSWERS = TypeAdapter(PairAnswer)
SEEN: dict[str, tuple[Winner, Winner]] = {"a": ("first", "second"), "b": ("second", "first"), "tie": ("tie", "tie")}
"""What an answer means where the works were shown in order, and where they were swapped."""


@dataclass(frozen=True, slots=True)
class PairComparison:
    """The result of a comparison, and the answer in each order. `problem` says why there is none, empty if there is.

    Where the two answers differ, the judge chose by position: a tie.
    """

    winner: Winner
    answers: tuple[Winner, ...]
    reasons: tuple[str, ...]
    judge: str
    model: str
    shown: tuple[str, ...]
    problem: str = ""


async def compare_works(judge: Agent, task: str, works: tuple[str, str], ctx: Context, key: str) -> PairComparison:
    """Ask a judge twice, with the works in both orders, under keys that begin with `key`."""
    answers: list[Winner] = []
    reasons: list[str] = []
    shown: list[str] = []
    problem = ""
    for order, (first, second) in enumerate((works, works[::-1])):
        turn = Turn(_prompt(task, first, second), purpose="judge", quotes_task=False, aside=True)
        shown.append(turn.digest)
        reply = await ctx.ask(judge, turn, key=f"{key}-{'ab'[order]}")
        if isinstance(reply, Failure):
            problem = problem or f"the judge {judge.name!r} {failure_text(reply)}"
            break
        answer = read_valid(reply, partial(validated, ANSWERS))
        if isinstance(answer, ParseFailure):
            problem = problem or f"the judge {judge.name!r} gave no usable answer: {answer.problem}"
            continue
        answers.append(SEEN[answer.better][order])
        reasons.append(answer.reason)
    winner: Winner = answers[0] if not problem and len(set(answers)) == 1 else "tie"
    return PairComparison(winner, tuple(answers), tuple(reasons), judge.name, model_of(judge), tuple(shown), problem)


def _prompt(task: str, first: str, second: str) -> str:
    parts = (("task", task), ("work a", first), ("work b", second), ("answer", QUESTION))
    return "\n\n".join((INSTRUCTIONS, *(with_header(name, text, HEADERS) for name, text in parts)))
