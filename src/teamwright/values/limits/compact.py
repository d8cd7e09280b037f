"""Compaction: when older messages of a conversation are replaced by a summary, before the model's window is full."""

from __future__ import annotations

from pydantic import Field

from teamwright.values.models import Value


class Compact(Value):
    """When a conversation is compacted, and how much of it stays."""

    at: float = Field(
        default=0.7, gt=0, lt=1, description="the part of the model's context window that a prompt may fill"
    )
    window: int | None = Field(
        default=None, ge=1, description="tokens of that window; by default the model's `context`, else as published"
    )
    keep: int = Field(default=8, ge=1, description="messages at the end of the conversation that stay as they are")
