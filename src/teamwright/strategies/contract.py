"""Validates strategies and reads their optional attributes. No other module reads them.

A strategy that inherits `Strategy` has the whole contract. A strategy that does not is never wrapped: attributes it
lacks are read here with the defaults of `Strategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import cast, get_args

from pydantic import JsonValue

from teamwright.agents.contract.context import Context
from teamwright.agents.contract.user_attributes import (
    Accepts,
    has_own_method,
    is_computed,
    is_name_list,
    is_package_class,
    misspelt_attributes,
    user_attributes,
)
from teamwright.errors import UsageError, as_sentence, nearest
from teamwright.strategies.diagram import Sketch
from teamwright.strategies.protocol import (
    Flaw,
    InterventionName,
    Members,
    Outlook,
    Settings,
    Strategy,
    StrategyLike,
    Task,
)
from teamwright.values.limits.closing_ask import ClosingAsk
from teamwright.values.models import Value
from teamwright.values.record_checks import misfit_of, plain_json
from teamwright.values.results import Outcome
from teamwright.values.specs.manifest import Share
from teamwright.values.turns.turn import Turn

REQUIRED = ("name", "version", "run")


def options_of(strategy: StrategyLike) -> type[Value] | None:
    """Return the model of a strategy's options, if it has one."""
    return getattr(strategy, "options", Strategy.options)


def unused_of(strategy: StrategyLike) -> Sequence[str]:
    """Return the team fields that the strategy ignores."""
    return getattr(strategy, "unused", Strategy.unused)


def share_of(strategy: StrategyLike) -> Share:
    """Return the `share` mode for teams that set none."""
    return getattr(strategy, "share", Strategy.share)


def peers_of(strategy: StrategyLike) -> bool:
    """Return whether members also talk to each other."""
    return getattr(strategy, "peers", Strategy.peers)


def takes_handoffs(strategy: StrategyLike) -> bool:
    """Return whether a member may name the next speaker."""
    return getattr(strategy, "takes_handoffs", Strategy.takes_handoffs)


def interventions_of(strategy: StrategyLike) -> Sequence[InterventionName]:
    """Return the interventions that a run of the team takes."""
    return getattr(strategy, "interventions", Strategy.interventions)


def problems_of(strategy: StrategyLike, settings: Settings, members: Members) -> Sequence[Flaw | str]:
    """Return the problems that the strategy finds in these settings."""
    return _implementing(strategy, "problems").problems(settings, members)


def lead_of(strategy: StrategyLike, settings: Settings, members: Members) -> str | None:
    """Return the name of the member or helper that leads the team, if there is one."""
    return _implementing(strategy, "lead").lead(settings, members)


def sketch_of(strategy: StrategyLike, settings: Settings, members: Members) -> Sketch:
    """Return the diagram of a team; the members in order if its strategy draws none."""
    return _implementing(strategy, "sketch").sketch(settings, members)


def outlook_of(strategy: StrategyLike, settings: Settings, members: Members) -> Outlook:
    """Return the expected asks of a team; empty if its strategy does not estimate them."""
    return _implementing(strategy, "outlook").outlook(settings, members)


def closing_of(strategy: StrategyLike, settings: Settings, members: Members) -> Sequence[ClosingAsk]:
    """Return the asks with which a team closes; empty if its strategy declares none."""
    return _implementing(strategy, "closing").closing(settings, members)


def example_of(strategy: StrategyLike, turn: Turn) -> JsonValue:
    """Return data that fits `turn.output_schema` if that schema is one of the strategy; otherwise None."""
    return _implementing(strategy, "example_reply").example_reply(turn)


