"""Functions of the user around a turn: instructions that are made in each turn, and guardrails, which check what goes
into an agent and what comes out of it.

Each is an effect, so that its text or verdict stands in the record and a replay repeats it. Such a function gets the
turn as plain values, and nothing that reaches the outside. A check that fails itself fails the turn.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Literal, Protocol, cast, get_args, runtime_checkable

from msgspec import structs
from pydantic import JsonValue

from teamwright.agents.agent import Context
from teamwright.agents.constructor_arguments import Mistakes
from teamwright.agents.effect import Attempt, Effect, Returned
from teamwright.agents.functions.imports import UnloadedFunction, defined_path, import_path
from teamwright.agents.functions.threads import is_async, run_in_thread
from teamwright.errors import AgentError, Refused, TeamwrightError, UsageError
from teamwright.values.events.agent import AgentChecked, Check
from teamwright.values.specs.manifest import InstructionsByFunction, InstructionsTemplate
from teamwright.values.text.display import error_text
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Reply, Turn


@dataclass(frozen=True, slots=True)
class TurnContext:
    """The turn that an agent is about to take, or has taken.

    `turn` is the number of the turn in its team, `history` what was said before, and `state` the values of the
    workspace by name.
    """

    run_id: str
    member: str
    task: str
    turn: int
    history: tuple[Message, ...]
    state: Mapping[str, JsonValue]


def turn_context(member: str, turn: Turn, ctx: Context) -> TurnContext:
    """Return the values of a turn, the same on every replay."""
    workspace = ctx.workspace
    found = {name: workspace.get(name) for name in workspace.names()}
    state = {name: shared.value for name, shared in found.items() if shared is not None}
    return TurnContext(workspace.run_id, member, turn.task, turn.number, tuple(turn.history), state)


async def call_off_loop(function: Callable[..., object], name: str, *arguments: object) -> object:
    """Call a function of the user; a synchronous one runs in a thread. Its exception is an error with this name."""
    call = partial(function, *arguments)
    try:
        result = call() if is_async(function) else await run_in_thread(call, name)
        return cast("object", await result) if inspect.isawaitable(result) else result
    except TeamwrightError:
        raise
    except Exception as error:
        raise AgentError(f"{name} raised {error_text(error)}") from error


def check_arity(function: object, count: int, form: str, what: str) -> None:
    """Raise `UsageError` unless the object can be called with this many arguments; `form` says what it must be."""
    if isinstance(function, UnloadedFunction):
        return
    if not callable(function):
        raise UsageError(f"{what} must be {form}, not {function!r}.")
    try:
        inspect.signature(function).bind(*[None] * count)
    except ValueError:  # a built-in function without a signature
        return
    except TypeError:
        raise UsageError(f"{what} must be {form}; its parameters are {inspect.signature(function)}.") from None


KEY = "instructions"
NAMES = ("task", "member", "turn", "history", "state")
"""What a template can use: the fields of `TurnContext` that do not differ from run to run."""


@runtime_checkable
class TextTemplate(Protocol):
    """A template, as `teamwright.strategies.Template` is one."""

    @property
    def text(self) -> str: ...

    def problem(self, known: Collection[str]) -> str | None:
        """Return what is wrong with it, given the known variables."""
        ...

    def render(self, names: Mapping[str, JsonValue]) -> str: ...


InstructionsFunction = Callable[[TurnContext], "str | Awaitable[str]"]
AnyInstructions = str | TextTemplate | InstructionsFunction
"""A text, a template, or a function `(ctx) -> str`."""


class DynamicInstructions:
    """The template or function of one agent."""

    def __init__(self, agent: str, source: TextTemplate | InstructionsFunction) -> None:
        self._agent, self._source = agent, source
        what = f"The agent {agent!r}: its instructions"
        if isinstance(source, TextTemplate):
            if problem := source.problem(NAMES):
                raise UsageError(f"{what}: {problem}")
        else:
            check_arity(source, 1, "a text, a Template or a function (ctx) -> str", what)
        self.spec = _spec(source)
        """The declaration; `None` for a function that can't be imported by name."""

    async def render(self, turn: Turn, ctx: Context) -> str:
        source = self._source
        written = source.text if isinstance(source, TextTemplate) else defined_path(source) or ""

        async def call(_: Attempt) -> Returned:
            values = turn_context(self._agent, turn, ctx)
            if isinstance(source, TextTemplate):
                return Returned(source.render(_names(values)))
            made = await call_off_loop(source, f"The instructions of {self._agent!r}", values)
            if not isinstance(made, str):
                raise AgentError(
                    f"The instructions of {self._agent!r} must be a text, and its function gave {made!r:.200}"
                )
            return Returned(made)

        effect = Effect(kind="function", name=KEY, request=digest(written, turn.digest), call=call)
        return cast("str", (await ctx.effect(KEY, effect)).value)


