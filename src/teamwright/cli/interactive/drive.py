"""Drives a run from the terminal: shows it, stops it on Ctrl-C so that it can be resumed, and tells how it ended."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from teamwright.cli.interactive.loop_watchdog import MARGIN, LoopWatchdog
from teamwright.cli.terminal.errors import FAILED, INTERRUPTED
from teamwright.cli.terminal.output import ClosedOutput, LostOutput, result, result_json, results, say
from teamwright.cli.text.events import (
    answer_word,
    can_retry,
    draft_text,
    failure_text,
    next_steps,
    price_text,
    question_text,
    seconds_text,
    status_text,
    usage_text,
)
from teamwright.cli.views.view import EventLines, View, live_view
from teamwright.errors import UsageError

if TYPE_CHECKING:
    from teamwright.cli.interactive.prompt import Asker
    from teamwright.history.history import RunHistory
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.handle import Handle
    from teamwright.values.events.event import Delta, Event
    from teamwright.values.people.questions import Question
    from teamwright.values.results import RunResult
    from teamwright.values.specs.manifest import Manifest

LONGEST_DRAFT = 12
STOPPERS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class Shown:
    """How the user wants to see a run."""

    json: bool = False
    events: bool = False
    quiet: bool = False
    out: Path | None = None
    no_input: bool = False

    def __post_init__(self) -> None:
        if self.json and self.events:
            raise UsageError("--json prints one document and --events prints lines; choose one of them.")

    def view(self, engine: Engine) -> View:
        """The view of the run while it goes on."""
        return EventLines() if self.events else live_view(engine.journal, quiet=self.quiet)


async def drive(engine: Engine, handle: Handle, shown: Shown, past: list[Event] | None = None) -> RunResult:
    """Follow a run to where it stops. Events in `past` are known and not shown again."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # the terminal is the view's
    view = shown.view(engine)
    asker = _asker(engine, handle, view, shown)
    for event in past or ():
        view.past(event)
    after = past[-1].number if past else 0
    stopper = Stopper(handle, view, engine.grace)
    try:
        with stopper.listening(), LoopWatchdog(handle, engine.grace, stopper.give_up):
            async with _asking(asker):
                with stopper.following:
                    await _show(engine.runs.follow(handle.run_id, after), asker or view, stopper)
                if stopper.asked and not handle.drives:  # somebody else does, and goes on
                    return await engine.runs.result(handle.run_id)
                ended = await handle.result()
                if stopper.lost is not None and ended.status != "interrupted":
                    raise LostOutput(f"{stopper.lost} The run is kept: teamwright runs show {ended.run_id}")
                return ended
    finally:
        view.close()


async def _show(items: AsyncGenerator[Event | Delta], view: Asker | View, stopper: Stopper) -> None:
    """Show a run as it goes on; when nobody can see it any more, stop."""
    async for item in items:
        try:
            await view.take(item)
        except ClosedOutput:
            stopper.stop()
        except LostOutput as error:
            if stopper.lost is None:
                say(f"teamwright: {error}")
            stopper.lost = error
            stopper.stop()


