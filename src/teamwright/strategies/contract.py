"""The one place that reads what a strategy may leave out, and that refuses what is no strategy.

A strategy that inherits `Strategy` has all of the contract. One that does not is never wrapped: what it lacks is read
here, with the default of `Strategy`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import cast, get_args

from pydantic import JsonValue

from teamwright.agents.context import Context
from teamwright.agents.misspelling import Takes, is_ours, misspelt
from teamwright.errors import UsageError, nearest
from teamwright.strategies.diagram import Sketch
from teamwright.strategies.protocol import Flaw, Members, Outlook, Settings, Strategy, StrategyLike, Task
from teamwright.values.manifest import Share
from teamwright.values.models import Value
from teamwright.values.results import Outcome
from teamwright.values.turns import Turn

REQUIRED = ("name", "version", "run")


def options_of(strategy: StrategyLike) -> type[Value] | None:
    """The class of a strategy's options, if it has one."""
    return getattr(strategy, "options", Strategy.options)


def unused_of(strategy: StrategyLike) -> Sequence[str]:
    """The fields of a team that change nothing with this strategy."""
    return getattr(strategy, "unused", Strategy.unused)


def share_of(strategy: StrategyLike) -> Share:
    """How members share where their team does not say."""
    return getattr(strategy, "share", Strategy.share)


def peers_of(strategy: StrategyLike) -> bool:
    """Whether members also talk with each other."""
    return getattr(strategy, "peers", Strategy.peers)


def problems_of(strategy: StrategyLike, settings: Settings, members: Members) -> Sequence[Flaw | str]:
    """What a strategy has against these settings."""
    return _whole(strategy, "problems").problems(settings, members)


def lead_of(strategy: StrategyLike, settings: Settings, members: Members) -> str | None:
    """The member or helper who leads a team, by name, if there is one."""
    return _whole(strategy, "lead").lead(settings, members)


def sketch_of(strategy: StrategyLike, settings: Settings, members: Members) -> Sketch:
    """The picture that a strategy makes of its team; of one that makes none, the members in order."""
    return _whole(strategy, "sketch").sketch(settings, members)


def outlook_of(strategy: StrategyLike, settings: Settings, members: Members) -> Outlook:
    """The asks to come in a team; empty where its strategy can't tell."""
    return _whole(strategy, "outlook").outlook(settings, members)


def example_of(strategy: StrategyLike, turn: Turn) -> JsonValue:
    """Data that a member could reply with, if `turn.output_schema` is a form of the strategy's own; otherwise None."""
    return _whole(strategy, "example_reply").example_reply(turn)


class _Defaults(Strategy):
    """What a strategy does that does not say otherwise."""

    name = "defaults"
    version = 0

    async def run(self, task: Task, members: Members, ctx: Context) -> Outcome:
        """Never called: every strategy runs by itself."""
        raise AssertionError("a strategy without run")


_DEFAULTS = _Defaults()


def _whole(strategy: StrategyLike, method: str) -> Strategy:
    """The strategy where it has this method, else one that has all defaults."""
    return cast("Strategy", strategy) if hasattr(strategy, method) else _DEFAULTS


def _is_options(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Value)


def _is_names(value: object) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(one, str) for one in cast("Sequence[object]", value))


def _takes_settings(value: object) -> bool:
    """Whether a method is called like those of the contract: with settings and members."""
    if not callable(value) or isinstance(value, type):
        return False
    return _parameters(value) == ["settings", "members"]


def _takes_turn(value: object) -> bool:
    return callable(value) and not isinstance(value, type) and _parameters(value) == ["turn"]


def _parameters(method: Callable[..., object]) -> list[str]:
    return [one.name for one in signature(method).parameters.values() if one.default is Parameter.empty]


KNOWN: Mapping[str, Takes] = {
    "options": _is_options,
    "unused": _is_names,
    "share": lambda value: value in get_args(Share),
    "peers": lambda value: isinstance(value, bool),
    "problems": _takes_settings,
    "lead": _takes_settings,
    "sketch": _takes_settings,
    "outlook": _takes_settings,
    "example_reply": _takes_turn,
}
"""What a strategy may leave out, and what each takes."""


def require_strategy(strategy: object) -> Strategy:
    """The same object, if it keeps the contract; else a `UsageError` that says what is wrong."""
    if isinstance(strategy, type) or not isinstance(strategy, StrategyLike):
        raise UsageError(_why_no_strategy(strategy))
    if not is_ours(type(strategy)):
        for name, meant in misspelt(strategy, KNOWN):
            raise UsageError(
                f"The strategy {strategy.name!r} has {name!r}, which means nothing to a team; did you mean {meant!r}?"
                " If it is something else, call it otherwise."
            )
    return cast("Strategy", strategy)


def _why_no_strategy(strategy: object) -> str:
    if isinstance(strategy, type):
        return f"{strategy!r} is a class; make a strategy of it:  strategy={strategy.__name__}()."
    known = [name for name in dir(strategy) if not name.startswith("_")]
    missing = [name for name in REQUIRED if name not in known]
    hints = "; ".join(f"{name!r} is missing, {nearest(name, known, 'add it').rstrip('.')}" for name in missing)
    return f"{strategy!r} is no strategy, which has a name, a version and run(task, members, ctx): {hints}."
