"""Fixtures of every test: asyncio as the event loop, a separate data folder, no API keys, no task left behind."""

import asyncio
import functools
import gc
import inspect
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from tests.absent_wings import ABSENT, needs_absent
from tests.kit.entry_points import registered_strategies
from tests.profiles import THOROUGH, WHOLE, profile
from tools import chromium

# A failure in CI must be reproducible, so only the thorough profile draws at random.
for name, number in (("ci", 20), (WHOLE, 35)):
    settings.register_profile(name, deadline=None, max_examples=number, derandomize=True, print_blob=True)
settings.register_profile(THOROUGH, deadline=None, max_examples=2000, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(profile())

# Nor may it depend on the modules that a worker has imported: Hypothesis would read constants to draw out of each.
assert hasattr(providers, "_get_local_constants")
providers._get_local_constants = lambda: providers._local_constants

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A background job of a script ignores SIGINT; child processes would inherit that, and tests send Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)

NUMBERS = count(1)
LEFT_FOR_TEARDOWN = 5.0
"""Seconds of a test's timeout that are left to its fixtures, once the test itself was ended."""
SECRET_ENDINGS = ("_API_KEY", "_ACCESS_KEY", "_TOKEN", "_SECRET")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order, that of this seed")


def pytest_report_header(config: pytest.Config) -> str | None:
    seed = config.getoption("shuffle")
    return None if seed is None else f"in a random order: --shuffle {seed}"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out files that need a wing whose folder was removed."""
    return True if needs_absent(collection_path) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out tests with the marker of a wing that is not there, and shuffle the tests if that is asked for.

    The worker processes of one run have the same order.
    """
    if left_out := [item for item in items if any(item.get_closest_marker(wing) for wing in ABSENT)]:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if (seed := config.getoption("shuffle")) is not None:
        Random(seed).shuffle(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep the garbage collector away from the thousands of tests, while they are collected and later.

    After that it looks for garbage a tenth as often as by default, which took every twentieth second of the suite.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10 * gc.get_threshold()[0], *gc.get_threshold()[1:])
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """End an async test that takes too long from within its event loop, so that its fixtures can end too.

    The plugin's own timeout interrupts the loop, not the test, and its teardown would wait for the test for ever.
    """
    marker = pyfuncitem.get_closest_marker("timeout")
    seconds = float(marker.args[0] if marker else pyfuncitem.config.getini("timeout")) - LEFT_FOR_TEARDOWN
    if seconds <= 0:
        return
    if inspect.iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = bounded(pyfuncitem.obj, seconds)
    elif (drawn := getattr(pyfuncitem.obj, "hypothesis", None)) and inspect.iscoroutinefunction(drawn.inner_test):
        drawn.inner_test = bounded(drawn.inner_test, seconds)


def bounded(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def run(*args: object, **kwargs: object) -> None:
        bound = asyncio.timeout(seconds)
        try:
            async with bound:
                await test(*args, **kwargs)
        except TimeoutError as error:
            if not bound.expired():
                raise
            raise AssertionError(f"the test took longer than {seconds:g} s; above is where it waited") from error

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end that the tests of the page did not run, and what they need."""
    skipped = sum("browser" in report.keywords for report in terminalreporter.getreports("skipped"))
    if skipped:
        terminalreporter.write_line(f"{skipped} tests of the page were skipped: {chromium.MISSING}", yellow=True)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def isolated_environment(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Set a separate data folder, and remove settings and secrets of the user's shell.

    Most tests write nothing, so their folder is made by what writes to it first.
    """
    for name in os.environ:
        if name.startswith("TEAMWRIGHT_") or name.endswith(SECRET_ENDINGS):
            monkeypatch.delenv(name)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
    if "tmp_path" in request.fixturenames:
        monkeypatch.setenv("TEAMWRIGHT_HOME", str(request.getfixturevalue("tmp_path") / "teamwright-home"))
        yield
    else:
        home = tmp_path_factory.getbasetemp() / f"teamwright-home-{next(NUMBERS)}"
        monkeypatch.setenv("TEAMWRIGHT_HOME", str(home))
        yield
        if home.exists():
            shutil.rmtree(home)


@pytest.fixture
async def tasks_end() -> AsyncIterator[None]:
    """Fail a test that leaves a task running in its event loop."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    # The test runner drives this fixture with a task of its own.
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
    """Other packages register a strategy with options, one that accepts any options, and one that is broken."""
    relay, anything = "tests.strategies.third_party:Relay", "tests.strategies.third_party:Anything"
    with registered_strategies(monkeypatch, relay_race=relay, anything=anything, broken="tests.nowhere:Gone"):
        yield
