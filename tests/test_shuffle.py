"""`--shuffle SEED` runs the tests in another order, the same one for the same seed."""

from __future__ import annotations

from typing import Any

import pytest

from tests import conftest


@pytest.mark.parametrize("seed", [7, 8, None])
def test_a_seed_gives_an_order_of_its_own_and_is_printed(
    seed: int | None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request.config.option, "shuffle", seed)
    orders: list[list[Any]] = [list(range(50)), list(range(50))]
    for order in orders:
        conftest.pytest_collection_modifyitems(request.config, order)
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == list(range(50))
    assert (orders[0] != sorted(orders[0])) is (seed is not None)
    shown = conftest.pytest_report_header(request.config)
    assert shown == (None if seed is None else f"in a random order: --shuffle {seed}")
