"""`teamwright runs export`: a run as a document, a page, a trace or a case, or runs in another journal.

The ending of the file, or the scheme of the URL, says which.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import extend_sys_path, find_run, with_journal, with_run
from teamwright.cli.terminal.options import complete_runs
from teamwright.cli.terminal.output import Json, check_out, one_line, say, write_file, write_json, write_result
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text, size_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.telemetry.otlp import Receiver
    from teamwright.history.telemetry.spans import Span
    from teamwright.journal.copy import CopiedRun
    from teamwright.journal.protocol import Journal
    from teamwright.runtime.engine import Engine
    from teamwright.testing.case_file import LoadedCase
    from teamwright.values.events.agent import Body
    from teamwright.values.events.event import Event
    from teamwright.values.turns.results import RunSummary

FORMAT = "teamwright.run/1"
PAGE_ENDINGS = (".html", ".htm")
CASE_ENDINGS = (".yaml", ".yml")
TRACE_ENDINGS = (".otlp",)
JOURNAL_ENDINGS = (".db", ".sqlite")
RECEIVERS = ("http://", "https://")
BATCH = 512
WAITS = (1.0, 2.0)
"""Seconds before a request is sent again to a receiver that is away or busy."""
LONGEST_WAIT = 30.0

Runs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RUN]…",
        help="A run's id, a unique prefix of it, or `last`; into a journal several, by default all.",
        autocompletion=complete_runs,
    ),
]
Whole = Annotated[
    bool, typer.Option("--full", help="In a page: the prompts of all turns too. In a trace: what was said, masked.")
]
FromManifest = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="For a case: the team's manifest, if it is not found.")
]
Target = Annotated[
    str | None, typer.Option("--out", metavar="FILE|URL", help="FILE.json, .html, .yaml, .otlp or .db; or a URL.")
]


def export(
    runs: Runs = None,
    full: Whole = False,
    manifest: FromManifest = None,
    json: Json = False,
    out: Target = None,
) -> int:
    """Export a run, in the form that the name after --out asks for; or copy runs into another journal.

    FILE.json, and without --out stdout, has the result, the manifest, the events, and the bodies that events refer to.
    FILE.html shows the conversation, the plan and the money, with everything masked that looks like a secret.

    FILE.yaml is a case, which `teamwright test` replays without calling anything: the task, what people answered and
    what the run did; the replies of models and tools are beside it. Secrets and paths of this machine are removed; look
    at both files before you share them.

    FILE.otlp is a trace of OpenTelemetry as JSON, and http://… a receiver to which the trace is sent: teams, members,
    calls of models and tools, tokens, cost. OTEL_EXPORTER_OTLP_HEADERS has what the receiver asks for, such as a key.
    Runs that workers did for this one are part of it. A run that is sent twice is the same trace twice.

    FILE.db, and postgresql://… a database, get copies of runs from the journal in use, or from that of --journal; each
    is checked by its digest. Runs that are being driven are left out, and a copied run must be resumed in one of the
    two only.

    Examples:
      teamwright runs export last --out run.html
      teamwright runs export last --out tests/cases/first.yaml
      teamwright runs export last --out http://localhost:6006
      teamwright runs export --out backup.db
    """
    from teamwright.journal.location import is_url

    ending = "" if out is None else Path(out).suffix.lower()
    if manifest is not None and ending not in CASE_ENDINGS:
        raise UsageError("--from is for a case:  --out FILE.yaml")
    if out is not None and (is_url(out) or ending in JOURNAL_ENDINGS):
        return _copy_runs(runs, out, json=json)
    if len(runs or ()) != 1:
        raise UsageError("Name one run to export; several, or all, go into a journal:  --out FILE.db, or a URL")
    run = (runs or [""])[0]
    if out is not None and out.lower().startswith(RECEIVERS):
        return _send_trace(run, out, full=full, json=json)
    file = None if out is None else Path(out)
    if file is not None and ending in CASE_ENDINGS:
        return _write_case(run, file, manifest, json=json)
    check_out(file)
    if file is not None and ending in TRACE_ENDINGS:
        return _write_trace(run, file, full=full)
    html = file if ending in PAGE_ENDINGS and not json else None

    async def work(engine: Engine, found: RunSummary) -> int:
        if html is not None:
            return await export_page(engine, found.id, html, prompts=full)
        write_json(await export_run(engine, found.id), file, private=True)
        return 0

    return with_run(run, work)


async def export_run(engine: Engine, run_id: str) -> dict[str, JsonValue]:
    """Return the run's result, manifest and events, and every body that an event refers to.

    Files of the task and of tools are named by the events, with type and size; their bytes are left out.
    """
    from teamwright.history.recorded_asks import bodies_of
    from teamwright.journal.codec import decode_body
    from teamwright.values.events.agent import AgentReplied

    history = await engine.runs.history(run_id)
    ended = await engine.runs.result(run_id)
    bodies = {body for event in history.events for body in bodies_of(event)}
    replies = [event.fact for event in history.events if isinstance(event.fact, AgentReplied)]
    bodies.update(artifact.hash for reply in replies for artifact in reply.artifacts)
    texts = await engine.journal.bodies(bodies - set(_tool_files(history.events)))
    return {
        "format": FORMAT,
        "result": ended.to_json(),
        "task": history.task,
        "manifest": history.manifest,
        "events": [event.to_json() for event in history.events],
        "bodies": {body: decode_body(text) for body, text in sorted(texts.items())},
    }


async def export_page(engine: Engine, run_id: str, file: Path, *, prompts: bool) -> int:
    """Write a run as one HTML file."""
    from teamwright.wings import required_hook

    text = await required_hook("export_page", "A run as an HTML file")(engine, run_id, prompts=prompts)
    write_file(text, file, private=True)
    say(f"run {run_id} written to {str(file)!r} ({size_text(len(text.encode()))}); open it in a browser")
    return 0


def _tool_files(events: Iterable[Event]) -> Iterator[Body]:
    from teamwright.values.events.agent import AgentReturned

    for event in events:
        if isinstance(event.fact, AgentReturned):
            yield from (artifact.hash for artifact in event.fact.artifacts)


def _copy_runs(runs: list[str] | None, target: str, *, json: bool) -> int:
    """Copy runs into another journal, and print how many; the exit code is 1 if one of them is not there after it."""
    import anyio

    copied = anyio.run(_copy, runs, target, not json)
    if json:
        write_json([one.to_json() for one in copied])
    else:
        write_result(_summary(copied))
    return 0 if all(one.outcome in ("copied", "present") for one in copied) else 1


async def _copy(runs: list[str] | None, target: str, tell: bool) -> list[CopiedRun]:
    from teamwright.journal.copy import copy_runs
    from teamwright.journal.location import has_journal, resolve_journal

    if not has_journal():
        raise UsageError("There is no journal to copy from; name one with  --journal FILE")
    source, other = resolve_journal(), resolve_journal(target)
    copied: list[CopiedRun] = []
    await source.open()
    try:
        named = None if not runs else [(await find_run(source, run)).id for run in runs]
        await other.open()
        try:
            async for run in copy_runs(source, other, named):
                copied.append(run)
                if tell and run.outcome not in ("copied", "present"):
                    say(f"{one_line(run.run_id)}: {run.reason}")
        finally:
            await other.close()
    finally:
        await source.close()
    return copied


def _summary(copied: list[CopiedRun]) -> str:
    from collections import Counter

    counts = Counter(one.outcome for one in copied)
    shown = {"copied": "copied", "present": "there already", "live": "being driven", "differs": "different there"}
    parts = [f"{counts[outcome]} {shown.get(outcome, outcome)}" for outcome in (*shown, "failed") if counts[outcome]]
    return f"{len(copied)} runs: {', '.join(parts)}" if copied else "there are no runs to copy"


def _write_trace(run: str, file: Path, *, full: bool) -> int:
    """Write a run as OTLP in JSON."""

    async def work(journal: Journal) -> int:
        from teamwright.history.telemetry.otlp import encode_json

        spans = await _read_spans(journal, (await find_run(journal, run)).id, content=full)
        write_json(encode_json(spans), file, private=True)
        return 0

    return with_journal(work)


def _send_trace(run: str, address: str, *, full: bool, json: bool) -> int:
    """Send a run to a receiver of OpenTelemetry; the exit code is 1 if it does not take all of it."""
    from teamwright.history.telemetry.otlp import Receiver

    receiver = Receiver.at(address)

    async def work(journal: Journal) -> int:
        from teamwright.history.telemetry.spans import trace_id

        run_id = (await find_run(journal, run)).id
        spans = await _read_spans(journal, run_id, content=full)
        if not _is_sent(spans, receiver):
            return 1
        trace = trace_id(run_id).hex()
        if json:
            write_json({"run_id": run_id, "trace_id": trace, "spans": len(spans)})
        else:
            say(f"{count_text(len(spans), 'span')} sent to {receiver.place}; the trace is {trace}")
        return 0

    return with_journal(work)


async def _read_spans(journal: Journal, run_id: str, *, content: bool) -> list[Span]:
    """Return the spans of a run, and of the runs that workers did for it."""
    from teamwright.history.recorded_asks import RecordedBodies
    from teamwright.history.run_record import check_record
    from teamwright.history.telemetry.run_spans import spans_of
    from teamwright.history.telemetry.spans import bodies_needed, with_content

    found: list[Span] = []
    children = sorted(one.id for one in await journal.descendants([run_id]))
    for one in (run_id, *children):
        if not (events := await journal.read(one)):
            continue  # deleted meanwhile
        check_record(events)
        found += spans_of(events, driven=await journal.is_driven(one))
    if content:
        found = with_content(found, RecordedBodies(await journal.bodies(bodies_needed(found))))
    return found


def _is_sent(spans: Sequence[Span], receiver: Receiver) -> bool:
    """Send spans in batches; whether the receiver has taken them all."""
    from teamwright.history.telemetry.otlp import encode

    for start in range(0, len(spans), BATCH):
        body = encode(spans[start : start + BATCH])
        response = receiver.send(body)
        for wait in WAITS:
            if not response.retry:
                break
            sleep(min(LONGEST_WAIT, max(wait, response.retry_after)))
            response = receiver.send(body)
        if response.problem is not None:
            say(f"The receiver of telemetry at {receiver.place} {response.problem}; send the run again later.")
            return False
    return True


def _write_case(run: str, file: Path, manifest: Path | None, *, json: bool) -> int:
    """Make a case of a run, and replay it; the exit code is 1 if it does not pass."""
    file.parent.mkdir(parents=True, exist_ok=True)
    check_out(file)

    import anyio.to_thread

    async def work(engine: Engine, found: RunSummary) -> int:
        extend_sys_path()
        case, changed = await _make_case(engine, found, file, manifest)
        return await anyio.to_thread.run_sync(partial(_verify_case, case, changed, json=json))

    return with_run(run, work)


async def _make_case(engine: Engine, found: RunSummary, file: Path, manifest: Path | None) -> tuple[LoadedCase, str]:
    """Write the case of a run, with what its calls sent as the team was then; returns it with what has changed."""
    import anyio.to_thread

    from teamwright.testing.case_replay import case_of_run, with_prompts, write_case

    history, result = await engine.runs.history(found.id), await engine.runs.result(found.id)
    case, source, team = await case_of_run(engine.journal, history, result, file, manifest)
    case = await anyio.to_thread.run_sync(partial(with_prompts, case, source))
    write_case(case)
    return case, f"{str(team.manifest)!r} has changed since the run" if team.has_changed else ""


def _verify_case(case: LoadedCase, changed: str, *, json: bool) -> int:
    """Replay the case that was written, and say how that went."""
    from teamwright.testing.case_replay import run_case

    what = [f"{len(case.recording.replies)} replies"]
    if case.case.answers:
        what.append(f"{count_text(len(case.case.answers), 'answer')} of people")
    say(f"wrote {case.path} with {' and '.join(what)}; replay it with  teamwright test {case.path}")
    result = run_case(case.path)
    if json:
        write_json(result.to_json())
    if result.passes:
        return 0
    say(f"it does not pass now{f', since {changed}' if changed else ''}:")
    for line in result.lines():
        say(line)
    return 1
