"""Agents for tests of the command line, found by import path."""

from teamwright.agents.agent import Context
from teamwright.values.people import Question
from teamwright.values.turns.turn import Turn


async def ask(turn: Turn, ctx: Context) -> str:
    """Ask a person which colour it is to be."""
    answer = await ctx.ask_person(Question(text="Which colour?", choices=("red", "blue")), key="colour")
    return f"It is {answer.text}."


def send(to: str) -> str:
    """Send a letter."""
    return f"sent to {to}"
