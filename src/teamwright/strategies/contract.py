"""Checks strategies where they are given to a team, and the outcomes of strategies from outside this package."""

from __future__ import annotations

from collections.abc import Collection
from typing import cast, get_args

from teamwright.agents.contract.agent import is_package_class
from teamwright.agents.contract.context import Context
from teamwright.errors import UsageError
from teamwright.strategies.protocol import InterventionName, Members, Strategy, Task
from teamwright.values.models import Value
from teamwright.values.record_checks import misfit_of, plain_json
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import Share


def require_strategy(strategy: object) -> Strategy:
    """Return the object if it is a strategy; otherwise raise a `UsageError` that says what is wrong."""
    if not isinstance(strategy, Strategy):
        raise UsageError(_not_a_strategy(strategy))
    if not is_package_class(type(strategy)):  # for those of this package, the type checker suffices
        _check_attributes(strategy)
    return strategy


def _check_attributes(strategy: Strategy) -> None:
    """Raise `UsageError` for an attribute that is missing, or whose value a team can't use."""
    if missing := [one for one in ("name", "version") if not hasattr(strategy, one)]:
        raise UsageError(f"{_shown(strategy)} has no {' and no '.join(missing)}; set it in the class.")
    options, shares, taken = cast("object", strategy.options), get_args(Share), get_args(InterventionName)
    interventions: Collection[object] = strategy.interventions
    wrong = {
        "options": options is not None and not (isinstance(options, type) and issubclass(options, Value)),
        "share": strategy.share not in shares,
        "interventions": isinstance(interventions, str) or any(one not in taken for one in interventions),
    }
    expected = {
        "options": "a class that inherits Value, or None",
        "share": f"one of {', '.join(shares)}",
        "interventions": f"a tuple of {', '.join(taken)}",
    }
    for name, is_wrong in wrong.items():
        if is_wrong:
            raise UsageError(
                f"The strategy {strategy.name!r} has {name}={getattr(strategy, name)!r}; {name!r} of a strategy must be"
                f" {expected[name]}."
            )


async def run_strategy(strategy: Strategy, task: Task, members: Members, ctx: Context) -> Outcome:
    """Run a strategy and return its outcome; raises `UsageError` if it returns anything else."""
    outcome = await strategy.run(task, members, ctx)
    if not isinstance(outcome, Outcome):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
        raise UsageError(
            f"The run method of the strategy {strategy.name!r} returned a value of type {type(outcome).__name__!r};"
            " it must return an Outcome, for example  TeamConversation(task).ended('done')."
        )
    return outcome if is_package_class(type(strategy)) else _checked_outcome(strategy.name, outcome)


def _checked_outcome(strategy: str, outcome: Outcome) -> Outcome:
    """Return the outcome of a user's strategy, with its data as JSON; raises `UsageError` if it can't be recorded."""
    try:
        checked = outcome if outcome.data is None else outcome.changed(data=plain_json(outcome.data))
    except ValueError as error:
        raise UsageError(
            f"The strategy {strategy!r} returned an Outcome with data that is not JSON: {error}"
        ) from error
    if (wrong := misfit_of(checked.changed(messages=(), failure=None))) is not None:  # replies check their messages
        raise UsageError(f"The strategy {strategy!r} returned an Outcome that can't be recorded: {wrong}.")
    return checked


def _not_a_strategy(strategy: object) -> str:
    if isinstance(strategy, type):
        return f"{strategy!r} is a class; pass an instance:  strategy={strategy.__name__}()."
    return (
        f"{_shown(strategy)} is not a strategy: name a built-in one, or pass an instance of a class that inherits"
        " Strategy from teamwright.strategies."
    )


def _shown(strategy: object) -> str:
    plain = type(strategy).__repr__ is object.__repr__  # which would show an address
    return f"An object of the class {type(strategy).__name__!r}" if plain else repr(strategy)
