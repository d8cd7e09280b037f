"""The profile of a test run: `thorough` for campaigns, else quick."""

import os

THOROUGH = "thorough"


def profile() -> str:
    """The profile that `HYPOTHESIS_PROFILE` names, by default that of CI."""
    return os.environ.get("HYPOTHESIS_PROFILE", "ci")


def is_thorough() -> bool:
    """Whether tests may take minutes."""
    return profile() == THOROUGH
