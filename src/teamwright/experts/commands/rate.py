"""`teamwright experts rate`: how good experts and templates were in past runs, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_journal
from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result
from teamwright.values.text.display import NOTHING, number_text

if TYPE_CHECKING:
    from teamwright.experts.ratings import Rating, Ratings
    from teamwright.journal.protocol import Journal


MOST_RUNS = 1000
HEADS = (
    "RUNS",
    "STEPS",
    "ASSUMED",
    "JUDGED",
    "PASSED",
    "FIRST TRY",
    "REVISIONS",
    "SCORE",
    "TOKENS",
    "PRICE",
    "PER PASS",
)
EXPLAINED = (
    "PASSED is the share of judged work that an evaluator passed; ≥ is what is certain of it, with 95 %. ASSUMED is"
    " work without a review."
)
UNJUDGED = "No work in these runs was judged: set  evaluate  on agents, teams or steps to learn who is good at what."


def rate(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[RUN…]", help="Runs: their ids, prefixes of them, or `last`; by default all."),
    ] = None,
    team: Annotated[str | None, typer.Option("--team", help="Only runs of this team.")] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Rate experts and templates by past runs: what passed its evaluation, after which revisions, at what price."""
    check_out(out)

    async def work(journal: Journal) -> int:
        from teamwright.errors import UsageError
        from teamwright.experts.ratings import rate_runs

        found = await rate_runs(journal, await _run_ids(journal, runs, team))
        for run, reason in list(found.left_out.items())[:10]:
            say(f"run {run} is left out: {reason}")
        if not found.experts:
            of = f" of the team {team!r}" if team else ""
            raise UsageError(f"There is no run{of} in which a member worked; start one with  teamwright run")
        write_json(found.to_json(), out) if json else write_result(ratings_text(found), out)
        return 0

    return with_journal(work)


async def _run_ids(journal: Journal, runs: Sequence[str] | None, team: str | None) -> list[str]:
    from teamwright.cli.terminal.command_setup import find_run

    found = [await find_run(journal, run) for run in runs] if runs else await journal.top_runs(MOST_RUNS)
    wanted = [one.id for one in found if team is None or one.team == team]
    return list(dict.fromkeys([*wanted, *(one.id for one in await journal.descendants(wanted))]))


def ratings_text(ratings: Ratings) -> str:
    """The ratings as tables, the best first."""
    from teamwright.cli.terminal.output import columns

    experts = [("EXPERT", "TEMPLATE", *HEADS)]
    experts += [(one_line(one.name), one_line(one.template) or NOTHING, *_cells(one)) for one in ratings.experts]
    lines = [columns(experts)]
    if ratings.templates:
        lines += [
            "",
            columns([("TEMPLATE", *HEADS), *((one_line(one.name), *_cells(one)) for one in ratings.templates)]),
        ]
    judged = any(one.judged for one in ratings.experts)
    return "\n".join([*lines, "", EXPLAINED if judged else UNJUDGED])


def _cells(one: Rating) -> tuple[str, ...]:
    from teamwright.values.text.display import price_text

    per_pass = NOTHING if one.tokens_per_pass is None else f"{number_text(one.tokens_per_pass)} tokens"
    return (
        number_text(one.runs),
        number_text(one.steps),
        number_text(one.assumed),
        number_text(one.judged),
        NOTHING if one.pass_rate is None or one.at_least is None else f"{one.pass_rate:.0%} (≥ {one.at_least:.0%})",
        NOTHING if one.first_time is None else f"{one.first_time:.0%}",
        NOTHING if one.revisions is None else f"{one.revisions:.2f}",
        NOTHING if one.score is None else f"{one.score:.2f}",
        number_text(one.total_tokens),
        price_text(one.usd) if one.usd is not None else NOTHING,
        price_text(one.usd_per_pass) if one.usd_per_pass is not None else per_pass,
    )
