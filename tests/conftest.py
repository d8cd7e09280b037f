"""What holds for each test: asyncio as the event loop, a data folder of its own, no keys, no task left behind."""

import asyncio
import inspect
import os
import signal
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from teamwright.strategies import registry

# A red build has to be red again on the next machine, so only the thorough profile draws at random.
settings.register_profile("ci", deadline=None, max_examples=50, derandomize=True, print_blob=True)
settings.register_profile("thorough", deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As of a background job in a script. Processes that tests start would inherit it, and Ctrl-C is part of the tests.
    signal.signal(signal.SIGINT, signal.default_int_handler)

SECRET_ENDINGS = ("_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a data folder of its own and take away what the user's shell brings."""
    for name in os.environ:
        if name.startswith("TEAMWRIGHT_") or name.endswith(SECRET_ENDINGS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("TEAMWRIGHT_HOME", str(tmp_path / "teamwright-home"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")


@pytest.fixture
async def tasks_end() -> AsyncIterator[None]:
    """Fail a test that leaves a task running in its event loop."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    # The test runner drives this fixture itself with a task, which is no business of the test.
    left = [task for task in asyncio.all_tasks() - before if "TestRunner" not in repr(task.get_coro())]
    assert not left, f"the test left tasks behind: {left}"


@pytest.fixture(autouse=True)
def no_task_left_behind(request: pytest.FixtureRequest) -> None:
    function = request.function
    written = function.hypothesis.inner_test if hasattr(function, "hypothesis") else function
    if inspect.iscoroutinefunction(written):
        request.getfixturevalue("tasks_end")


@pytest.fixture
def third_parties(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Other packages have registered a strategy with options, one that takes anything, and one that is broken."""
    points = [
        EntryPoint("relay-race", "tests.strategies.third_party:Relay", registry.GROUP),
        EntryPoint("anything", "tests.strategies.third_party:Anything", registry.GROUP),
        EntryPoint("broken", "tests.nowhere:Gone", registry.GROUP),
    ]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [one for one in points if one.group == group])
    registry._third_party.cache_clear()
    yield
    registry._third_party.cache_clear()
