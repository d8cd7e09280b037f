"""A sample of what the official client makes of our streams; `make conformance` and `make test-long` run all of it."""

from __future__ import annotations

import pytest

from tools.conformance import Unavailable, surprises
from tools.conformance_agui import EXPECTED, install, judge, live_examples, recorded_stream


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", ["star_team", "expert", "after an answer was sent"])
def test_the_official_client_takes_a_sample_of_our_streams(name: str) -> None:
    try:
        install()
    except Unavailable as error:
        pytest.skip(str(error))
    examples = [one for one in live_examples() if one["team"] == name]
    recorded = [{"name": name, "text": recorded_stream(name)}] if name == "expert" else []
    rows = list(judge(name, examples, recorded))
    assert [row.scenario for row in rows] == [name]
    assert surprises(rows, EXPECTED) == []
