"""A declared team without code: it has the same members and options, and nothing in it can be called."""

from __future__ import annotations

from teamwright.values.specs.manifest import TERMINATE, AgentSpec, AnyModel, Manifest, Source

STAND_IN = "local"
"""The model of agents that have none: it is never called, and costs nothing."""


def without_code(source: Source) -> Source:
    """Return the declaration of a team whose agents load no function, script, tool or instructions."""
    manifest = source.manifest
    agents = {name: _without_code(manifest, spec) for name, spec in manifest.agents.items()}
    return source.model_copy(update={"manifest": manifest.model_copy(update={"agents": agents})})


def _without_code(manifest: Manifest, spec: AgentSpec) -> AgentSpec:
    """An agent that is declared alike and loads no function, script, tool or instructions."""
    model: AnyModel = STAND_IN if spec.model is None else spec.model
    return spec.model_copy(
        update={
            "model": manifest.models.get(model, model) if isinstance(model, str) else model,
            "function": None,
            "scripted": None,
            "instructions": "",
            "check_input": None,
            "check_output": None,
            "memory": None,
            "approve": spec.approve and spec.approve.model_copy(update={"tools": False}),
            "tools": (TERMINATE,) if TERMINATE in spec.tools else (),
        }
    )
