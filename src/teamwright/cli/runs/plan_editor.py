"""The plan of a run in a person's editor, and the difference that they make."""

from __future__ import annotations

import difflib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.cli.interactive.editor import edit_text, editor_command
from teamwright.documents.nodes import Node, Place, ProblemReport, plain
from teamwright.documents.reader import mapping_form, parse_documents, read_file
from teamwright.errors import ManifestError, UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.history import RunHistory

NAME = "plan.json"
FORM = mapping_form(("steps", "version"), "This is not a plan: a plan has steps")


async def edited_plan(history: RunHistory, file: Path | None, *, ask: bool) -> JsonValue:
    """Return the plan as a person has edited it, or as a file has it; `None` if they changed nothing or said no.

    The difference goes to stderr.
    """
    before = history.plan()
    if before is None:
        raise UsageError(f"The team of run {history.events[0].run_id!r} has no plan that can be edited.")
    shown = _text(before)
    plan = _read(file) if file is not None else await _edit(shown)
    lines = list(difflib.unified_diff(shown.splitlines(), _text(plan).splitlines(), "plan", "edited", lineterm="", n=1))
    if not lines:
        return None
    sys.stderr.write("\n".join(lines) + "\n")
    return plan if not ask or await _is_confirmed() else None


async def _edit(text: str) -> JsonValue:
    """Open the plan in the editor of the person, and read what they saved."""
    editor = editor_command()
    if editor is None:
        raise UsageError("Set EDITOR to the editor in which you want to edit the plan, or pass a file: --file FILE.")
    report = ProblemReport()
    documents = parse_documents(await edit_text(editor, f"{text}\n", NAME), Place(NAME), report)
    return _plan(documents, report)


def _read(file: Path) -> JsonValue:
    """Read a plan from a file, as YAML or JSON."""
    report = ProblemReport()
    return _plan(read_file(file, report, form=FORM), report)


def _plan(documents: list[Node], report: ProblemReport) -> JsonValue:
    if report.problems:
        raise ManifestError(report.problems)
    if not documents:
        raise UsageError("The plan is empty; nothing is changed.")
    return plain(documents[0])


def _text(plan: JsonValue) -> str:
    return json.dumps(plan, indent=2, ensure_ascii=False)


async def _is_confirmed() -> bool:
    """Ask the person whether the edited plan is sent; without a terminal, it is."""
    if not sys.stdin.isatty():
        return True
    from teamwright.cli.interactive.prompt import Keyboard

    sys.stderr.write("send this plan? [y/N] ")
    sys.stderr.flush()
    said = await Keyboard(sys.stdin.fileno()).read_line()
    return (said or "").lower() in {"y", "yes"}
