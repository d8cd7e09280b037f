"""Options of a reactive team: subscriptions, goal and limits."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field, JsonValue

from teamwright.strategies.diagram import Arrow, Diagram, Node, condition_label
from teamwright.strategies.expressions.conditions_and_templates import Condition
from teamwright.strategies.parallel.parts import FailurePolicy
from teamwright.strategies.protocol import Issue
from teamwright.strategies.reactive.events import EventType, OwnEventType
from teamwright.values.models import Value
from teamwright.values.specs.manifest import MemberName

OF_AN_EVENT = ("type", "by", "data", "depth", "state")
OF_A_REPLY = ("data", "text", "state")
OF_THE_GOAL = ("state", "emitted")


class Emission(Value):
    """An event that each reply causes, without the member naming it."""

    type: OwnEventType = Field(description="the type of the event; its data is the data of the reply, or else its text")
    when: str | None = Field(default=None, description="a condition over the reply: `data`, `text`, `state`")


class Subscription(Value):
    """What a member reacts to."""

    member: MemberName = Field(description="who reacts")
    on: EventType = Field(description="the type of event")
    when: str | None = Field(
        default=None, description="a condition over the event: `type`, `by`, `data`, `depth`, `state`"
    )
    emits: tuple[Emission, ...] = Field(default=(), description="events that each of its replies causes")


class ReactiveOptions(FailurePolicy):
    """The subscriptions and limits. `on_failure` applies to failures that no member handles."""

    subscriptions: tuple[Subscription, ...] = Field(
        min_length=1, description="which member reacts to which event, in order"
    )
    state: dict[str, JsonValue] = Field(default={}, description="the shared state at the start")
    goal: str | None = Field(
        default=None,
        description="a condition over `state` and `emitted`, the types so far; the team ends when it holds",
    )
    limit: int = Field(default=10, ge=1, description="how many members work at once")
    max_events: int = Field(default=100, ge=1, description="how many events are processed in total")
    max_depth: int = Field(default=20, ge=1, description="how long a chain of events may be")


def subscription_sketch(options: ReactiveOptions, start: str) -> Diagram:
    """Return the events and the members that react to them; events that members name themselves are not known yet."""
    events = dict.fromkeys((start, *(one.on for one in options.subscriptions)))
    events |= dict.fromkeys(emission.type for one in options.subscriptions for emission in one.emits)
    free = {one.member for one in options.subscriptions if not one.emits}
    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    for event in events:
        nodes[f"on {event}"] = Node(id=f"on {event}", label=event)
        for one in options.subscriptions:
            if one.on == event:
                about = "names what follows" if one.member in free else ""
                nodes.setdefault(one.member, Node(id=one.member, agent=one.member, about=about))
                arrows.append(Arrow(source=f"on {event}", to=one.member, label=condition_label(one.when)))
                arrows += [
                    Arrow(source=one.member, to=f"on {it.type}", label=condition_label(it.when)) for it in one.emits
                ]
    notes = [f"at most {options.max_events} events, {options.max_depth} deep"]
    if options.goal is not None:
        notes.append(f"until {options.goal}")
    return Diagram(nodes=tuple(nodes.values()), arrows=tuple(dict.fromkeys(arrows)), notes=tuple(notes))


def condition_flaws(options: ReactiveOptions) -> Iterator[Issue]:
    """Yield a flaw for each condition that is invalid or reads an unknown variable."""
    for index, one in enumerate(options.subscriptions):
        yield from _flaws(one.when, OF_AN_EVENT, ("subscriptions", index, "when"))
        for number, emission in enumerate(one.emits):
            yield from _flaws(emission.when, OF_A_REPLY, ("subscriptions", index, "emits", number, "when"))
    yield from _flaws(options.goal, OF_THE_GOAL, ("goal",))


def _flaws(condition: str | None, known: tuple[str, ...], at: tuple[str | int, ...]) -> Iterator[Issue]:
    problem = None if condition is None else Condition(condition).problem(known)
    if problem is not None:
        yield Issue(problem, at)
