"""Published findings on teams of agents, as numbers: what advice rests on until runs of one's own say more."""

from __future__ import annotations

from teamwright.planning.topology.profiles import Topology
from teamwright.values.models import Record

SCALING, EQUAL_TOKENS = "arXiv 2512.08296", "arXiv 2604.02460"

DIVISIBLE_GAIN = 0.80
SEQUENTIAL_LOSS = (0.39, 0.70)
ENOUGH_ALONE = 0.45
AMPLIFIED_INDEPENDENT, AMPLIFIED_CENTRAL = 17, 4
CENTRAL: frozenset[Topology] = frozenset(("lead_subagent", "star_team"))
"""Shapes in which one member sees to what the others do."""


class Prior(Record, frozen=True):
    """A finding, where it was published, and what it says here."""

    finding: str
    source: str
    here: str


def change_by_team(divisible: float, alone: float) -> float:
    """By how much a team changes the rate at which one agent alone is right, as a share of it.

    Between the gain on work that can be divided and the middle of the losses on work that can't. Where one agent is
    right often enough, there is nothing to gain, but still something to lose.
    """
    loss = sum(SEQUENTIAL_LOSS) / 2
    change = divisible * DIVISIBLE_GAIN - (1 - divisible) * loss
    return min(0.0, change) if alone > ENOUGH_ALONE else change


def priors(divisible: float, alone: float) -> tuple[Prior, ...]:
    """The findings, and what each says of this work."""
    change = change_by_team(divisible, alone)
    low, high = SEQUENTIAL_LOSS
    return (
        Prior(
            finding=f"a team does about {DIVISIBLE_GAIN:.0%} better than one agent on work that can be divided",
            source=SCALING,
            here=f"{divisible:.0%} of this work can be divided",
        ),
        Prior(
            finding=f"a team does {low:.0%} to {high:.0%} worse on sequential planning",
            source=SCALING,
            here=f"both together change the pass rate of one agent by {change:+.0%}",
        ),
        Prior(
            finding=f"there is little to gain once one agent is right in over {ENOUGH_ALONE:.0%} of cases",
            source=SCALING,
            here=f"one agent is taken to be right in {alone:.0%}: {'no gain' if alone > ENOUGH_ALONE else 'a gain'}"
            " is counted",
        ),
        Prior(
            finding=f"independent agents amplify errors {AMPLIFIED_INDEPENDENT} times, centrally coordinated ones"
            f" {AMPLIFIED_CENTRAL} times",
            source=SCALING,
            here="of teams that do about as well, one with a lead is taken",
        ),
        Prior(
            finding="one agent matches a team that thinks with equally many tokens",
            source=EQUAL_TOKENS,
            here="a team is taken only where its score is clearly above that of one agent",
        ),
    )
