"""Which status and code an error has for clients; it imports nothing of HTTP, so that other processes can use it."""

from __future__ import annotations

from collections.abc import Mapping

from teamwright.errors import (
    BudgetUnavailable,
    ConversationBusy,
    InterventionRefused,
    JournalError,
    ManifestError,
    NotResumable,
    RunExists,
    RunIsLive,
    RunNotFound,
    TeamwrightError,
    UnknownName,
    UsageError,
)

STATUSES: tuple[tuple[type[TeamwrightError], int, str], ...] = (
    (RunNotFound, 404, "run_not_found"),
    (UnknownName, 404, "unknown_name"),
    (RunIsLive, 409, "run_is_live"),
    (NotResumable, 409, "not_resumable"),
    (InterventionRefused, 409, "intervention_refused"),
    (ConversationBusy, 409, "conversation_busy"),
    (RunExists, 409, "run_exists"),
    (ManifestError, 422, "manifest"),
    (UsageError, 400, "usage"),
    (BudgetUnavailable, 409, "budget"),
    (JournalError, 503, "journal"),
)
"""The status and the code of each error; the first that fits counts."""
INTERNAL = 500, "internal", "the server failed; its log says why"


class RefusedRequest(Exception):
    """Why a request is refused, as its client gets it; `fields` says which part of the request it is about."""

    def __init__(self, status: int, code: str, message: str, fields: Mapping[str, str] | None = None) -> None:
        self.status, self.code, self.fields = status, code, fields or {}
        super().__init__(message)


def refusal_of(error: TeamwrightError) -> RefusedRequest:
    """Return an error as its client gets it; what is unknown says nothing of itself."""
    for kind, status, code in STATUSES:
        if isinstance(error, kind):
            return RefusedRequest(status, code, str(error))
    return RefusedRequest(*INTERNAL)
