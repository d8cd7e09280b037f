"""`teamwright cluster queue` refuses what it can't do."""

from __future__ import annotations

import pytest

from teamwright.cli.main import main


@pytest.mark.parametrize("arguments", [["--at-once", "2"], ["night", "--remove", "--at-once", "2"]])
def test_limits_need_one_queue_and_one_meaning(arguments: list[str]) -> None:
    assert main(["cluster", "queue", *arguments]) == 2