class _Defaults(Strategy):
    """The default behaviour of strategies that do not inherit `Strategy`."""

    name = "defaults"
    version = 0

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Never called: every strategy has its own `run`."""
        raise AssertionError("a strategy without run")


_DEFAULTS = _Defaults()


def _implementing(strategy: StrategyLike, method: str) -> Strategy:
    """Return the strategy if it has this method, otherwise the defaults."""
    return cast("Strategy", strategy) if hasattr(strategy, method) else _DEFAULTS


def _is_options(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Value)


def _takes_settings(value: object) -> bool:
    """Return whether a method takes settings and members, like those of the contract."""
    if not callable(value) or isinstance(value, type):
        return False
    return _parameters(value) == ["settings", "members"]


def _takes_turn(value: object) -> bool:
    return callable(value) and not isinstance(value, type) and _parameters(value) == ["turn"]


def _parameters(method: Callable[..., object]) -> list[str]:
    return [one.name for one in signature(method).parameters.values() if one.default is Parameter.empty]


_INTERVENTIONS: tuple[str, ...] = get_args(InterventionName)

OPTIONAL: Mapping[str, Accepts] = {
    "options": _is_options,
    "unused": is_name_list,
    "share": lambda value: value in get_args(Share),
    "peers": lambda value: isinstance(value, bool),
    "takes_handoffs": lambda value: isinstance(value, bool),
    "interventions": lambda value: is_name_list(value) and set(cast("Sequence[str]", value)) <= set(_INTERVENTIONS),
    "problems": _takes_settings,
    "lead": _takes_settings,
    "sketch": _takes_settings,
    "outlook": _takes_settings,
    "closing": _takes_settings,
    "example_reply": _takes_turn,
}
"""The optional attributes of a strategy, each with the check of its value."""


METHODS = ("problems", "lead", "sketch", "outlook", "closing", "example_reply")
EXPECTED: Mapping[str, str] = {
    "options": "a class that inherits Value, or None",
    "unused": "a tuple of the names of team fields",
    "share": f"one of {', '.join(get_args(Share))}",
    "peers": "True or False",
    "takes_handoffs": "True or False",
    "interventions": f"a tuple of {', '.join(_INTERVENTIONS)}",
    **dict.fromkeys(METHODS, "a method; leave it out for the default"),
}
"""What each optional attribute must be, for messages."""


def require_strategy(strategy: object) -> Strategy:
    """Return the object if it fulfils the contract; otherwise raise a `UsageError` that says what is wrong."""
    if isinstance(strategy, type) or not isinstance(strategy, StrategyLike):
        known = dir(strategy)
        raise UsageError(_why_no_strategy(strategy, [name for name in REQUIRED if name not in known]))
    if not is_package_class(type(strategy)):
        if not has_own_method(strategy, "run"):
            raise UsageError(_why_no_strategy(strategy, ("run",)))
        for name, meant in misspelt_attributes(strategy, OPTIONAL):
            raise UsageError(
                f"The strategy {strategy.name!r} has {name!r}, which a team does not read; did you mean {meant!r}?"
                " If it is meant for something else, rename it."
            )
        _check_values(strategy)
    return cast("Strategy", strategy)


def _check_values(strategy: StrategyLike) -> None:
    """Raise `UsageError` if an optional attribute has a value that a team can't use. Properties are not evaluated."""
    for name in sorted(user_attributes(strategy).intersection(OPTIONAL)):
        if is_computed(strategy, name):
            continue
        value = getattr(strategy, name)
        if not (callable(value) if name in METHODS else OPTIONAL[name](value) or (name == "options" and value is None)):
            raise UsageError(
                f"The strategy {strategy.name!r} has {name}={value!r}; {name!r} of a strategy must be {EXPECTED[name]}."
            )


async def run_strategy(strategy: StrategyLike, task: Task, members: Members, ctx: Context) -> Outcome:
    """Run a strategy and return its outcome; raises `UsageError` if it returns anything else."""
    outcome = await strategy.run(task, members, ctx)
    if not isinstance(outcome, Outcome):  # pyright: ignore[reportUnnecessaryIsInstance] - of untyped code
        raise UsageError(
            f"The run method of the strategy {strategy.name!r} returned a value of type {type(outcome).__name__!r};"
            " it must return an Outcome, for example  Talk(task).ended('done')."
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


def _why_no_strategy(strategy: object, missing: Sequence[str]) -> str:
    if isinstance(strategy, type):
        return f"{strategy!r} is a class; pass an instance:  strategy={strategy.__name__}()."
    known = user_attributes(strategy)
    hints = "; ".join(f"{name!r} is missing, {nearest(name, known, 'add it').rstrip('.')}" for name in missing)
    needs = "a strategy has a name, a version and run(task, members, ctx)"
    plain = type(strategy).__repr__ is object.__repr__  # which would show an address
    shown = f"An object of the class {type(strategy).__name__!r}" if plain else repr(strategy)
    return as_sentence(f"{shown} is not a strategy: {needs}; {hints}")
