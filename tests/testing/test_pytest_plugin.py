"""Cases are tests of pytest, and fail with what differs."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.testing import pytest_collect_file
from teamwright.testing.pytest_plugin import CaseDiffers
from tests.kit.cases import made_case
from tests.kit.terminal import TEAM


def test_a_case_is_collected_as_a_test_that_says_what_differs(team: Path, request: pytest.FixtureRequest) -> None:
    path = made_case(team, "Explain B-trees").path
    assert pytest_collect_file(team / "team.yaml", request.session) is None
    collected = pytest_collect_file(path, request.session)
    assert collected is not None
    (item,) = collected.collect()
    assert (item.name, item.reportinfo()[2]) == ("one", "case one")
    item.runtest()
    (team / "team.yaml").write_text(TEAM.replace("Judge.", "Judge kindly."))
    with pytest.raises(CaseDiffers, match=r"\+Judge kindly\.") as caught:
        item.runtest()
    assert item.repr_failure(caught) == str(caught.value)
