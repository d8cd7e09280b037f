"""Retry policies refuse what makes no sense."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from teamwright.values.retries import RetryPolicy


@pytest.mark.parametrize("bad", [{"times": -1}, {"times": 21}, {"backoff": -1}, {"backoff": {"max": -1}}])
def test_policies_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        RetryPolicy.model_validate(bad)
