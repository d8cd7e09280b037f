"""The profile of a test run: `ci` takes a sample of each campaign, `whole` every case, `thorough` many random ones."""

import os

from hypothesis import settings

WHOLE, THOROUGH = "whole", "thorough"


def profile() -> str:
    """The profile that `HYPOTHESIS_PROFILE` names, by default that of CI."""
    return os.environ.get("HYPOTHESIS_PROFILE", "ci")


def is_thorough() -> bool:
    """Whether tests may take minutes."""
    return profile() == THOROUGH


def is_whole() -> bool:
    """Whether tests take all cases of a campaign rather than a sample."""
    return profile() in {WHOLE, THOROUGH}


def sampled(few: int, many: int) -> int:
    """How much of a campaign of many seconds this test run takes: `few` examples, points or cases, or `many`."""
    return many if is_whole() else few


def examples(few: int) -> settings:
    """The settings of a property whose examples take long: a few in CI, as many as the profile says elsewhere."""
    return settings() if is_whole() else settings(max_examples=few)
