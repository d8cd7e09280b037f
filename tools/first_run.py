"""The first run that a newcomer sees: a team that checks its model is killed in the middle, and finishes all the same.

`make run` starts it. It calls `teamwright run`, kills that process, calls `teamwright runs resume`, and reads from the
journal what each process asked for. It must not depend on what the model answers.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shlex
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from teamwright import Engine, Event
from teamwright.cli.terminal.command_setup import new_engine
from teamwright.errors import TeamwrightError
from teamwright.events import AgentCalled, AgentCallFailed, AgentReturned, RunResumed
from teamwright.values.text.display import number_text, price_text
from teamwright.values.usage_and_prices import Usage

ROOT = Path(__file__).resolve().parent.parent
FOLDER = Path("examples") / "first_team"
RUN = ("run", str(FOLDER), "--file", str(FOLDER / "task.txt"))
ANSWERS = 2
"""The process is killed when so many answers of the model are recorded and the next one is being written."""
TRIES = (0.25, 0.0, 0.0)
"""For each start, the seconds in which the process may print what it has recorded, before it is killed. The team is
started again if it is done earlier."""
POLL_SECONDS = 0.05
STOP_SECONDS = 15.0
SHOW_CURSOR = "\x1b[?25h\n"
"""A killed process leaves the cursor hidden, at the end of its last line."""
WITH_ANSWER = (0, 3)
"""Exit codes of a run that has an answer: completed, and completed with warnings."""


@dataclass(slots=True)
class Record:
    """What the journal says about the model calls of a run, before and after it was resumed."""

    before: set[str] = field(default_factory=set[str])
    """Keys of the calls whose answer the first process recorded."""
    after: set[str] = field(default_factory=set[str])
    """Keys of the calls whose answer the second process recorded."""
    open: set[str] = field(default_factory=set[str])
    """Keys of the calls without an answer."""
    lost: int = 0
    """Calls that were in flight when the run was resumed."""
    repeated: int = 0
    """Calls that were made again although their answer was recorded. Must be 0."""
    last: int = 0
    resumed: bool = False

    def add(self, event: Event) -> None:
        """Take the next event into account."""
        self.last = event.number
        match event.fact:
            case AgentCalled(effect="model"):
                self.repeated += event.key in self.before | self.after
                self.open.add(event.key)
            case AgentReturned() if event.key in self.open:
                self.open.discard(event.key)
                (self.after if self.resumed else self.before).add(event.key)
            case AgentCallFailed():
                self.open.discard(event.key)
            case RunResumed():
                self.resumed, self.lost = True, len(self.open)
            case _:
                pass

    @property
    def is_in_the_middle(self) -> bool:
        """Whether some answers are recorded and another one is being written."""
        return len(self.before) >= ANSWERS and bool(self.open)


def main() -> int:
    """Run, kill, resume and explain; return the exit code of the run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", help="use this model instead of the embedded one, as in  teamwright run --model")
    model = parser.parse_args().model
    os.chdir(ROOT)
    return asyncio.run(_interruptible(model))


async def _interruptible(model: str | None) -> int:
    """Let Ctrl-C and other requests to end cancel the work, which ends the process that it started."""
    work = asyncio.ensure_future(first_run(model))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, work.cancel)
    try:
        return await work
    except asyncio.CancelledError:
        return 128 + signal.SIGINT


async def first_run(model: str | None = None) -> int:
    """Show a run that is killed and resumed, and return its exit code."""
    which = f"the model {model}" if model else "a tiny model on this machine"
    _say(f"A team reads the mail of a hotel with {which}, and checks each answer.")
    _say("In the middle, its process is killed.")
    name, code = f"first-{datetime.now(UTC):%Y%m%d-%H%M%S}", 0
    options = ("--model", model) if model else ()
    async with new_engine() as engine:
        for number, grace in enumerate(TRIES, start=1):
            run_id = name if number == 1 else f"{name}-{number}"
            code, record = await _run_and_kill(engine, run_id, options, grace)
            if record is not None:
                return await _resume(engine, run_id, record)
            if code not in WITH_ANSWER:
                return code
            _say("\nThe team was done before its process could be killed.")
    return code


