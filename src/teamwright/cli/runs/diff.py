"""`teamwright runs diff`: where two runs diverge, or what one has changed in files, which `runs apply` takes over."""

from __future__ import annotations

import textwrap
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.command_setup import with_run
from teamwright.cli.terminal.options import Run
from teamwright.cli.terminal.output import (
    Json,
    Out,
    check_out,
    clean,
    columns,
    json_text,
    say,
    write_json,
    write_result,
)
from teamwright.values.text.display import NOTHING, count_text, number_text, price_text, seconds_text

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.diff import Change, DifferenceKind, MemberSide, RunDiff, RunSide, TurnPair, TurnSide
    from teamwright.runtime.engine import Engine
    from teamwright.values.turns.results import RunSummary

WIDTH = 78
MOST_CHANGES = 12
MOST_PLACES = 12
SHOWN = 300
BEFORE = 40
HOW: dict[DifferenceKind, str] = {
    "same": "the same",
    "only_a": "only A has this turn",
    "only_b": "only B has this turn",
    "member": "another member was asked",
    "told": "its input differs",
    "status": "its status differs",
    "said": "same input, another reply",
}


def diff(
    first: Annotated[str, typer.Argument(metavar="A", help="A run's id, a unique prefix of it, or `last`.")],
    second: Annotated[
        str | None, typer.Argument(metavar="[B]", help="Another run; without it, the files that A has changed.")
    ] = None,
    json: Json = False,
    out: Out = None,
) -> int:
    """Compare two runs, and show where they diverge; or show what one run has changed in files.

    The exit code is 0 whether or not they differ.

    Examples:
      teamwright runs diff before last
      teamwright runs diff last
    """
    check_out(out)
    if second is None:
        return _show_patch(first, json=json, out=out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.cli.terminal.command_setup import find_run
        from teamwright.history.diff import compare

        a, b = found.id, (await find_run(engine.journal, second)).id
        histories = await engine.runs.history(a), await engine.runs.history(b)
        comparison = compare(*histories, await engine.runs.result(a), await engine.runs.result(b))
        if json:
            write_json(comparison.to_json(), out)
        else:
            write_result(comparison_text(comparison), out)
        return 0

    return with_run(first, work)


def _show_patch(run: str, *, json: bool, out: Path | None) -> int:
    """Write the changes of a run to the files of its workspace."""

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.runtime.recorded.reader import read_record
        from teamwright.runtime.working_trees.apply import RecordedBranch

        recorded = RecordedBranch(engine.journal, await read_record(engine.journal, found.id))
        patch, chain = await recorded.patch(), recorded.branch.chain()
        if json:
            commits: list[JsonValue] = [one.to_json() for one in chain]
            write_json({"run_id": found.id, "base": recorded.branch.base, "commits": commits, "patch": patch}, out)
            return 0
        for one in chain:
            say(f"{one.commit[:12]} {one.member}: {count_text(len(one.files), 'file')} (+{one.added} -{one.removed})")
        write_result(patch.rstrip("\n"), out, exact=True)
        return 0

    return with_run(run, work)


def apply(
    run: Run,
    branch: Annotated[
        str, typer.Argument(metavar="[BRANCH]", help="The name of the branch, teamwright/RUN by default.")
    ] = "",
    json: Json = False,
    out: Out = None,
) -> int:
    """Take over what a run has changed: as a branch of its repository, or in its plain folder.

    The tree and the index of the repository stay as they are; merge the branch yourself. In a plain folder nothing is
    written if a file to write has changed since the run began.

    Examples:
      teamwright runs apply last
      teamwright runs apply last fix-the-tests
    """
    check_out(out)

    async def work(engine: Engine, found: RunSummary) -> int:
        from teamwright.runtime.recorded.reader import read_record
        from teamwright.runtime.working_trees.apply import RecordedBranch

        recorded = RecordedBranch(engine.journal, await read_record(engine.journal, found.id))
        done = await recorded.apply(branch)
        if json:
            write_json({"run_id": found.id, "commit": recorded.branch.tip(), "done": done}, out)
        else:
            write_result(done, out)
        return 0

    return with_run(run, work)


def comparison_text(found: RunDiff) -> str:
    """A comparison as text."""
    a, b = found.a, found.b
    rows = [("", "RUN", "STATUS", "TURNS", "TOKENS", "PRICE", "TIME"), _row("A", a), _row("B", b)]
    lines = [columns(rows), "", *_relation(found), "", *_divergence(found)]
    if found.members:
        lines += ["", *_members(found)]
    lines += ["", *_answers(a.output, b.output)]
    return clean("\n".join(lines))


def _row(name: str, side: RunSide) -> tuple[str, ...]:
    status = f"{side.status} ({side.stop_reason})" if side.stop_reason else side.status
    price = NOTHING if side.usd is None else price_text(side.usd)
    tokens = number_text(side.total_tokens)
    return (name, side.run_id, status, str(side.turns), tokens, price, seconds_text(side.seconds))


def _relation(found: RunDiff) -> list[str]:
    """How the runs are related, and how their tasks and manifests differ."""
    lines = [_ancestry(found.a, found.b), "The task is the same." if found.same_task else "The tasks differ."]
    if found.changes:
        lines.append(f"The manifest differs in {count_text(len(found.changes), 'place')}:")
        lines += [_changed(change) for change in found.changes[:MOST_CHANGES]]
        if len(found.changes) > MOST_CHANGES:
            lines.append(f"  … and {len(found.changes) - MOST_CHANGES} more; --json lists them")
    return lines


def _ancestry(a: RunSide, b: RunSide) -> str:
    for name, child, other, parent in (("B", b, "A", a), ("A", a, "B", b)):
        if child.origin is not None and child.origin.run_id == parent.run_id:
            word = "is a fork of" if child.origin.how == "fork" else "continues"
            at = f" at {child.origin.checkpoint}" if child.origin.checkpoint else ""
            return f"{name} {word} {other}{at} (event {child.origin.number})."
    if a.origin is not None and b.origin is not None and a.origin.run_id == b.origin.run_id:
        return f"Both come from run {a.origin.run_id} (events {a.origin.number} and {b.origin.number})."
    return f"Two runs of {a.team}." if a.team == b.team else f"Runs of different teams: {a.team} and {b.team}."


def _changed(change: Change) -> str:
    return f"  {change.path}: {_short(change.a)} → {_short(change.b)}"


def _short(value: JsonValue) -> str:
    if value is None:
        return NOTHING
    text = clean(value) if isinstance(value, str) else json_text(value, indent=None)
    return textwrap.shorten(text, 60, placeholder=" …")


def _divergence(found: RunDiff) -> list[str]:
    first = found.first_difference
    most = max(found.a.turns, found.b.turns)
    if first is None:
        return [f"No turn differs: {count_text(found.common, 'turn')} the same."]
    shared = f"{count_text(found.common, 'turn')} of {most} the same" if found.common else "No turn is the same"
    lines = [f"{shared}.", f"They diverge at {first.key}, {first.member}: {HOW[first.how]}.", *_sides(first)]
    others = [turn for turn in found.turns if turn.how != "same"][1:]
    if others:
        lines.append("Later differences:")
        lines += [f"  {turn.key}  {turn.member}: {HOW[turn.how]}" for turn in others[:MOST_PLACES]]
        if len(others) > MOST_PLACES:
            lines.append(f"  … and {len(others) - MOST_PLACES} more; --json lists them")
    return lines


def _sides(turn: TurnPair) -> list[str]:
    """Both versions of a turn, from where their texts diverge."""
    shared = _shared(turn.a.text, turn.b.text) if turn.a and turn.b else 0
    return [*_side("A", turn.a, shared), *_side("B", turn.b, shared)]


def _side(name: str, side: TurnSide | None, shared: int) -> list[str]:
    if side is None:
        return [f"  {name}  –"]
    head = f"{side.status} (event {side.number}, {count_text(side.total_tokens, 'token')})"
    return [f"  {name}  {head}", *_excerpt(side.text, shared)]


def _shared(a: str, b: str) -> int:
    """The length of the common prefix of two texts as they are shown; zero if the texts are equal."""
    a, b = clean(a), clean(b)
    return 0 if a == b else sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _excerpt(text: str, shared: int = 0) -> list[str]:
    """An excerpt of a text in a few lines, from a little before the end of the `shared` prefix."""
    text = clean(text)
    start = max(0, shared - BEFORE)
    start = text.rfind(" ", 0, start) + 1 if start else 0
    piece = " ".join(text[start : start + SHOWN].split())
    piece = ("… " if start else "") + piece + (" …" if len(text) > start + SHOWN else "")
    return textwrap.wrap(piece or "(empty)", WIDTH, initial_indent="     ", subsequent_indent="     ")


def _members(found: RunDiff) -> list[str]:
    rows = [("MEMBER", "SAME", "A", "", "", "B", "", "")]
    for one in found.members:
        turns = max(one.a.turns, one.b.turns)
        rows.append((one.member, f"{one.same}/{turns}", *_share(one.a), *_share(one.b)))
    return [columns(rows)]


def _share(side: MemberSide) -> tuple[str, str, str]:
    price = "" if side.usd is None else f", {price_text(side.usd)}"
    return (count_text(side.turns, "turn"), f"{number_text(side.total_tokens)} tokens{price}", side.status or NOTHING)


def _answers(a: str | None, b: str | None) -> list[str]:
    if a == b:
        return ["Neither run has an answer." if a is None else "The answer is the same."]
    shared = _shared(a or "", b or "")
    lines = ["The answers differ."]
    for name, text in (("A", a), ("B", b)):
        shown = _excerpt(text, shared) if text is not None else ["     –"]
        lines += [f"  {name}{shown[0][3:]}", *shown[1:]]
    return lines
