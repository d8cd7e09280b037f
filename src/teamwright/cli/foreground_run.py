"""Drives a run from the terminal: shows it until it stops, and reports its result, its end and the next steps."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.terminal.errors import FAILED, INTERRUPTED
from teamwright.cli.terminal.interrupts import LoopWatchdog, Stopper
from teamwright.cli.terminal.line_views import EventLines, View, live_view
from teamwright.cli.terminal.output import ClosedOutput, LostOutput, result_stream, say, write_json, write_result
from teamwright.cli.terminal.result_wording import (
    can_retry,
    draft_text,
    failure_text,
    next_steps,
    output_heading,
    summary,
)
from teamwright.errors import RunNotFound, UsageError
from teamwright.history.event_wording import question_text
from teamwright.values.people import is_confirmation

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.cli.question_prompt import Asker
    from teamwright.history.run_history import RunHistory
    from teamwright.runtime.engine import Engine
    from teamwright.runtime.handle import Handle
    from teamwright.values.events.event import AnyDelta, Event
    from teamwright.values.limits import SpendForecast
    from teamwright.values.people import Question
    from teamwright.values.specs.manifest import Manifest
    from teamwright.values.turns.results import RunResult

LONGEST_DRAFT = 12


@dataclass(frozen=True, slots=True)
class ViewOptions:
    """How the user wants to see a run and its result."""

    json: bool = False
    events: bool = False
    quiet: bool = False
    out: Path | None = None
    no_input: bool = False
    full: bool = False

    def __post_init__(self) -> None:
        if self.json and self.events:
            raise UsageError("--json prints one document and --events prints lines; use one of them.")

    def view(self, engine: Engine) -> View:
        if self.events:
            return EventLines(engine.journal, full=self.full)
        return live_view(engine.journal, quiet=self.quiet, full=self.full)


async def drive(
    engine: Engine,
    handle: Handle,
    shown: ViewOptions,
    past: list[Event] | None = None,
    *,
    view: View | None = None,
) -> RunResult:
    """Show a run until it stops, and return its result. Events in `past` are not shown again."""
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # a banner would break the live view
    view = view or shown.view(engine)
    asker = _asker(engine, handle, view, shown)
    for event in past or ():
        view.catch_up(event)
    after = past[-1].number if past else 0
    stopper = Stopper(handle, view.close, engine.driver.grace)
    try:
        with stopper.listening(), LoopWatchdog(handle, engine.driver.grace, stopper.give_up):
            async with _asking(asker):
                with stopper.following:
                    try:
                        await _show(engine.runs.follow(handle.run_id, after, parts=True), asker or view, stopper)
                    except RunNotFound:
                        await handle.result()  # raises why nothing of it could be recorded
                        raise
                if stopper.stopping and not handle.drives:  # another process drives the run and continues
                    return await engine.runs.result(handle.run_id)
                ended = await handle.result()
                if stopper.lost is not None and ended.status != "interrupted":
                    raise LostOutput(f"{stopper.lost} The run is recorded: teamwright runs show {ended.run_id}")
                return ended
    finally:
        view.close()


async def _show(items: AsyncGenerator[Event | AnyDelta], view: Asker | View, stopper: Stopper) -> None:
    """Show items as they arrive; if the output is closed or lost, stop the run."""
    async for item in items:
        try:
            await view.show(item)
        except ClosedOutput:
            stopper.stop()
        except LostOutput as error:
            if stopper.lost is None:
                say(f"teamwright: {error}")
            stopper.lost = error
            stopper.stop()


@asynccontextmanager
async def _asking(asker: Asker | None) -> AsyncGenerator[None]:
    """Prompt the user for answers within the block."""
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
        await asker.flush()


def _asker(engine: Engine, handle: Handle, view: View, shown: ViewOptions) -> Asker | None:
    """The prompt for the run's questions, or None if the session is not interactive."""
    if shown.no_input or not handle.drives or not _is_interactive():
        return None
    from teamwright.cli.question_prompt import Asker

    handle.set_interactive(True)
    return Asker(engine, handle, view)


def _is_interactive() -> bool:
    """Whether a person can be prompted: stdin and stderr are terminals."""
    if sys.platform == "win32" or sys.stdin.closed:
        return False
    return sys.stdin.isatty() and sys.stderr.isatty()


