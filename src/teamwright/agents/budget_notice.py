"""What a member is told when its budget runs short, in one line, so that it can wrap up rather than be cut off."""

from __future__ import annotations

from teamwright.agents.prices import rate_of
from teamwright.budget.ledger import AMPLE_OUTPUT, BYTES_PER_MESSAGE, USEFUL_OUTPUT, prompt_tokens
from teamwright.budget.money import picodollars
from teamwright.values.limits.usage import Amounts
from teamwright.values.specs.manifest import AnyModel
from teamwright.values.turns.turn import Turn

REQUESTS = 2
"""What is left is getting tight when it does not pay for this many more requests like the next one."""
SECONDS = 30.0


def left_line(turn: Turn, model: AnyModel, instructions: str, cap: int | None) -> str:
    """What is left, where that is getting tight; else nothing. It is recorded, so a replay tells the same."""
    left = turn.left
    if left is None:
        return ""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in (turn.prompt, instructions))
    prompt, output = prompt_tokens(size, 2 + len(turn.history)), cap or AMPLE_OUTPUT
    if not _tight(left, model, prompt, output):
        return ""
    line = f"Little is left of the budget: {_words(left)}. Answer briefly and begin nothing that needs more."
    # Where there is just enough for an answer, saying so must not cost it.
    room = None if left.tokens is None else left.tokens - prompt - len(line) - BYTES_PER_MESSAGE
    return line if room is None or room >= min(output, USEFUL_OUTPUT) else ""


def cut_line(max_output: int) -> str:
    """How long an answer may be that has less room than it should have."""
    return f"(No more is left of the budget than {max_output} tokens for this answer.)"


CUT_TOKENS = len(cut_line(999_999)) + BYTES_PER_MESSAGE
"""What that adds to a prompt at most."""


def _tight(left: Amounts, model: AnyModel, prompt: int, output: int) -> bool:
    if left.tokens is not None and left.tokens < REQUESTS * (prompt + output):
        return True
    if left.calls is not None and left.calls < REQUESTS:
        return True
    if left.seconds is not None and left.seconds < SECONDS:
        return True
    if left.usd is None:
        return False
    rate = rate_of(model, prompt)
    return rate is not None and picodollars(left.usd) < REQUESTS * rate.cost(prompt, output)


def _words(left: Amounts) -> str:
    parts = [
        f"{left.tokens} tokens" if left.tokens is not None else "",
        f"${left.usd:.4g}" if left.usd is not None else "",
        f"{left.calls} call{'' if left.calls == 1 else 's'}" if left.calls is not None else "",
        f"{left.seconds:.0f} seconds" if left.seconds is not None else "",
    ]
    return ", ".join(filter(None, parts))
