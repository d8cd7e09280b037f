"""Published findings on teams of agents as numbers, which advice uses until the user's own runs outweigh them."""

from __future__ import annotations

from teamwright.planning.topology.profiles import Topology
from teamwright.values.models import Record

SCALING, EQUAL_TOKENS = "arXiv 2512.08296", "arXiv 2604.02460"

DIVISIBLE_GAIN = 0.80
SEQUENTIAL_LOSS = (0.39, 0.70)
ENOUGH_ALONE = 0.45
AMPLIFIED_INDEPENDENT, AMPLIFIED_CENTRAL = 17, 4
CENTRAL: frozenset[Topology] = frozenset(("lead_subagent", "star_team"))
"""Topologies in which one member checks what the others do."""


class Prior(Record, frozen=True):
    """A finding, its source, and what it means for this work."""

    finding: str
    source: str
    here: str


def change_by_team(divisible: float, alone: float) -> float:
    """The relative change of the pass rate of a single agent when a team does the work.

    It lies between the gain on divisible work and the middle of the losses on sequential work. If a single agent is
    right often enough, a team has nothing to gain, but still something to lose.
    """
    loss = sum(SEQUENTIAL_LOSS) / 2
    change = divisible * DIVISIBLE_GAIN - (1 - divisible) * loss
    return min(0.0, change) if alone > ENOUGH_ALONE else change


def priors(divisible: float, alone: float) -> tuple[Prior, ...]:
    """The findings, and what each means for this work."""
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
            here=f"together they change the pass rate of one agent by {change:+.0%}",
        ),
        Prior(
            finding=f"there is little to gain once one agent is right in over {ENOUGH_ALONE:.0%} of cases",
            source=SCALING,
            here=f"one agent is assumed to be right in {alone:.0%}: {'no gain' if alone > ENOUGH_ALONE else 'a gain'}"
            " is counted",
        ),
        Prior(
            finding=f"independent agents amplify errors {AMPLIFIED_INDEPENDENT} times, centrally coordinated ones"
            f" {AMPLIFIED_CENTRAL} times",
            source=SCALING,
            here="of teams with about the same score, one with a lead is chosen",
        ),
        Prior(
            finding="one agent matches a team that uses the same number of tokens",
            source=EQUAL_TOKENS,
            here="a team is chosen only if its score is clearly above that of one agent",
        ),
    )