@asynccontextmanager
async def _asking(asker: Asker | None) -> AsyncGenerator[None]:
    """Somebody answers what the run asks for the time of the block."""
    if asker is None:
        yield
        return
    task = asyncio.get_running_loop().create_task(asker.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await asker.show()


def _asker(engine: Engine, handle: Handle, view: View, shown: Shown) -> Asker | None:
    """Whoever sits at the terminal, if somebody does and wants to be asked."""
    if shown.no_input or not handle.drives or not _somebody_is_there():
        return None
    from teamwright.cli.interactive.prompt import Asker

    handle.set_interactive(True)
    return Asker(engine, handle, view)


def _somebody_is_there() -> bool:
    """Whether a person can be asked: they see what we print, and we see what they type."""
    if sys.platform == "win32" or sys.stdin.closed:
        return False
    return sys.stdin.isatty() and sys.stderr.isatty()


@dataclass(slots=True)
class Stopper:
    """The first Ctrl-C (or SIGTERM) interrupts the run and lets it finish cleanly; the second ends the process.

    A member that blocks the event loop keeps the run from stopping: then the process ends when the grace time is over.
    What is recorded is durable at any instant, so the run can be resumed in each case.
    """

    handle: Handle
    view: View
    grace: float
    asked: bool = False
    lost: LostOutput | None = None
    """Why the events of the run could not be written."""
    following: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _watchdog: threading.Timer | None = None

    @contextmanager
    def listening(self) -> Generator[None]:
        """Handle the signals for the time of the block; one that is ignored stays so, as whoever started us wants."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.getsignal(number) for number in STOPPERS}
        handled = [number for number in STOPPERS if before[number] is not signal.SIG_IGN]
        if signal.SIGINT not in handled:
            say(f"SIGINT is ignored in this process; to stop the run: teamwright runs pause {self.handle.run_id}")
        stop = partial(self._signalled, asyncio.get_running_loop())
        for number in handled:
            signal.signal(number, stop)
        try:
            yield
        finally:
            for number in handled:
                signal.signal(number, before[number])
            if self._watchdog is not None:
                self._watchdog.cancel()

    def stop(self) -> None:
        """Stop driving the run, or stop watching it where somebody else drives it."""
        self.asked = True
        self.handle.interrupt()
        if not self.handle.drives:
            self.following.cancel()

    def _signalled(self, loop: asyncio.AbstractEventLoop, number: int, frame: object) -> None:
        """Runs between two instructions of the main thread, also where a member blocks the event loop."""
        if self.asked:
            self._exit()
        self.asked = True
        loop.call_soon_threadsafe(self.stop)
        self._watchdog = threading.Timer(self.grace + MARGIN, self.give_up)
        self._watchdog.daemon = True
        self._watchdog.start()

    def give_up(self) -> None:
        """End the process, although the run has not stopped; from a thread of its own."""
        run_id = self.handle.run_id
        say(f"a member did not stop and was abandoned — resume with: teamwright runs resume {run_id}")
        self._exit()

    def _exit(self) -> None:
        with suppress(Exception):
            self.view.close()
        os._exit(INTERRUPTED)


async def tell(engine: Engine, ended: RunResult, shown: Shown, hint: str | None = None) -> int:
    """Hand over the result and say how the run ended; returns the exit code."""
    history = await engine.runs.history(ended.run_id) if ended.status in {"paused", "failed"} else None
    questions = history.questions() if history is not None and ended.status == "paused" else {}
    given = await engine.runs.answers(ended.run_id) if questions else {}
    questions = {key: question for key, question in questions.items() if key not in given}
    code = _handed_over(ended, questions, shown)
    if ended.status == "interrupted":
        say(f"interrupted — resume with: teamwright runs resume {ended.run_id}")
        return code
    if ended.status == "running":  # another process drives it, and this one was told to stop watching
        say(f"run {ended.run_id} goes on in another process — watch it with: teamwright runs tail {ended.run_id}")
        return INTERRUPTED
    for warning in ended.warnings if ended.failure is None else ():
        say(f"warning: {warning}")
    for question in questions.values():
        say(f"question: {question_text(question)}")
        if question.draft:
            say(draft_text(question, LONGEST_DRAFT, f"teamwright runs answer {ended.run_id}"))
    if ended.failure is not None:
        say(failure_text(ended.failure))
    if not shown.quiet:
        say(summary(ended, free=await is_free(engine, ended, history)))
    if ended.status == "failed" and ended.stop_reason != "max_turns":
        say(f"look closer with: teamwright runs show {ended.run_id}")
    if ended.status != "completed":
        for step in next_steps(ended, questions, retries=history is not None and can_retry(history)):
            say(step)
    if hint and not shown.quiet:
        say(hint)
    return code


def _handed_over(ended: RunResult, questions: dict[str, Question], shown: Shown) -> int:
    """Hand over the result; returns the exit code, which is that of the run only if the result could be written."""
    try:
        _hand_over(ended, questions, shown)
    except ClosedOutput:
        pass
    except LostOutput as error:
        say(f"teamwright: {error} The run is kept: teamwright runs show {ended.run_id}")
        return FAILED
    return ended.exit_code


def _hand_over(ended: RunResult, questions: dict[str, Question], shown: Shown) -> None:
    if shown.json:
        told = ended.to_json()
        if questions:
            told["questions"] = {key: one.to_json() for key, one in questions.items()}
        result_json(told, shown.out)
    elif ended.output and (shown.out is not None or not shown.events):
        if shown.out is None and not shown.quiet and results().isatty() and sys.stderr.isatty():
            say(f"{answer_word(ended)}\n")
        result(ended.output, shown.out)


async def is_free(engine: Engine, ended: RunResult, history: RunHistory | None = None) -> bool:
    """Whether a run without a price has cost nothing: then nobody misses the price."""
    if ended.usage.usd is not None:
        return False
    return not ended.usage.requests or (history or await engine.runs.history(ended.run_id)).is_free_of_charge


def summary(ended: RunResult, *, free: bool) -> str:
    """One line: how it ended, what it used, how long it took, which run it was."""
    price = price_text(ended.usage.usd, free=free)
    parts = (status_text(ended), usage_text(ended.usage), price, seconds_text(ended.seconds), f"run {ended.run_id}")
    return " · ".join(filter(None, parts))


def local_hint(manifest: Manifest, command: str) -> str | None:
    """How to use a real provider, where the tiny embedded model has answered."""
    from teamwright.values.specs.manifest import model_key

    models = manifest.models
    written = [spec.model for spec in manifest.agents.values()]
    used = [models.get(model, model) if isinstance(model, str) else model for model in written]
    if not any(model is not None and model_key(model) == "local" for model in used):
        return None
    return (
        "\nThis was the tiny embedded model. For a real one:\n"
        f"  export OPENAI_API_KEY=…\n  {command} --model openai:gpt-5-mini"
    )
