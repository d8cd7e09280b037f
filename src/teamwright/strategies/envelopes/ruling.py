"""The form in which whoever leads a team rules on something: one of a few words, and a note. It decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from teamwright.values.specs.manifest import JsonSchema

D = TypeVar("D", bound=str)


def _plain(said: object) -> object:
    return said.strip().lower() if isinstance(said, str) else said


class Ruling(BaseModel, Generic[D]):
    """What was ruled, however it was spelt, and what is to be known about it."""

    model_config = ConfigDict(extra="ignore")

    decision: Annotated[D, BeforeValidator(_plain)]
    note: str = ""


def ruling_schema(decisions: Sequence[str], note: str) -> JsonSchema:
    """The form as the one who rules is asked for it; `note` says what the note is for."""
    return {
        "type": "object",
        "properties": {
            "decision": {"type": "string", "enum": list(decisions)},
            "note": {"type": "string", "description": note},
        },
        "required": ["decision"],
    }