def _spec(source: TextTemplate | InstructionsFunction) -> InstructionsTemplate | InstructionsByFunction | None:
    if isinstance(source, TextTemplate):
        return InstructionsTemplate(template=source.text)
    path = import_path(source)
    return None if path is None else InstructionsByFunction(function=path)


def _names(values: TurnContext) -> dict[str, JsonValue]:
    history: list[JsonValue] = [{"name": one.name, "content": one.content} for one in values.history]
    return {
        "task": values.task,
        "member": values.member,
        "turn": values.turn,
        "history": history,
        "state": dict(values.state),
    }


def split_instructions(agent: str, given: AnyInstructions) -> tuple[str, DynamicInstructions | None]:
    """Return the fixed text of an agent, or what makes it in each turn."""
    if isinstance(given, str):
        return given, None
    return "", DynamicInstructions(agent, given)


FORM = "a function (text, ctx)"
CHECK_FORM = 'check={"input": function, "output": function}'


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
Checks = Mapping[Check, CheckFunction]
"""The guardrails of an agent: of its `input`, of its `output`, or of both."""


class Guardrails:
    """The checks of one agent."""

    def __init__(self, agent: str, functions: Checks) -> None:
        self._agent, self.functions = agent, functions
        self.declared = {check: import_path(function) for check, function in functions.items()}
        """Its `check` in an `AgentSpec`; a function that can't be imported by name has the value `None`."""

    @property
    def is_importable(self) -> bool:
        """Whether all functions can be imported by name."""
        return None not in self.declared.values()

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
                self._to_json(
                    check, await call_off_loop(function, f"The {check} check of {self._agent!r}", text, values)
                )
            )

        effect = Effect(kind="function", name=name, request=digest(name, text), call=call)
        verdict = _from_json((await ctx.effect(key, effect)).value)
        if verdict is not None:
            said = verdict.reason if isinstance(verdict, Refuse) else verdict.text
            await ctx.emit(AgentChecked(check=check, verdict=verdict.kind, text=said))
        return Warn(f"{self._agent}: {verdict.text}") if isinstance(verdict, Warn) else verdict

    def _to_json(self, check: Check, verdict: object) -> JsonValue:
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
                    f"The {check} check of {self._agent!r} must return Refuse(reason), Mend(text), Warn(text) or None,"
                    f" and returned {verdict!r:.200}"
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


def make_guardrails(agent: str, check: Checks | None) -> Guardrails | None:
    """Return the checks of an agent, `None` if it has none; raises `UsageError`."""
    given = cast("object", check)
    if given is None:
        return None
    owner, known = f"The agent {agent!r}", get_args(Check)
    if not isinstance(given, Mapping) or not set(cast("Mapping[object, object]", given)) <= set(known):
        raise UsageError(f"{owner}: check must be functions by what they check, not {given!r}; write  {CHECK_FORM}")
    mistakes, functions = Mistakes(), cast("Checks", given)
    for name, function in functions.items():
        mistakes.collect(check_arity, function, 2, FORM, f"{owner}: check.{name}")
    mistakes.raise_all()
    return Guardrails(agent, functions) if functions else None
