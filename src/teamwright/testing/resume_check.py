"""Whether recorded runs would resume with the code, libraries and manifests of today, without calling anything.

A run is replayed in memory as a resume would, up to where it goes on, and one that has ended up to its end; its journal
is only read. Then it is replayed from its start with its recorded replies: so the turns are found that would be sent
another prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio
import anyio.lowlevel

from teamwright.agents.clients.client_pool import Models
from teamwright.errors import NonDeterminism, NotResumable, TeamwrightError
from teamwright.history.run_history import RunHistory
from teamwright.history.run_record import check_record
from teamwright.journal.protocol import Journal
from teamwright.runtime.recorded.held_replay import HoldingObserver, end_of_record, held_replay, record_of, replay_of
from teamwright.runtime.recorded.reader import TeamSource, read_events, read_source
from teamwright.teams.manifests.environment_variables import lenient_environment
from teamwright.testing.case_file import CaseFinding, LoadedCase, RunCase, text_difference
from teamwright.testing.case_player import NOTHING_LIVE
from teamwright.testing.case_replay import CaseReplay, run_now
from teamwright.testing.recorded_case import Recording, SentPrompt
from teamwright.testing.recorded_replies import Cleaner, recording_of
from teamwright.values.events.agent import AgentFailed, AgentReplied
from teamwright.values.events.event import Event
from teamwright.values.events.run import RunEnded
from teamwright.values.run_keys import parent_key
from teamwright.values.specs.manifest import Source
from teamwright.values.value import JsonValue, Record

if TYPE_CHECKING:
    from teamwright.teams.team import Team

SECONDS = 20.0
"""How long the replay of one run may take."""
SETTLE = 50
"""Iterations of the event loop after which branches have come as far as they can."""
Verdict = Literal["same", "other_prompt", "would_not_resume", "unreadable", "not_checked"]
WORDS: dict[Verdict, str] = {
    "same": "resumes as before",
    "other_prompt": "resumes, with another prompt for these turns",
    "would_not_resume": "would not resume",
    "unreadable": "can't be read",
    "not_checked": "is not checked",
}


class ResumeCheck(Record, frozen=True):
    """What became of one recorded run; `why` has both sides where it would not resume.

    A run is not checked if no record can build its team, because a program made it: that program has to resume it.
    """

    run_id: str
    verdict: Verdict
    why: str = ""
    turns: tuple[CaseFinding, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether the run resumes."""
        return self.verdict in ("same", "other_prompt")

    def to_json(self) -> dict[str, JsonValue]:
        """All fields as JSON data."""
        found = {"run_id": self.run_id, "verdict": self.verdict, "why": self.why}
        return {**found, "turns": [one.to_json() for one in self.turns]}


async def check_resume(
    journal: Journal, run_id: str, source: Source | None = None, *, prompts: bool = True
) -> ResumeCheck:
    """Check one run: with its recorded manifest, as a resume has it, or with the team of another `source`.

    Without `prompts`, only whether it would resume.
    """
    try:
        events = await read_events(journal, run_id)
        check_record(events)
        history = await RunHistory.load(journal, events)
        recorded = await read_source(journal, history.record)
    except (TeamwrightError, ValueError) as error:
        return ResumeCheck(run_id=run_id, verdict="unreadable", why=str(error))
    given = recorded if source is None else recorded.changed(lambda _: source)
    try:
        team = await anyio.to_thread.run_sync(partial(_built, given))
    except NotResumable as error:
        return ResumeCheck(run_id=run_id, verdict="not_checked", why=str(error))
    except TeamwrightError as error:
        return ResumeCheck(run_id=run_id, verdict="would_not_resume", why=str(error))
    try:
        why = await _replayed(journal, history, team)
    except TeamwrightError as error:
        why = str(error)
    if why:
        return ResumeCheck(run_id=run_id, verdict="would_not_resume", why=why)
    turns = await _other_prompts(journal, history, recorded.source, source) if prompts else ()
    return ResumeCheck(run_id=run_id, verdict="other_prompt" if turns else "same", turns=turns)


def _built(source: TeamSource) -> Team:
    environment = lenient_environment(source.source.manifest)
    return source.build(Models(), recorded=True, environment=environment)


async def _replayed(journal: Journal, history: RunHistory, team: Team) -> str:
    """Replay a run as a resume would, but for its end, and return why that fails; empty if it does not."""
    run = replay_of(await record_of(journal, _open_events(history.events)), team)
    observer = _HoldNewTurns()
    async with held_replay(run, observer) as driving:
        try:
            with anyio.fail_after(SECONDS):
                await end_of_record(run, observer, driving)
                for _ in range(SETTLE):
                    await anyio.lowlevel.checkpoint()
        except TimeoutError:
            return f"its replay took more than {SECONDS:g} seconds"
    error = run.control.state.error
    if isinstance(error, NonDeterminism):
        return f"the record has {error.recorded}, and the team now {error.replayed}"
    return "" if error is None else str(error)


def _open_events(events: Sequence[Event]) -> Sequence[Event]:
    """Return the events before the end of the outermost team, whose ending would stand for all that it did."""
    for index, event in enumerate(events):
        if isinstance(event.fact, AgentReplied | AgentFailed | RunEnded) and not parent_key(event.key):
            return events[:index]
    return events


class _HoldNewTurns(HoldingObserver):
    """Lets a run come as far as its record goes."""

    async def begin(self, key: str) -> None:
        """Hold a turn that is not recorded: from here on the run goes on."""
        await self.hold()


async def _other_prompts(
    journal: Journal, history: RunHistory, recorded: Source, source: Source | None
) -> tuple[CaseFinding, ...]:
    """Return the calls that would be sent something else; with both texts where another manifest is the reason."""
    recording, answers = await recording_of(journal, history, Cleaner((), recorded.base))
    given: dict[str, JsonValue] = {"manifest": ".", "task": history.task}
    if answers:
        given["answers"] = {key: one.model_dump(exclude_unset=True) for key, one in answers.items()}
    case = LoadedCase(Path(history.events[0].run_id), RunCase.model_validate(given), recording)

    async def sent(by: Source) -> dict[str, SentPrompt]:
        replay = partial(run_now, CaseReplay(case, by).run, NOTHING_LIVE)
        return (await anyio.to_thread.run_sync(replay)).sent

    now = await sent(source or recorded)
    before = await sent(recorded) if source is not None else {}
    return tuple(_changes(recording, before, now))


def _changes(
    recording: Recording, before: Mapping[str, SentPrompt], now: Mapping[str, SentPrompt]
) -> Iterator[CaseFinding]:
    """Yield the calls that are sent something else; texts are known only of what another manifest changes."""
    for key, prompt in now.items():
        reply, then = recording.replies.get(key), before.get(key)
        if reply is None or (then == prompt if then is not None else reply.request in ("", prompt.request)):
            continue
        text = f"the call of {reply.member!r} is sent something else"
        difference = () if then is None else text_difference("\n".join(then.texts), "\n".join(prompt.texts))
        yield CaseFinding(key, text, difference)
