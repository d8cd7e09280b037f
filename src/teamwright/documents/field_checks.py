"""Checks of fields that several declarations share: import paths, web addresses and secrets."""

from __future__ import annotations

import re

from teamwright.documents.nodes import Fields, Node, Scalar, shown
from teamwright.documents.problems import ProblemReport
from teamwright.values.secrets.classification import is_secret, is_written_out
from teamwright.values.text.web_address import is_web_address

IMPORT_PATH = r"^[^\W\d][\w.]*:[^\W\d][\w.]*$"


def check_import_path(function: Scalar, owner: str, report: ProblemReport) -> None:
    """Report a text that is not `module:function`."""
    path = str(function.value)
    if "${" not in path and not re.fullmatch(IMPORT_PATH, path):
        hint = "write module:function"
        if re.fullmatch(r"[^\W\d][\w.]*\.[^\W\d]\w*", path):
            hint = f"write {':'.join(path.rsplit('.', 1))}"
        report.problem(function.place, f"{owner}: {shown(path)} is not an import path", hint)


def import_path_in(fields: Fields, name: str = "function") -> Scalar | None:
    """Return the field of this name if it is an import path; anything else was reported before."""
    path = fields.text(name)
    return path if path and is_import_path(path) else None


def is_import_path(path: Scalar) -> bool:
    """Whether a text is an import path."""
    return re.fullmatch(IMPORT_PATH, str(path.value)) is not None


def check_web_address(address: Scalar | None, owner: str, report: ProblemReport, hint: str = "") -> None:
    """Report a text that is not an http address; one with a variable in it can't be checked."""
    if address and not is_web_address(str(address.value)):
        report.problem(address.place, f"{owner}: {shown(str(address.value))} is not an http address", hint)


def check_secrets(fields: Node | None, parent: str, owner: str, report: ProblemReport) -> None:
    """Warn about literal secrets in a mapping: records do not store them, so a paused run can't be resumed from one."""
    if not isinstance(fields, Fields):
        return
    for name in fields.entries:
        text = fields.text(name)
        if text and is_secret(parent, name) and is_written_out(str(text.value)):
            report.warning(
                text.place,
                f"{owner}: the secret {name!r} is written in the file, and the record of a run does not store it",
                "write ${NAME} to read it from the environment",
            )
