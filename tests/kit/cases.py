"""Cases of runs that tests make: a team in a folder is run, and its run becomes a case beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import anyio

from teamwright import Engine, Limits, load_team
from teamwright.testing.case_file import LoadedCase, read_case
from teamwright.testing.case_replay import case_of_run, with_prompts, write_case
from teamwright.testing.recorded_case import RecordedReply
from teamwright.values.events.agent import AgentAsked
from teamwright.values.events.event import Event
from teamwright.values.people import Answer
from teamwright.values.specs.manifest import Source
from tests.kit.steering import Act

MOST_PAUSES = 9
GO = "go"
WAITING = f"""\
import anyio
from pathlib import Path

async def wait(task: str) -> str:
    while not Path(__file__).with_name("{GO}").exists():
        await anyio.sleep(0.002)
    return "a is done"
"""
"""The code of a member that waits until the test has done what it does to the run."""


def made_case(
    folder: Path, task: str, limits: Limits | None = None, *, files: Sequence[Path] = (), act: Act | None = None
) -> LoadedCase:
    """Run the team of a folder, answering each question with its first choice, and return the case of the run.

    `act` is done to the run `r` as soon as its first member works; a member of `WAITING` waits for it.
    """
    case, source = anyio.run(_run, folder, task, limits, files, act)
    case.path.parent.mkdir(parents=True, exist_ok=True)
    write_case(with_prompts(case, source))
    return read_case(case.path)


async def _run(
    folder: Path, task: str, limits: Limits | None, files: Sequence[Path], act: Act | None
) -> tuple[LoadedCase, Source]:
    async with Engine("memory") as engine:
        handle = await engine.start(load_team(folder), task, run_id="r", limits=limits, attachments=files)
        if act is not None:
            async for event in engine.runs.follow("r"):
                if isinstance(event, Event) and isinstance(event.fact, AgentAsked) and event.scope:
                    break
            await act(engine)
            (folder / GO).touch()
        result = await handle.result()
        for _ in range(MOST_PAUSES):
            if result.status != "paused":
                break
            for key, question in (await engine.runs.history("r")).questions().items():
                await engine.runs.answer("r", key, Answer(text=(question.choices or ("yes",))[0], by="ada"))
            result = await engine.resume("r", team=load_team(folder))
        history, path = await engine.runs.history("r"), folder / "tests" / "cases" / "one.yaml"
        case, source, _ = await case_of_run(engine.journal, history, await engine.runs.result("r"), path)
        return case, source


def changed_reply(case: LoadedCase, key: str, change: Callable[[RecordedReply], RecordedReply | None]) -> LoadedCase:
    """Return the case with one recorded reply changed, or left out."""
    replies = dict(case.recording.replies)
    if (new := change(replies.pop(key))) is not None:
        replies[new.key] = new
    recording = case.recording
    return replace(
        case,
        recording=type(recording)(
            recording.start, replies, recording.sent, recording.texts, recording.files, recording.turns
        ),
    )
