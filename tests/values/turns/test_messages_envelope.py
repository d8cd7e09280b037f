"""Envelopes: their form, how sure a sender is, and what the policy reports and cuts."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, strategies as st
from pydantic import ValidationError

from teamwright.errors import InvalidValue
from teamwright.values.text.display import ELLIPSIS
from teamwright.values.turns.messages import Envelope, EnvelopeLimits, envelope_schema
from tests.paths import EXAMPLES

EXAMPLE = EXAMPLES / "plan" / "envelope.json"
FIELDS = [
    "run_id", "task_id", "sender", "recipient", "status", "confidence", "risk_level", "summary", "artifacts", "needs",
    "next_action",
]  # fmt: skip


def written(**changes: object) -> dict[str, Any]:
    return {
        "run_id": "run-1", "task_id": "task-22", "sender": "worker", "recipient": "lead", "status": "done",
        "confidence": 91, "risk_level": "medium", "summary": "The three paths were tried and hold.",
        "artifacts": ["artifact://a"], "needs": [], "next_action": "review", **changes,
    }  # fmt: skip


def envelope(**changes: object) -> Envelope:
    return Envelope.model_validate(written(**changes))


def test_an_envelope_has_exactly_these_fields() -> None:  # Z-01
    assert list(Envelope.model_fields) == FIELDS
    assert list(envelope_schema()["properties"]) == FIELDS  # pyright: ignore[reportArgumentType]
    assert envelope_schema()["required"] == FIELDS
    for name in FIELDS:
        with pytest.raises(ValidationError, match=name):
            Envelope.model_validate({key: value for key, value in written().items() if key != name})
    with pytest.raises(ValidationError, match="Extra inputs"):
        envelope(transcript="all that was said")


@pytest.mark.parametrize(
    ("given", "read"), [(0, 0), (1, 1), (91, 91), (100, 100), (0.91, 91), (0.005, 0), (0.999, 100), (1.0, 1), (0.0, 0)]
)
def test_a_share_strictly_between_0_and_1_is_read_as_a_percentage(given: float, read: int) -> None:  # Z-01
    assert envelope(confidence=given).confidence == read
    jsonschema.validate(written(confidence=given), envelope_schema())


@pytest.mark.parametrize("given", [-1, 101, 55.5, -0.5, True, None, "sure", float("nan")])
def test_any_other_confidence_is_refused(given: object) -> None:  # Z-01
    with pytest.raises(ValidationError, match="confidence"):
        envelope(confidence=given)


@given(st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_every_share_becomes_a_whole_percentage(share: float) -> None:  # Z-01
    assert abs(envelope(confidence=share).confidence - share * 100) <= 0.5 + 1e-9


@pytest.mark.parametrize(
    "changes", [{"status": "finished"}, {"risk_level": "none"}, {"sender": ""}, {"next_action": "  "}, {"needs": [""]}]
)
def test_what_does_not_fit_is_refused_by_model_and_schema_alike(changes: dict[str, object]) -> None:  # Z-01
    with pytest.raises(ValidationError):
        envelope(**changes)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(written(**changes), envelope_schema())


def test_the_example_is_an_envelope_within_the_policy() -> None:  # Z-01
    data = json.loads(EXAMPLE.read_text())
    jsonschema.validate(data, envelope_schema())
    read = Envelope.model_validate(data)
    assert read.confidence == 91
    assert EnvelopeLimits().check(read) == []
    assert Envelope.model_validate_json(read.model_dump_json()) == read


def test_every_breach_is_reported_clearly() -> None:  # Z-02
    long = envelope(summary="x" * 321, artifacts=["a"] * 9, needs=["n"] * 7)
    assert EnvelopeLimits().check(long) == [
        "the summary has 321 characters, more than 320: say less",
        "there are 9 artifacts, more than 8: keep those that matter most",
        "there are 7 needs, more than 6: keep those that matter most",
    ]
    assert EnvelopeLimits().check(envelope(summary="x" * 15)) == [
        "the summary has 15 characters, fewer than 16: say more"
    ]
    assert EnvelopeLimits().check(envelope(summary="x" * 320, artifacts=["a"] * 8, needs=["n"] * 6)) == []


def test_compaction_cuts_with_an_ellipsis_inside_the_cap() -> None:  # Z-02
    cut = EnvelopeLimits().compact(envelope(summary="x" * 400, artifacts=[f"a{n}" for n in range(12)], needs=["n"] * 7))
    assert cut.summary == "x" * 319 + ELLIPSIS
    assert cut.artifacts == tuple(f"a{number}" for number in range(8))
    assert len(cut.needs) == 6
    fitting = envelope()
    assert EnvelopeLimits().compact(fitting) is fitting


policies = st.builds(
    EnvelopeLimits, max_summary_chars=st.integers(16, 400), max_artifacts=st.integers(1, 9), max_needs=st.integers(1, 9)
)
texts = st.lists(st.text("ab ", min_size=1).filter(str.strip), max_size=12)


@given(policies, st.text(min_size=16, max_size=500), texts, texts)
def test_what_is_compacted_keeps_to_the_policy(
    policy: EnvelopeLimits, summary: str, artifacts: list[str], needs: list[str]
) -> None:  # Z-02
    before = envelope(summary=summary, artifacts=artifacts, needs=needs)
    cut = policy.compact(before)
    assert policy.check(cut) == []
    assert policy.compact(cut) == cut
    assert cut.artifacts == before.artifacts[: policy.max_artifacts]
    assert before.summary.startswith(cut.summary.removesuffix(ELLIPSIS)[: len(cut.summary) - 1])


@given(policies, st.text(max_size=15))
def test_a_summary_that_is_too_short_stays_a_breach(policy: EnvelopeLimits, summary: str) -> None:  # Z-02
    (breach,) = policy.check(policy.compact(envelope(summary=summary)))
    assert "say more" in breach


def test_a_policy_that_nothing_could_keep_to_is_refused() -> None:
    with pytest.raises(InvalidValue, match=r"max_summary_chars \(8\) is below min_summary_chars \(16\)"):
        EnvelopeLimits(max_summary_chars=8)
