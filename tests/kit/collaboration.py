"""Teams that collaborate, whose lead decides as a test says, and what tests read from their runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from teamwright.strategies.protocol import Strategy
from teamwright.teams.team import Team
from teamwright.values.events.event import Event
from teamwright.values.events.team import TeamPlanStatus, TeamStepAssigned, TeamStepCompleted, TeamStepFailed
from teamwright.values.turns.turn import Turn
from tests.kit.members import FakeMembers

T = TypeVar("T")
SPLIT, RACE = "subtask_parallel", "competitive_parallel"


def collaboration(fakes: FakeMembers, steps: list[Any], names: str = "lead a b c", **options: Any) -> Team:
    """A team of fake members that answer as usual, or of those that `members` has by name."""
    given: dict[str, Any] = options.pop("members", {})
    more: dict[str, Any] = options.pop("team", {})
    members = [given[name] if name in given else fakes.member(name) for name in names.split()]
    all_options = {"proposals": 0, **({"steps": steps} if steps else {}), **options}
    strategy: str | Strategy = "collaborate"
    return Team("experts", members=members, strategy=strategy, options=all_options, **more)


def deciding(**answers: object) -> Callable[[Turn], object]:
    """The answers of a lead by the first field of the form that it is asked for: winner, approve, put, steps.

    A list is used up item by item; what is not given is answered as usual.
    """

    def answer(turn: Turn) -> object:
        fields: Any = (turn.output_schema or {}).get("properties", {})
        for name, given in answers.items():
            if name in fields or (name == "text" and not fields):
                chosen: Any = given.pop(0) if isinstance(given, list) and len(given) > 1 else given  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
                one: Any = chosen[0] if isinstance(chosen, list) else chosen
                return one if isinstance(one, str | Exception) else json.dumps(one)
        return None

    return answer


def facts(events: list[Event], kind: type[T]) -> list[T]:
    """The facts of a kind, in order."""
    return [event.fact for event in events if isinstance(event.fact, kind)]


def steps_of(events: list[Event]) -> list[str]:
    """What became of the steps besides the answer: `id starts`, `2` for a second attempt, `id rung`, `id state`."""
    found: list[str] = []
    for event in events:
        match event.fact:
            case TeamStepAssigned(step=step, attempt=attempt) if step != "answer":
                found.append(f"{step} starts{' 2' if attempt > 1 else ''}")
            case TeamStepFailed(step=step, rung=rung) if step != "answer":
                found.append(f"{step} {rung}")
            case TeamStepCompleted(step=step, state=state) if step != "answer":
                found.append(f"{step} {state}")
            case _:
                pass
    return found


def statuses(events: list[Event]) -> list[str]:
    """What became of the plan."""
    return [one.status for one in facts(events, TeamPlanStatus)]
