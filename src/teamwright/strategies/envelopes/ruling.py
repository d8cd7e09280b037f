"""The format of a ruling by a lead: a decision and a note."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from teamwright.values.specs.manifest import JsonSchema

D = TypeVar("D", bound=str)


def _normalize(value: object) -> object:
    return value.strip().lower() if isinstance(value, str) else value


class Ruling(BaseModel, Generic[D]):
    """A decision, in any case, and a note about it."""

    model_config = ConfigDict(extra="ignore")

    decision: Annotated[D, BeforeValidator(_normalize)]
    note: str = ""


def ruling_schema(decisions: Sequence[str], note: str) -> JsonSchema:
    """Return the JSON Schema of a ruling; `note` describes the note."""
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": list(decisions)},
            "note": {"type": "string", "description": note},
        },
        "required": ["decision"],
    }
