"""Statuses, stop reasons and exit codes as others script against them."""

from __future__ import annotations

from datetime import datetime
from typing import get_args

import pytest
from hypothesis import example, given, strategies as st

from teamwright.values.turns.results import FINAL, RunResult, Status, StopReason, iso_after


@pytest.mark.parametrize(
    ("status", "reason", "code"),
    [
        ("completed", "done", 0), ("completed", "terminated", 0), ("completed", "max_turns", 0),
        ("failed", "error", 1), ("failed", "max_turns", 1),
        ("degraded", "done", 3), ("degraded", "budget", 4), ("timeout", "deadline", 5), ("cancelled", "cancelled", 6),
        ("paused", "person", 7), ("paused", "pause", 7), ("interrupted", None, 130),
    ],
)  # fmt: skip
def test_each_ending_has_its_exit_code(status: Status, reason: StopReason | None, code: int) -> None:
    assert RunResult(run_id="r", status=status, stop_reason=reason).exit_code == code


def test_every_status_has_an_exit_code() -> None:
    codes = {status: RunResult(run_id="r", status=status).exit_code for status in get_args(Status)}
    assert None not in codes.values()


def test_what_is_final_cannot_be_resumed() -> None:
    assert set(get_args(Status)) - FINAL == {"queued", "paused", "interrupted", "running"}


@pytest.mark.parametrize(
    ("status", "reason", "kind", "shown"),
    [
        ("completed", "done", "answer", False),
        ("degraded", "done", "answer", False),
        ("degraded", "budget", "partial", False),
        ("timeout", "deadline", "partial", False),
        ("failed", "error", "partial", False),
        ("failed", "review_exceeded", "rejected", True),
    ],
)
def test_an_output_says_what_it_is_and_rejected_work_is_marked_in_json(
    status: Status, reason: StopReason, kind: str, shown: bool
) -> None:
    result = RunResult(run_id="r", status=status, stop_reason=reason, output="a text")
    assert result.output_kind == kind
    assert result.to_json().get("output_kind") == (kind if shown else None)
    assert result.changed(output=None).output_kind is None


@example(1.1260000000000001)
@given(st.floats(0, 4e9))
def test_a_time_as_text_is_never_before_the_time_itself(time: float) -> None:
    assert time <= datetime.fromisoformat(iso_after(time)).timestamp() < time + 0.002
