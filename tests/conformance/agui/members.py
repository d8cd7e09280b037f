"""Members for clients of AG-UI: who asks one thing after the other, two at once, who fails, and who takes long."""

from __future__ import annotations

from teamwright import Context, Turn
from teamwright.people import Question


async def ask(turn: Turn, ctx: Context) -> str:
    """Ask for a colour, then why."""
    first = await ctx.ask_person(Question(text="Which colour?", choices=("red", "blue")), key="colour")
    second = await ctx.ask_person(Question(text="Why?"), key="why")
    return f"{first.text} because {second.text}"


async def ask_twice(turn: Turn, ctx: Context) -> str:
    """Ask two questions at once."""
    said: list[str] = []

    async def one(inner: Context, name: str) -> None:
        said.append(f"{name} {(await inner.ask_person(Question(text=name), key='q')).text}")

    async with ctx.branches(2) as branches:
        for name in ("left", "right"):
            branches.start(name, lambda inner, name=name: one(inner, name))
    return ", ".join(sorted(said))


def fail(turn: Turn) -> str:
    """Fail."""
    raise ValueError("no luck")


async def sleep(turn: Turn, ctx: Context) -> str:
    """Take long enough to be cancelled."""
    await ctx.clock.sleep(60)
    return "awake"
