"""Texts of a run as its events hold them: each is a body, which the journal keeps once."""

from __future__ import annotations

from typing import Literal

from teamwright.values.models import Record

Body = str
"""The content hash of a body that the journal keeps."""


class MessageRef(Record, frozen=True):
    """A message as the journal keeps it: its text is a body."""

    name: str
    body: Body
    role: Literal["user"] | None = None
