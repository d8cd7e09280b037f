"""Sixty teams with one planted fault each, on which blame is measured.

A team of four to seven members works in sequence: each keeps what it was given and adds its own part, and one of them
spoils it, in three of ten tries if it reads a hint, in eight of ten if it is only asked again. In half of the teams the
next member notices something. No name and no position gives the fault away.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from teamwright.agents.agent import Agent, Context
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.errors import ToolError
from teamwright.lab.experiments.blame import HINT
from teamwright.teams.team import Team
from teamwright.values.turns.messages import digest
from teamwright.values.turns.turn import Reply, Turn

Fault = Literal[
    "wrong fact", "lost requirement", "wrong tool argument", "bad plan", "lenient judge", "failing tool", "made up"
]
FAULTS: tuple[Fault, ...] = get_args(Fault)
TEAMS = 60
NAMES = ("ada", "ben", "cleo", "dan", "eve", "finn", "gus", "hana")
WORDS = ("parcel", "harbour", "orchard", "ledger", "quarry", "meadow", "kiln", "lantern")
FIXED_BY_HINT, FIXED_BY_CHANCE = 0.7, 0.2


@dataclass
class Clerk(Agent):
    """Passes on what it was given, with a part of its own; with a fault, it spoils it."""

    name: str
    line: str
    fault: Fault | None = None
    doubts: str = ""
    """What it says where the text that it was given is spoiled: later members of real teams often notice something."""
    kind: str = "function"
    spoils: Mapping[str, str] = field(default_factory=dict[str, str])

    async def respond(self, turn: Turn, ctx: Context) -> Reply:
        """Pass the work on."""
        prompt = turn.prompt

        async def call(attempt: Attempt) -> Returned:
            chance = int(digest(attempt.idempotency_key, self.name), 16) % 1000 / 1000
            return Returned("good" if chance < (FIXED_BY_HINT if HINT in prompt else FIXED_BY_CHANCE) else "bad")

        luck = await ctx.effect("call", Effect("function", self.name, digest(prompt), call))
        said = [one.content for one in turn.history if HINT not in one.content]
        before = said[-1] if said else turn.task
        if self.fault == "failing tool" and luck.value == "bad":
            await self._fail(ctx, prompt)
        text = f"{before}\n{self.line}"
        if self.fault is not None and luck.value == "bad":
            for right, wrong in self.spoils.items():
                text = text.replace(right, wrong)
        elif self.doubts and "spoiled" in _state(before, turn.task):
            text = f"{text}\n{self.doubts}"
        return Reply.of(self.name, text)

    async def _fail(self, ctx: Context, prompt: str) -> None:
        async def call(_: Attempt) -> Returned:
            raise ToolError("the shelf is empty")

        try:
            await ctx.effect("tool", Effect("tool", "look_up", digest(prompt), call))
        except ToolError:
            return


def _state(text: str, task: str) -> str:
    """Whether a text still has all that the task asks for."""
    kept = [line for line in task.splitlines() if line.startswith("keep ")]
    return "whole" if all(line.removeprefix("keep ") in text for line in kept) else "spoiled"


@dataclass(frozen=True)
class Planted:
    """A team with a fault, its task, what a good answer contains, and who is at fault."""

    team: Team
    task: str
    expected: str
    guilty: str
    place: int
    fault: Fault


def planted(number: int) -> Planted:
    """The team of this number."""
    draw = random.Random(f"planted {number}")
    fault = FAULTS[number % len(FAULTS)]
    names = draw.sample(NAMES, draw.randint(4, 7))
    place = draw.randrange(len(names) - 1)
    fact, code = f"{draw.choice(WORDS)} {draw.randint(100, 999)}", f"REF-{draw.randint(100, 999)}"
    good = f"{fact} under {code}"
    task = f"Deliver the goods.\nkeep {good}"
    wrong = {
        "wrong fact": {fact: f"{fact.split(maxsplit=1)[0]} {draw.randint(1000, 9999)}"},
        "lost requirement": {f" under {code}": ""},
        "wrong tool argument": {fact: f"{draw.choice(WORDS)}s {fact.split()[1]}"},
        "bad plan": {good: "the goods, in another order"},
        "lenient judge": {good: "all of it, and it is fine"},
        "failing tool": {good: "nothing was found"},
        "made up": {good: "we assume that it is on its way"},
    }[fault]
    notices = draw.random() < 0.5
    members = [
        Clerk(
            name,
            f"{name} adds {draw.choice(WORDS)}",
            fault if here == place else None,
            doubts="There seems to be an error." if notices and here == place + 1 else "",
            spoils=wrong,
        )
        for here, name in enumerate(names)
    ]
    return Planted(Team(f"planted-{number}", members=members), task, good, names[place], place, fault)
