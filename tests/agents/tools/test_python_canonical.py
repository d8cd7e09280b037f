"""The same action has the same identity, in every process and however a model spells its arguments."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest
from pydantic import BaseModel

from teamwright.agents.tools.python import canonical_json
from teamwright.errors import ToolError


class Order(BaseModel):
    amount: Decimal


@dataclass
class Place:
    x: float


@pytest.mark.parametrize(
    "same",
    [
        (10, 10.0, Decimal(10), Decimal("10.00")),
        (Decimal("1.50"), Decimal("1.5")),
        (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
        ({"a", "b"}, frozenset({"b", "a"})),
        ((1, 2), [1, 2.0]),
        (Order(amount=Decimal("2.0")), Order(amount=Decimal(2)), {"amount": 2}),
        (Place(1.0), {"x": 1}),
    ],
    ids=["numbers", "decimals", "times", "sets", "lists", "models", "dataclasses"],
)
def test_values_that_are_equal_are_the_same_action(same: tuple[object, ...]) -> None:
    assert len({canonical_json(one) for one in same}) == 1


@pytest.mark.parametrize(("one", "other"), [(1, "1"), (True, 1), (None, "null"), ([1], [1, 1]), (1.5, 1.25)])
def test_values_that_differ_are_other_actions(one: object, other: object) -> None:
    assert canonical_json(one) != canonical_json(other)


def test_the_order_of_a_set_does_not_depend_on_the_process() -> None:
    code = "from teamwright.agents.tools.python import canonical_json; print(canonical_json(set('abcdef')))"
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_a_value_without_an_identity_is_refused() -> None:
    with pytest.raises(ToolError, match="can't identify an action"):
        canonical_json(object())
