"""The rungs of failure ladders, as options have them."""

from __future__ import annotations

from typing import Any, Literal


def ladder(
    retry: int = 1,
    *,
    attempt: Literal["retry", "other_member", "adjust"] = "retry",
    upgrade_model: bool = True,
    downgrade_model: bool = True,
    replan: int = 0,
    skip_step: bool = True,
    finish: bool | str = False,
) -> list[Any]:
    """The usual ladder of an expert team, with some rungs changed; `retry` is the number of attempts of this kind."""
    rungs: list[Any] = [attempt] * retry
    rungs += ["upgrade_model"] * upgrade_model + ["downgrade_model"] * downgrade_model
    rungs += ["replan"] * replan + ["skip_step"] * skip_step
    if finish:
        rungs.append({"finish": finish} if isinstance(finish, str) else "finish")
    return rungs


def finishing(name: str) -> list[Any]:
    """The failure ladder of a team that collaborates, with another agent who finishes."""
    return ladder(attempt="adjust", downgrade_model=False, skip_step=False, finish=name)
