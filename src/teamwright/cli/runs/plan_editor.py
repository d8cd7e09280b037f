"""The plan of a run in a person's editor, and the difference that they make."""

from __future__ import annotations

import difflib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.documents.nodes import plain
from teamwright.documents.problems import ProblemReport
from teamwright.documents.reader import read_file
from teamwright.errors import ManifestError, UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from teamwright.history.history import RunHistory


def edited_plan(history: RunHistory, file: Path | None, *, ask: bool) -> JsonValue:
    """Return the plan as a person has edited it, or as a file has it; `None` if they changed nothing or said no.

    The difference goes to stderr.
    """
    before = history.plan()
    if before is None:
        raise UsageError(f"The team of run {history.events[0].run_id!r} has no plan that can be edited.")
    shown = _text(before)
    plan = _read(file) if file is not None else _edit(shown)
    lines = list(difflib.unified_diff(shown.splitlines(), _text(plan).splitlines(), "plan", "edited", lineterm="", n=1))
    if not lines:
        return None
    sys.stderr.write("\n".join(lines) + "\n")
    return plan if not ask or _is_confirmed() else None


def _edit(text: str) -> JsonValue:
    """Open the plan in the editor of the person, and read what they saved."""
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise UsageError("Set EDITOR to the editor in which you want to edit the plan, or pass a file: --file FILE.")
    with tempfile.TemporaryDirectory(prefix="teamwright-") as folder:
        file = Path(folder) / "plan.json"
        file.write_text(text + "\n", encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(editor), str(file)], check=False).returncode
        except (OSError, ValueError) as error:
            raise UsageError(f"The editor {editor!r} can't be used: {error}.") from error
        if code:
            raise UsageError(f"{editor!r} exited with {code}; nothing is changed.")
        return _read(file)


def _read(file: Path) -> JsonValue:
    """Read a plan from a file, as YAML or JSON."""
    report = ProblemReport()
    documents = read_file(file, report)
    if report.problems:
        raise ManifestError(report.problems)
    return plain(documents[0])


def _text(plan: JsonValue) -> str:
    return json.dumps(plan, indent=2, ensure_ascii=False)


def _is_confirmed() -> bool:
    """Ask the person whether the edited plan is sent; without a terminal, it is."""
    if not sys.stdin.isatty():
        return True
    sys.stderr.write("send this plan? [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
