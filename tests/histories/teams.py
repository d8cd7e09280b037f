"""The teams whose histories are recorded. A strategy that does something else needs a new version, so these stay."""

from __future__ import annotations

from collections.abc import Callable

from teamwright.agents.function import FunctionAgent
from teamwright.agents.protocol import Agent, Attempt, Context, Effect, Returned
from teamwright.errors import Refused
from teamwright.teams.team import Team
from teamwright.values.messages import digest
from teamwright.values.turns import Reply, Turn
from teamwright.values.usage import Usage
from tests.laws.orchestra import hops
from tests.laws.program import program_team
from tests.strategies.example.debate import Debate

TASK = "Compare the two and say which is better."

Answer = Callable[[str, Attempt], Returned]


def speak(name: str, attempt: Attempt) -> Returned:
    """What members say when a history is recorded."""
    return Returned(f"{name} has an opinion", Usage(requests=1, input_tokens=7, output_tokens=4))


def member(name: str, answer: Answer, effects: int = 1, *, patience: int = 0) -> Agent:
    """A member that asks the world so many times; one called `trouble` fails, one called `done` terminates.

    Its answers take as many turns of the event loop as it has patience.
    """

    async def call(attempt: Attempt) -> Returned:
        await hops(patience)
        return answer(name, attempt)

    async def respond(turn: Turn, ctx: Context) -> Reply:
        said = ""
        for number in range(1, effects + 1):
            request = Effect("model", "m", digest(turn.prompt, str(number)), call)
            said = str((await ctx.effect(f"request-{number}", request)).value)
        if name == "trouble":
            raise Refused("it would rather not")
        return Reply.of(name, said, signal="terminate" if name == "done" else None)

    return FunctionAgent(name, respond)


def _sequential(answer: Answer) -> Team:
    return Team("chain", members=[member(name, answer) for name in "abc"])


def _pipeline(answer: Answer) -> Team:
    members = [member("a", answer, 2), member("done", answer), member("never", answer)]
    return Team("pipeline", members=members, share="output")


def _round_robin(answer: Answer) -> Team:
    members = [member(name, answer) for name in "ab"]
    return Team("rounds", members=members, strategy="round_robin", max_turns=2)


def _nested(answer: Answer) -> Team:
    inner = Team("inner", members=[member("b", answer), member("c", answer)], strategy="round_robin", max_turns=1)
    return Team("outer", members=[member("a", answer), inner, member("d", answer)])


def _failing(answer: Answer) -> Team:
    return Team("failing", members=[member("a", answer), member("trouble", answer), member("c", answer)])


def _debate(answer: Answer) -> Team:
    return Team("debate", members=[member(name, answer) for name in "abj"], strategy=Debate(), max_turns=2)


def _program(answer: Answer) -> Team:
    """Locks, a race, chance and a timer. Wherever `a` and `b` begin again, `b` is the last to answer."""
    locked = ["all", 2, ["lock", ["ask", "a"]], ["seq", ["ask", "b"], ["lock", ["claim", "it"]]]]
    program = ["seq", ["draw"], locked, ["race", 1, ["ask", "c"], ["sleep", 60]], ["sleep", 0.001], ["ask", "d"]]
    return program_team(
        "program", program, [member(name, answer, patience=200 if name == "b" else 0) for name in "abcd"]
    )


TEAMS: dict[str, Callable[[Answer], Team]] = {
    "sequential": _sequential,
    "pipeline": _pipeline,
    "round_robin": _round_robin,
    "nested": _nested,
    "failing": _failing,
    "debate": _debate,
    "program": _program,
}
