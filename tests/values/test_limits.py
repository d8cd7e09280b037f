"""Limits and retry policies refuse what makes no sense."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.values.limits import Limits, RetryPolicy


@pytest.mark.parametrize("bad", [{"tokens": -1}, {"calls": -1}, {"seconds": 0}, {"seconds": -1}, {"tokns": 1}])
def test_limits_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Limits.model_validate(bad)


@pytest.mark.parametrize("bad", [{"attempts": -1}, {"attempts": 21}, {"backoff": -1}, {"jitter": 2}, {"longest": -1}])
def test_policies_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        RetryPolicy.model_validate(bad)
