"""Instructions that are made in each turn, by a template over the state of the run or by a function of the user.

The text is the result of an effect, so that it stands in the record and a replay sends the same. A function around a
turn, here or as a guardrail, gets the turn as plain values, and nothing that reaches the outside.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol, cast, runtime_checkable

from pydantic import JsonValue

from teamwright.agents.contract.agent import Context
from teamwright.agents.contract.effect import Attempt, Effect, Returned
from teamwright.agents.functions.imports import UnloadedFunction, defined_path, import_path
from teamwright.agents.functions.threads import is_async, run_in_thread
from teamwright.errors import AgentError, TeamwrightError, UsageError
from teamwright.values.specs.manifest import InstructionsByFunction, InstructionsTemplate
from teamwright.values.text.display import error_text
from teamwright.values.turns.messages import Message, digest
from teamwright.values.turns.turn import Turn


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
