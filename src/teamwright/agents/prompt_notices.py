"""Notices in a prompt: that little is left of the budget, and that the cap of an answer was cut.

They are part of prompts: changing one changes effect hashes, and recorded runs would no longer resume.
"""

from __future__ import annotations

from math import inf

from teamwright.agents.prices_and_tokenizers import rate_of
from teamwright.values.call_limits import text_size
from teamwright.values.limits import (
    AMPLE_OUTPUT,
    BYTES_PER_MESSAGE,
    CHARACTERS_PER_TOKEN,
    USEFUL_OUTPUT,
    Amounts,
    Rate,
    picodollars,
    scaled_output,
)
from teamwright.values.specs.models import AnyModel
from teamwright.values.turns.turn import Turn

REQUESTS = 2
"""The budget is low when it does not cover this many more requests like the next one."""
SECONDS = 30.0
"""The budget is low when fewer seconds remain."""


def low_budget_notice(turn: Turn, model: AnyModel, instructions: str, cap: int | None) -> str:
    """Return a line with the remaining budget if that is low, else an empty string; the same on a replay."""
    left = turn.left
    if left is None:
        return ""
    likely = (text_size(turn.prompt) + text_size(instructions)) // CHARACTERS_PER_TOKEN
    rate = None if left.usd is None else rate_of(model, likely)
    # Without a cap of its own, a request is taken to need what it is refused for: less under a small limit.
    output = min(cap, AMPLE_OUTPUT) if cap else scaled_output(USEFUL_OUTPUT, _output_left(left, rate))
    if not _is_low(left, rate, likely, output):
        return ""
    line = f"Little is left of the budget: {_amounts_text(left)}. Answer briefly and begin nothing that needs more."
    # If the budget just covers an answer, the notice must not use it up.
    room = None if left.tokens is None else left.tokens - likely - len(line) - BYTES_PER_MESSAGE
    return line if room is None or room >= min(output, USEFUL_OUTPUT) else ""


def output_cut_notice(max_output: int) -> str:
    """Return the line that states the output cap of an answer whose cap was cut."""
    return f"(No more is left of the budget than {max_output} tokens for this answer.)"


CUT_NOTICE_TOKENS = len(output_cut_notice(999_999)) + BYTES_PER_MESSAGE
"""Upper bound on the tokens that this line adds to a prompt."""


def _output_left(left: Amounts, rate: Rate | None) -> float:
    """Return the output tokens that the tighter of the remaining tokens and money pays for."""
    tokens = inf if left.tokens is None else left.tokens
    return (
        tokens
        if left.usd is None or rate is None or not rate.output
        else min(tokens, picodollars(left.usd) / rate.output)
    )


def _is_low(left: Amounts, rate: Rate | None, prompt: int, output: int) -> bool:
    if left.tokens is not None and left.tokens < REQUESTS * (prompt + output):
        return True
    if left.calls is not None and left.calls < REQUESTS:
        return True
    if left.seconds is not None and left.seconds < SECONDS:
        return True
    return left.usd is not None and rate is not None and picodollars(left.usd) < REQUESTS * rate.cost(prompt, output)


def _amounts_text(left: Amounts) -> str:
    parts = [
        f"{left.tokens} tokens" if left.tokens is not None else "",
        f"${left.usd:.4g}" if left.usd is not None else "",
        f"{left.calls} call{'' if left.calls == 1 else 's'}" if left.calls is not None else "",
        f"{left.seconds:.0f} seconds" if left.seconds is not None else "",
    ]
    return ", ".join(filter(None, parts))