async def report_end(
    engine: Engine,
    ended: RunResult,
    shown: ViewOptions,
    hint: str | None = None,
    *,
    more: Mapping[str, JsonValue] | None = None,
    is_fork: bool = False,
) -> int:
    """Write the result, print how the run ended and what to do next, and return the exit code.

    `more` are fields that the command adds to the JSON document of the result. The summary of a fork says how many of
    its tokens are new.
    """
    needs_history = is_fork or ended.status in {"paused", "failed"}
    history = await engine.runs.history(ended.run_id) if needs_history else None
    questions = history.questions() if history is not None and ended.status == "paused" else {}
    given = await engine.runs.answers(ended.run_id) if questions else {}
    questions = {key: question for key, question in questions.items() if key not in given}
    waits = any(is_confirmation(question) for question in questions.values())
    forecast = history.started.confirm if history is not None and waits else None
    code = _deliver(ended, questions, shown, forecast, more or {})
    if ended.status == "interrupted":
        say(f"interrupted — resume with: teamwright runs resume {ended.run_id}")
        return code
    if ended.status == "running":  # another process drives it, and this one stops following it
        say(
            f"run {ended.run_id} continues in another process — follow it with:"
            f" teamwright runs show {ended.run_id} --follow"
        )
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
        inherited = history.inherited_tokens() if history is not None else 0
        say(summary(ended, free=await is_free(engine, ended, history), inherited=inherited))
    if ended.status == "failed" and ended.stop_reason != "max_turns":
        say(f"see what happened: teamwright runs show {ended.run_id}")
    if ended.status != "completed":
        for step in next_steps(ended, questions, retries=history is not None and can_retry(history)):
            say(step)
    if hint and not shown.quiet:
        say(hint)
    if not shown.quiet and ended.run_id and (changes := await _changes_text(engine, ended.run_id)):
        say(changes)
    return code


async def _changes_text(engine: Engine, run_id: str) -> str:
    """Return what a run has changed in the files of its workspace, and the commands that show and take it over."""
    from teamwright.journal.location import data_folder
    from teamwright.values.text.display import count_text

    if not (data_folder() / "workspaces" / run_id).is_dir():  # most runs have none, which costs nothing
        return ""
    from teamwright.runtime.recorded.reader import read_record
    from teamwright.runtime.working_trees.member_trees import branch_of

    record = await read_record(engine.journal, run_id)
    chain = branch_of(record).chain() if record.start.commit else []
    if not chain:
        return ""
    files = count_text(len({path for one in chain for path in one.files}), "file")
    return (
        f"{count_text(len(chain), 'commit')} changed {files} — see them: teamwright runs diff {run_id}"
        f" — take them over: teamwright runs apply {run_id}"
    )


def _deliver(
    ended: RunResult,
    questions: dict[str, Question],
    shown: ViewOptions,
    forecast: SpendForecast | None,
    more: Mapping[str, JsonValue],
) -> int:
    """Write the result and return the run's exit code, or FAILED if the result could not be written."""
    try:
        _write_result(ended, questions, shown, forecast, more)
    except ClosedOutput:
        pass
    except LostOutput as error:
        say(f"teamwright: {error} The run is recorded: teamwright runs show {ended.run_id}")
        return FAILED
    return ended.exit_code


def _write_result(
    ended: RunResult,
    questions: dict[str, Question],
    shown: ViewOptions,
    forecast: SpendForecast | None,
    more: Mapping[str, JsonValue],
) -> None:
    if shown.json:
        document = {**ended.to_json(), **more}
        if questions:
            document["questions"] = {key: one.to_json() for key, one in questions.items()}
        if forecast is not None:
            document["forecast"] = forecast.to_json()
        write_json(document, shown.out)
    elif ended.output and ended.status != "failed" and (shown.out is not None or not shown.events):
        if shown.out is None and not shown.quiet and result_stream().isatty() and sys.stderr.isatty():
            say(f"{output_heading(ended)}\n")
        write_result(ended.output, shown.out)


async def is_free(engine: Engine, ended: RunResult, history: RunHistory | None = None) -> bool:
    """Whether a run has no price because nothing that it used costs money."""
    if ended.usage.usd is not None:
        return False
    return not ended.usage.requests or (history or await engine.runs.history(ended.run_id)).is_free_of_charge


def local_hint(manifest: Manifest, command: str) -> str | None:
    """How to use a real provider, if the embedded model has answered; else None."""
    from teamwright.values.specs.models import model_key

    models = manifest.models
    written = [spec.model for spec in manifest.agents.values()]
    used = [models.get(model, model) if isinstance(model, str) else model for model in written]
    if not any(model is not None and model_key(model) == "local" for model in used):
        return None
    return (
        "\nThis was the small embedded model. To use a provider:\n"
        f"  export OPENAI_API_KEY=…\n  {command} --model openai:gpt-5-mini"
    )
