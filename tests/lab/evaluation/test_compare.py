"""Envelopes beside transcripts: what differs, for each topology and level of budget."""

from __future__ import annotations

from typing import Any, cast
from xml.etree import ElementTree

import pytest

from teamwright.errors import UsageError
from teamwright.lab import compare, evaluate
from teamwright.lab.evaluation.compare import COMPARED


def test_both_reports_are_those_of_evaluate() -> None:  # Z-14
    found = compare(budget="high", tasks=9)
    assert found.first == evaluate(budget="high", tasks=9, protocol="a2a_lite")
    assert found.second == evaluate(budget="high", tasks=9, protocol="transcript")


def test_a_difference_is_the_second_without_the_first() -> None:  # Z-14
    star = next(row for row in compare().differences if row.topology == "star_team")
    tokens = star.figures["total_tokens"]
    assert (tokens.first, tokens.second, tokens.difference) == (33007, 42390, 9383)
    assert star.figures["estimated_pass_rate"].difference == -0.03
    assert star.gate_pass == (True, False)


def test_the_fields_of_a_comparison() -> None:
    found = cast("dict[str, Any]", compare(all_budgets=True).to_json())
    assert list(found) == ["inputs", "a2a_lite", "transcript", "differences"]
    assert found["inputs"]["protocols"] == ["a2a_lite", "transcript"]
    assert list(found["transcript"]) == ["results", "rankings", "recommendation", "budget_sweep"]
    assert len(found["differences"]) == 3 * 4
    first = found["differences"][0]
    assert list(first) == ["budget_profile", "topology", *COMPARED, "gate_pass"]
    assert first["total_tokens"] == {"a2a_lite": 32186, "transcript": 33224, "difference": 1038}


def test_a_transcript_never_costs_less_and_never_passes_more() -> None:
    for row in compare(all_budgets=True).differences:
        assert row.figures["total_tokens"].difference > 0
        assert row.figures["estimated_pass_rate"].difference < 0


def test_ones_own_protocol_is_refused() -> None:
    with pytest.raises(UsageError, match="a2a_lite and transcript are compared; omit it"):
        compare(protocol="transcript")


def test_a_comparison_shows_what_is_recommended_with_each() -> None:  # Z-15
    text = " ".join(str(compare(all_budgets=True)).split())
    assert "With a low budget star_team is recommended either way." in text
    assert "With a medium budget star_team is recommended with a2a_lite, and lead_subagent with transcript." in text
    assert max(map(len, str(compare()).splitlines())) <= 80
    assert compare(all_budgets=True)._repr_html_().count("<table>") == 3
    ElementTree.fromstring(compare(all_budgets=True).svg())


def test_breaches_come_with_their_protocol() -> None:
    found = compare(topologies=["star"]).breaches()
    assert {protocol for protocol, _ in found} == {"transcript"}
