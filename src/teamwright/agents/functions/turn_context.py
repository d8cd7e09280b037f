"""The input of a user's function around a turn: the turn as plain values, and nothing that reaches the outside."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import cast

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.functions.import_guard import UnloadedFunction
from teamwright.agents.functions.threads import is_async, run_in_thread
from teamwright.errors import AgentError, TeamwrightError, UsageError
from teamwright.values.text.display import error_text
from teamwright.values.turns.messages import Message
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
