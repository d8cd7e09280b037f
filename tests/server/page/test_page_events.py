"""What is generated from the page events is up to date, and recorded samples fit it."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from teamwright.server.page.page_events import PageEvent, page_schema
from tools import page_events
from tools.page_samples import FIXTURES, SAMPLES

ROOT = Path(__file__).parents[3]


def test_the_schema_of_the_docs_is_that_of_the_values() -> None:
    assert page_events.SCHEMA.read_text(encoding="utf-8") == page_events.schema_text(), "python -m tools.page_events"


def test_the_types_of_the_page_are_those_of_the_values() -> None:
    assert page_events.TYPES.read_text(encoding="utf-8") == page_events.types_text(), "python -m tools.page_events"


def test_the_schema_names_the_events_of_the_page_and_their_head() -> None:
    kinds = {one["properties"]["kind"]["enum"][0]: one for one in _definitions() if "kind" in one["properties"]}
    wanted = {
        "run", "team_formed", "team_dissolved", "team_synthesis", "expert_joined", "expert_left", "expert_step",
        "expert_result", "message", "tool_call", "tool_result", "thinking", "verdict", "vote", "plan_update", "step",
        "intervention", "question", "answer", "budget", "wait", "checkpoint", "warning", "note", "delta",
    }  # fmt: skip
    assert wanted <= set(kinds)
    for kind, one in kinds.items():
        head = {"scope", "key", "expert"} if kind == "delta" else {"number", "index", "time", "scope", "key", "expert"}
        assert head <= set(one["required"]), kind
        assert set(one["required"]) == set(one["properties"]), kind


def _definitions() -> list[dict[str, dict[str, dict[str, list[str]]]]]:
    return list(json.loads(json.dumps(page_schema()))["$defs"].values())


@pytest.mark.parametrize("name", SAMPLES)
def test_a_recorded_sample_fits_the_values(name: str) -> None:
    sample = json.loads((ROOT / FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    read = msgspec.convert(sample["events"], list[PageEvent])
    assert json.loads(msgspec.json.encode(read)) == sample["events"], "python -m tools.page_events samples"
    assert sample["run"]["run_id"] == name