async def _run_and_kill(
    engine: Engine, run_id: str, options: tuple[str, ...], grace: float
) -> tuple[int, Record | None]:
    """Run the team and kill its process in the middle; return its exit code, and a record if it was killed."""
    record = Record()
    async with _teamwright(*RUN, *options, "--run-id", run_id) as process:
        while process.returncode is None and not record.is_in_the_middle:
            await _wait(process, POLL_SECONDS)
            await _read(engine, run_id, record)
            if record.is_in_the_middle and grace:
                await _wait(process, grace)
                await _read(engine, run_id, record)
        if process.returncode is None:
            process.kill()
    code = process.returncode or 0
    if code != -signal.SIGKILL:
        return code, None
    await _read(engine, run_id, record)
    if sys.stderr.isatty():
        sys.stderr.write(SHOW_CURSOR)
    writing = ", the next one is being written" if record.open else ""
    _say(f"\n$ kill -9 {process.pid}    # {_count(record.before)} recorded{writing}")
    return code, record


async def _resume(engine: Engine, run_id: str, record: Record) -> int:
    """Resume the run in a new process, and say what happened."""
    async with _teamwright("runs", "resume", run_id) as process:
        pass
    if process.returncode not in WITH_ANSWER:
        return process.returncode or 0
    await _read(engine, run_id, record)
    used = (await engine.runs.result(run_id)).usage
    _say(_explanation(record, used))
    _say(f"""
What next
  look at this run    {_command("runs", "show", run_id)}
  read the team       {FOLDER / "team.yaml"} and {FOLDER / "hotel.py"}
  open the page       make run-page
  use a provider      export OPENAI_API_KEY=…
                      {_command(*RUN, "--model", "openai:gpt-5-mini")}""")
    return 1 if record.repeated else 0


def _explanation(record: Record, used: Usage) -> str:
    """What happened, from the record alone."""
    in_flight = ", one of which was in flight at the kill" if record.lost else ""
    answers = _count(record.before | record.after)
    return f"""
What happened
  checked    Every value was looked up in its letter: what the model makes up can't get into the list.
  killed     {_count(record.before)} of the model had been recorded when kill -9 ended the first process.
  resumed    A second process asked for the {len(record.after)} that were missing{in_flight},
             and asked again for {record.repeated or "none"} of the {len(record.before)} recorded ones.
  in all     {answers}, each recorded once: {number_text(used.total_tokens)} tokens, {price_text(used.usd)}."""


@asynccontextmanager
async def _teamwright(*arguments: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    """Start a command of Teamwright, which writes to our terminal. It has ended after the block, whatever happened."""
    _say(f"\n$ {_command(*arguments)}")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "teamwright", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches this process alone, which then ends the other one
    )
    try:
        yield process
        await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            try:
                await asyncio.wait_for(process.wait(), STOP_SECONDS)
            except TimeoutError:
                process.kill()
                await process.wait()


async def _wait(process: asyncio.subprocess.Process, seconds: float) -> None:
    """Wait so long, or until the process has ended."""
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), seconds)


async def _read(engine: Engine, run_id: str, record: Record) -> None:
    """Bring the record up to date."""
    for event in await engine.journal.read(run_id, record.last):
        record.add(event)


def _command(*arguments: str) -> str:
    """A command as the user would type it in the folder of the project."""
    program = Path(sys.executable).parent / "teamwright"
    shown = program.relative_to(ROOT) if program.is_relative_to(ROOT) else program
    return shlex.join([str(shown), *arguments])


def _count(answers: set[str]) -> str:
    return "1 answer" if len(answers) == 1 else f"{len(answers)} answers"


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except TeamwrightError as error:
        sys.exit(str(error))
