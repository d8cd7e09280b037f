"""The asks that end the work of a team, as its strategy declares them; the budget keeps a part back for each."""

from __future__ import annotations

from typing import NamedTuple


class ClosingAsk(NamedTuple):
    """An ask that ends the work of a team, such as the answer of its lead. A part of the budget is kept back for it.

    `reads` is the number of replies in its prompt; `None` for all of them. `characters` is the length of other texts in
    it that no earlier prompt had, such as the chunks of a fan-out.
    """

    member: str
    reads: int | None = None
    characters: int = 0
