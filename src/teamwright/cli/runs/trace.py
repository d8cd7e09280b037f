"""`teamwright runs trace`: a run as a trace of OpenTelemetry, sent to a receiver or written as JSON."""

from __future__ import annotations

from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import find_run, with_journal
from teamwright.cli.terminal.options import complete_runs
from teamwright.cli.terminal.output import Json, check_out, say, write_json
from teamwright.errors import UsageError
from teamwright.values.text.display import count_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from teamwright.history.telemetry.spans import Span
    from teamwright.journal.protocol import Journal

BATCH = 512
WAITS = (1.0, 2.0)
"""Seconds before a request is sent again to a receiver that is away or busy."""
LONGEST_WAIT = 30.0


def trace(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN", help="A run's id, a unique prefix of it, or `last`.", autocompletion=complete_runs
        ),
    ],
    content: Annotated[
        bool, typer.Option("--content", help="With what was said, masked where it looks like a secret.")
    ] = False,
    json: Json = False,
    out: Annotated[
        Path | None, typer.Option("--out", "--file", metavar="FILE", help="Write OTLP in JSON to a file.")
    ] = None,
) -> int:
    """Send a run to a receiver of OpenTelemetry, as a trace: teams, members, calls of models and tools, tokens, cost.

    The receiver is that of --otlp URL, or of OTEL_EXPORTER_OTLP_ENDPOINT; OTEL_EXPORTER_OTLP_HEADERS has what it asks
    for, such as a key. With --json or --out the trace is written, and not sent. Runs that workers did for this one are
    part of it. A run that is sent twice is the same trace twice.

    Examples:
      teamwright runs trace last
      teamwright runs trace last --content --out trace.json
    """
    from teamwright.history.telemetry.environment import configured_endpoint

    check_out(out)
    endpoint = None if json or out is not None else configured_endpoint()
    if endpoint is None and not json and out is None:
        raise UsageError("Name a receiver with  --otlp URL  or a file with  --out FILE.")

    async def work(journal: Journal) -> int:
        from teamwright.history.telemetry.otlp import encode_json

        run_id = (await find_run(journal, run)).id
        spans = await _read_spans(journal, run_id, content=content)
        if endpoint is None:
            write_json(encode_json(spans), out, private=True)
            return 0
        return _send(spans, endpoint, run_id)

    return with_journal(work)


async def _read_spans(journal: Journal, run_id: str, *, content: bool) -> list[Span]:
    """Return the spans of a run, and of the runs that workers did for it."""
    from teamwright.history.record.asks import RecordedBodies
    from teamwright.history.record.run_record import check_record
    from teamwright.history.telemetry.content import bodies_needed, with_content
    from teamwright.history.telemetry.run_spans import spans_of

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


def _send(spans: Sequence[Span], endpoint: str, run_id: str) -> int:
    """Send spans in batches; the exit code is 1 if the receiver does not take them all."""
    from teamwright.history.telemetry.otlp import Receiver, encode
    from teamwright.history.telemetry.spans import trace_id

    receiver = Receiver.at(endpoint)
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
            return 1
    say(f"{count_text(len(spans), 'span')} sent to {receiver.place}; the trace is {trace_id(run_id).hex()}")
    return 0
