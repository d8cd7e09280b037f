"""How a team of experts was formed, in lines: who is in it, where each comes from, and why."""

from __future__ import annotations

from collections.abc import Collection

from teamwright.cli.text.table import columns
from teamwright.values.models import JsonValue
from teamwright.values.specs.expert import ExpertProfile, Formation
from teamwright.values.specs.manifest import Source

WORDS = {"template": "from the template {}", "written": "written for this run", "made_up": "made up"}


def formation_of(source: Source) -> str:
    """Return the formation of a team in lines; empty if it was not formed for its task."""
    profiles = {name: spec.expert for name, spec in source.manifest.agents.items()}
    leads = [name for name, one in profiles.items() if isinstance(one, ExpertProfile) and one.is_lead]
    return "" if source.formation is None else formation_text(source.formation, leads)


def recorded_formation(source: JsonValue) -> tuple[JsonValue, str]:
    """Return the formation in the recorded source of a run, as data and in lines; none if there is none."""
    if not isinstance(source, dict) or source.get("formation") is None:
        return None, ""
    return source["formation"], formation_of(Source.model_validate(source))


def formation_text(formation: Formation, leads: Collection[str]) -> str:
    """Return one line for each expert, and the warnings."""
    rows = [
        (f"  {role.name}", "leads" if role.name in leads else "", WORDS[role.origin].format(role.template), role.reason)
        for role in formation.roles
    ]
    return "\n".join((columns(rows), *(f"warning: {text}" for text in formation.warnings)))
