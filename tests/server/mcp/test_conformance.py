"""A sample of the protocol's own suite; `make conformance` and `make test-long` run all of it."""

from __future__ import annotations

import sys

import pytest

from tools.conformance import Unavailable, surprises
from tools.conformance_mcp import (
    APPLICATION,
    CLIENT,
    EXPECTED,
    OWN_CLIENT,
    SERVER,
    install,
    judge_scenarios,
    serving,
)

SAMPLE = ("tools-call-with-progress", "tasks-mrtr-input")


@pytest.fixture(scope="module")
def _suite() -> None:
    try:
        install()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("_suite")
@pytest.mark.timeout(300)
def test_our_server_passes_a_sample_of_the_suite() -> None:
    with serving(APPLICATION) as url:
        rows = list(judge_scenarios(SERVER, "server", SAMPLE, "", "--url", url))
    assert [row.scenario for row in rows] == list(SAMPLE)
    assert surprises(rows, EXPECTED) == []


@pytest.mark.usefixtures("_suite")
@pytest.mark.timeout(300)
def test_our_client_asks_a_person_what_a_server_asks_and_sends_its_state_back() -> None:
    command = f"{sys.executable} -m {CLIENT}"
    rows = list(judge_scenarios(OWN_CLIENT, "client", ["sep-2322-client-request-state"], "", "--command", command))
    assert surprises(rows, EXPECTED) == []
