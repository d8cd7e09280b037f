"""The settings of an agent's requests: its model's, then its own. Imports no model library."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from teamwright.values.specs.manifest import AnyModel
from teamwright.values.specs.model_settings import ModelSettings, PrescribedMode
from teamwright.values.turns.turn import Turn

if TYPE_CHECKING:
    from teamwright.agents.model.agent import ModelAgent

NO_SETTINGS = ModelSettings()


def settings_for(agent: ModelAgent, model: AnyModel) -> ModelSettings:
    """Return the settings of an agent's requests to a model; the agent's own take precedence over the model's."""
    of_model = None if isinstance(model, str) else model.settings
    if of_model is None and agent.settings is None and agent.temperature is None and agent.max_tokens is None:
        return NO_SETTINGS
    given = cast("ModelSettings", {**(of_model or {}), **(agent.settings or {})})
    if agent.temperature is not None:
        given["temperature"] = agent.temperature
    if agent.max_tokens is not None:
        given["max_tokens"] = agent.max_tokens
    return given


def output_cap(agent: ModelAgent, model: AnyModel, turn: Turn) -> int | None:
    """Return the output cap of each request of a turn, if the agent, its model or the asker sets one."""
    return settings_for(agent, model).get("max_tokens") or turn.max_output


def output_mode_for(agent: ModelAgent, model: AnyModel) -> PrescribedMode | None:
    """Return the mode of answers that the agent, or else its model, prescribes; `None` if the model's own is used."""
    chosen = agent.output_mode or (None if isinstance(model, str) else model.output_mode)
    return None if chosen == "auto" else cast("PrescribedMode | None", chosen)
