"""Guardrails: functions of the user that check what goes into an agent and what comes out of it.

Each check is one effect, so that a replay repeats its verdict. A check that fails itself fails the turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, cast

from msgspec import structs
from pydantic import JsonValue

from teamwright.agents.contract.agent import Context
from teamwright.agents.contract.constructor_arguments import Mistakes
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.functions.imports import import_path
from teamwright.agents.functions.instructions import TurnContext, call_off_loop, check_arity, turn_context
from teamwright.errors import AgentError, Refused
from teamwright.values.events.agent import AgentChecked, Check
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Reply, Turn

FORM = "a function (text, ctx)"


@dataclass(frozen=True, slots=True)
class Refuse:
    """The text must not be used. A model is asked for another answer; a refused input fails the turn."""

    reason: str
    kind: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True)
class Mend:
    """Use this text instead."""

    text: str
    kind: Literal["mended"] = "mended"


@dataclass(frozen=True, slots=True)
class Warn:
    """Use the text, and add a warning to the result."""

    text: str
    kind: Literal["warned"] = "warned"


Verdict = Refuse | Mend | Warn
CheckFunction = Callable[[str, TurnContext], "Verdict | Awaitable[Verdict | None] | None"]
"""A guardrail: gets the text and the turn, and returns a verdict, or `None` if the text is fine."""


class Guardrails:
    """The checks of one agent."""

    def __init__(self, agent: str, check_input: CheckFunction | None, check_output: CheckFunction | None) -> None:
        self._agent = agent
        self.functions: dict[Check, CheckFunction] = {}
        given: tuple[tuple[Check, CheckFunction | None], ...] = (("input", check_input), ("output", check_output))
        mistakes = Mistakes()
        for check, function in given:
            if function is not None:
                mistakes.collect(check_arity, function, 2, FORM, f"The agent {agent!r}: check_{check}")
                self.functions[check] = function
        mistakes.raise_all()
        self.declared = {f"check_{check}": import_path(function) for check, function in self.functions.items()}
        """The fields of an `AgentSpec`; a function that can't be imported by name has the value `None`."""

    @property
    def checks_output(self) -> bool:
        """Whether answers are checked, which must not be shown before."""
        return "output" in self.functions

    async def admit(self, turn: Turn, ctx: Context) -> tuple[Turn, tuple[str, ...]]:
        """Check the task: return the turn, perhaps with another task, and warnings; raises `Refused`."""
        match await self._verdict("input", turn.task, turn, ctx, "check-input"):
            case None:
                return turn, ()
            case Mend(text=text):
                return structs.replace(turn, task=text), ()
            case Warn(text=text):
                return turn, (text,)
            case Refuse(reason=reason):
                raise Refused(f"The input of {self._agent!r} was refused: {reason}")

    async def judge(self, text: str, turn: Turn, ctx: Context, number: int) -> Verdict | None:
        """Check an answer, the `number`th of the turn."""
        return await self._verdict("output", text, turn, ctx, f"check-output-{number}")

    async def run(self, turn: Turn, ctx: Context, respond: Callable[[Turn, Context], Awaitable[Reply]]) -> Reply:
        """Check the input and the output of an agent that can't correct itself: a refused answer fails the turn."""
        turn, warnings = await self.admit(turn, ctx)
        return with_warnings(await self.settle(await respond(turn, ctx), turn, ctx), warnings)

    async def settle(self, reply: Reply, turn: Turn, ctx: Context) -> Reply:
        """Check an answer that can't be corrected: return it, perhaps with another text; raises `Refused`."""
        verdict = await self.judge(reply.text, turn, ctx, 1)
        if isinstance(verdict, Refuse):
            raise self.refusal(verdict)
        return with_verdict(reply, verdict, self._agent)

    def refusal(self, verdict: Refuse) -> Refused:
        """Return the error of an answer that stays refused."""
        return Refused(f"The answer of {self._agent!r} was refused: {verdict.reason}")

    async def _verdict(self, check: Check, text: str, turn: Turn, ctx: Context, key: str) -> Verdict | None:
        function = self.functions.get(check)
        if function is None:
            return None
        name = f"check_{check}"

        async def call(_: Attempt) -> Returned:
            values = turn_context(self._agent, turn, ctx)
            return Returned(
                self._to_json(name, await call_off_loop(function, f"{name} of {self._agent!r}", text, values))
            )

        effect = Effect(kind="function", name=name, request=digest(name, text), call=call)
        verdict = _from_json((await ctx.effect(key, effect)).value)
        if verdict is not None:
            said = verdict.reason if isinstance(verdict, Refuse) else verdict.text
            await ctx.emit(AgentChecked(check=check, verdict=verdict.kind, text=said))
        return Warn(f"{self._agent}: {verdict.text}") if isinstance(verdict, Warn) else verdict

    def _to_json(self, name: str, verdict: object) -> JsonValue:
        match verdict:
            case None:
                return None
            case (
                Refuse(reason=str() as text, kind=kind)
                | Mend(text=str() as text, kind=kind)
                | Warn(text=str() as text, kind=kind)
            ):
                return {kind: text}
            case _:
                raise AgentError(
                    f"{name} of {self._agent!r} must return Refuse(reason), Mend(text), Warn(text) or None, and"
                    f" returned {verdict!r:.200}"
                )


def with_verdict(reply: Reply, verdict: Mend | Warn | None, agent: str) -> Reply:
    """Return the reply of the agent with another text, which drops its data, or with a warning."""
    match verdict:
        case None:
            return reply
        case Warn(text=text):
            return with_warnings(reply, (text,))
        case Mend(text=text):
            last = reply.messages[-1] if reply.messages else Message(name=agent, content="")
            return reply.changed(messages=(*reply.messages[:-1], last.changed(content=text)), data=None)


def with_warnings(reply: Reply, warnings: tuple[str, ...]) -> Reply:
    """Return the reply with more warnings."""
    return reply.changed(warnings=(*reply.warnings, *warnings)) if warnings else reply


def _from_json(recorded: JsonValue) -> Verdict | None:
    if recorded is None:
        return None
    [(kind, text)] = cast("dict[str, str]", recorded).items()
    return {"refused": Refuse, "mended": Mend, "warned": Warn}[kind](text)


def make_guardrails(
    agent: str, check_input: CheckFunction | None, check_output: CheckFunction | None
) -> Guardrails | None:
    """Return the checks of an agent; `None` if it has none."""
    if check_input is None and check_output is None:
        return None
    return Guardrails(agent, check_input, check_output)
