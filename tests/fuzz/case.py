"""A fuzz case: the target, how the case was drawn, and its input. It is saved as JSON and replayed from the file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from pydantic import JsonValue

Outcome = Literal["accepted", "refused"]
"""The response of the product to an input: accepted, or refused with a message."""


@dataclass(frozen=True, slots=True)
class Case:
    """One input. `seed` and `number` tell how it was drawn; the payload alone is enough to replay it."""

    target: str
    seed: int
    number: int
    payload: JsonValue


class Violation(Exception):
    """The product broke a promise on this input. `kind` is one word, and `reason` the same for all like it."""

    def __init__(self, kind: str, reason: str, detail: object = "") -> None:
        self.kind, self.reason = kind, reason
        super().__init__(f"{kind}: {reason}: {detail}" if detail else f"{kind}: {reason}")


@dataclass(frozen=True, slots=True)
class Finding:
    """A case that broke a promise."""

    case: Case
    kind: str
    signature: str
    """The same for cases that seem to fail for the same reason."""
    detail: str


def save(finding: Finding, folder: Path) -> Path:
    """Write a finding so that `--replay` reads it; lone surrogates survive as escapes."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{finding.case.target}-{finding.kind}-{finding.case.seed}-{finding.case.number}.json"
    written = {**asdict(finding.case), "kind": finding.kind, "detail": finding.detail}
    file.write_text(json.dumps(written, indent=1, ensure_ascii=True) + "\n", encoding="ascii")
    return file


def load(file: Path) -> Case:
    """Read a saved case."""
    read = json.loads(file.read_text(encoding="utf-8"))
    return Case(str(read["target"]), int(read.get("seed", 0)), int(read.get("number", 0)), read["payload"])
