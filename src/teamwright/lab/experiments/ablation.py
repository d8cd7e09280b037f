"""What a team is without one of its parts: a member, a step, a tool or a review.

Works on declarations alone: what came before or after the part is joined, and nothing else of the team changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from teamwright.values.specs.evaluation import Evaluate
from teamwright.values.specs.manifest import AgentSpec, Source, TeamSpec

STEPS, EDGES, SUBSCRIPTIONS, EVALUATE = "steps", "edges", "subscriptions", "evaluate"
Fields = dict[str, Any]
"""An item of a strategy's options, as it was written."""


@dataclass(frozen=True, slots=True)
class Without:
    """A team without one part, whose name says which: `critic`, `step plan`, `tool search of clerk`."""

    name: str
    source: Source


def without_parts(source: Source) -> Iterator[Without]:
    """Yield the team without each of its parts, and no team twice. Some may be no teams that can be built."""
    seen = [source.manifest]
    for name, changed in _variants(source):
        if changed.manifest not in seen:
            seen.append(changed.manifest)
            yield Without(name, changed)


def _variants(source: Source) -> Iterator[tuple[str, Source]]:
    teams = _reachable(source)
    for team, spec in teams.items():
        for member in dict.fromkeys(spec.members):
            if set(spec.members) != {member}:
                yield member, _with_team(source, team, _without_member(spec, member))
        for step in _items(spec, STEPS):
            yield f"step {step.get('id')}", _with_team(source, team, _without_step(spec, str(step.get("id"))))
    for name in dict.fromkeys(member for spec in teams.values() for member in spec.members):
        agent = source.manifest.agents.get(name)
        for place, tool in enumerate(agent.tools if agent else ()):
            left = [one for number, one in enumerate(agent.tools if agent else ()) if number != place]
            label = tool if isinstance(tool, str) else str(place + 1)
            yield f"tool {label} of {name}", _with_agent(source, name, tools=tuple(left))
        if agent is not None and agent.evaluate is not None:
            yield f"review of {name}", _with_agent(source, name, evaluate=None)
    for team, spec in teams.items():
        if isinstance(spec.evaluate, Evaluate):
            yield f"review of {team}", _with_team(source, team, spec.model_copy(update={"evaluate": None}))
        for step in _items(spec, STEPS):
            if step.get(EVALUATE):
                kept = [_without_field(one, EVALUATE) if one is step else one for one in _items(spec, STEPS)]
                yield f"review of step {step.get('id')}", _with_team(source, team, _with(spec, STEPS, kept))


def _reachable(source: Source) -> dict[str, TeamSpec]:
    """The team and the teams in it, by name."""
    found: dict[str, TeamSpec] = {}
    pending = [source.team]
    while pending:
        name = pending.pop(0)
        spec = source.manifest.teams.get(name)
        if spec is not None and name not in found:
            found[name] = spec
            pending.extend(spec.members)
    return found


def _without_member(spec: TeamSpec, member: str) -> TeamSpec:
    """The team without a member: its steps are left out, and the edges that lead to it go on to where it led."""
    left = spec.model_copy(update={"members": tuple(one for one in spec.members if one != member)})
    for step in [one for one in _items(spec, STEPS) if one.get("agent") == member]:
        left = _without_step(left, str(step.get("id")))
    if edges := _items(spec, EDGES):
        left = _with(left, EDGES, _joined_edges(edges, member))
    if listeners := _items(spec, SUBSCRIPTIONS):
        left = _with(left, SUBSCRIPTIONS, [one for one in listeners if one.get("agent") != member])
    return left


def _joined_edges(edges: Sequence[Fields], member: str) -> list[Fields]:
    onward = [one for one in edges if one.get("from") == member and one.get("to") != member]
    found: list[Fields] = []
    for edge in edges:
        if edge.get("to") == member and edge.get("from") != member:
            found += [{**edge, "to": one["to"]} for one in onward if one["to"] != edge.get("from")]
        elif edge.get("from") != member:
            found.append(edge)
    return found


def _without_step(spec: TeamSpec, step: str) -> TeamSpec:
    """The team without a step: the steps that need it need what it needed."""
    steps = _items(spec, STEPS)
    needed = next((_needs(one) for one in steps if one.get("id") == step), list[str]())
    kept = [
        {**one, "needs": list(dict.fromkeys(n for name in _needs(one) for n in (needed if name == step else [name])))}
        if step in _needs(one)
        else one
        for one in steps
        if one.get("id") != step
    ]
    return _with(spec, STEPS, kept)


def _needs(step: Fields) -> list[str]:
    return list(cast("Sequence[str]", step.get("needs") or ()))


def _items(spec: TeamSpec, option: str) -> list[Fields]:
    """The mappings in a list of the options; empty if the strategy has no such option."""
    given = spec.options.get(option)
    if not isinstance(given, list):
        return []
    return [cast("Fields", one) for one in given if isinstance(one, Mapping)]


def _with(spec: TeamSpec, option: str, items: Sequence[Fields]) -> TeamSpec:
    return spec.model_copy(update={"options": {**spec.options, option: list(items)}})


def _without_field(fields: Fields, name: str) -> Fields:
    return {key: value for key, value in fields.items() if key != name}


def _with_team(source: Source, name: str, spec: TeamSpec) -> Source:
    manifest = source.manifest.model_copy(update={"teams": {**source.manifest.teams, name: spec}})
    return source.model_copy(update={"manifest": manifest})


def _with_agent(source: Source, name: str, **fields: object) -> Source:
    agents: dict[str, AgentSpec] = dict(source.manifest.agents)
    agents[name] = agents[name].model_copy(update=fields)
    return source.model_copy(update={"manifest": source.manifest.model_copy(update={"agents": agents})})
