"""What is different from a recorded run: its models, limits, widths and topology, and the team with these changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import JsonValue

from teamwright.agents.prices import known_models, rate_of
from teamwright.errors import UnknownName, UsageError, nearest
from teamwright.strategies.registry import find_strategy
from teamwright.teams.codeless import without_code
from teamwright.teams.load import resolve_model, source_with_limits
from teamwright.values.limits.limits import Limits
from teamwright.values.specs.manifest import AnyModel, Manifest, Source, TeamSpec

WIDTHS = {"fan_out": "limit", "dag": "max_parallel", "star_team": "max_parallel", "mesh_team": "max_parallel"}
"""The option of each strategy that says how many members work at once."""


@dataclass(frozen=True, slots=True)
class RunChanges:
    """What is different from the recorded run: models by member, limits of the run, members at once, the topology."""

    models: Mapping[str, str] = field(default_factory=dict[str, str])
    limits: Limits | None = None
    at_once: int | None = None
    topology: str | None = None

    def to_json(self) -> dict[str, JsonValue]:
        """The changes that are made, as JSON data."""
        limits = self.limits.bounds.given if self.limits is not None else {}
        given = {"models": dict(self.models), "limits": limits, "at_once": self.at_once, "topology": self.topology}
        return {name: value for name, value in given.items() if value}  # pyright: ignore[reportReturnType]


def with_changes(source: Source, changes: RunChanges) -> Source:
    """The declaration of the team with other models, limits and widths, and without code: nothing is called."""
    manifest = source.manifest
    for name, model in changes.models.items():
        if name not in manifest.agents:
            raise UnknownName("member with a model", name, manifest.agents)
        agent = manifest.agents[name].model_copy(update={"model": _priced_model(manifest, model)})
        manifest = manifest.model_copy(update={"agents": {**manifest.agents, name: agent}})
    if changes.at_once is not None:
        manifest = _with_width(source.team, manifest, changes.at_once)
    source = without_code(source.model_copy(update={"manifest": manifest}))
    return source if changes.limits is None else source_with_limits(source, changes.limits)


def _priced_model(manifest: Manifest, name: str) -> AnyModel:
    """A model by its name in the manifest, or a provider's; raises if its price is not known."""
    model = manifest.models.get(name) or resolve_model(name)
    if rate_of(model, 1) is None:
        known = [*manifest.models, *known_models(name.partition(":")[0])]
        raise UsageError(f"No price is known for the model {name!r}; {nearest(name, known)}")
    return model


def _with_width(team: str, manifest: Manifest, at_once: int) -> Manifest:
    teams = {name: _team_with_width(spec, at_once) for name, spec in manifest.teams.items()}
    if teams == manifest.teams and all(_width_option(spec) is None for spec in manifest.teams.values()):
        raise UsageError(
            f"The members of {team!r} work one after another, so --at-once changes nothing; it is for the strategies"
            f" {', '.join(WIDTHS)}."
        )
    return manifest.model_copy(update={"teams": teams})


def _team_with_width(spec: TeamSpec, at_once: int) -> TeamSpec:
    option = _width_option(spec)
    return spec if option is None else spec.model_copy(update={"options": {**spec.options, option: at_once}})


def _width_option(spec: TeamSpec) -> str | None:
    strategy = find_strategy(spec.strategy)
    known = strategy.options
    option = WIDTHS.get(strategy.name)
    return option if known is not None and option in known.model_fields else None
