"""Sessions of browsers, which show a cookie instead of a token.

A session begins with the one-time code of the printed address, or with a token, and then lasts no longer than it.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

from teamwright.server.security.tokens import ROLES, Role, Tokens, Visitor, digest_of, write_private

CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 20
"""How many sessions one visitor has at once; a further one ends the oldest."""


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as it is stored. `token` is the hash of the token that it began with; empty if it was a code."""

    digest: str
    name: str
    role: Role
    until: float
    token: str = ""


class Sessions:
    """Sessions of browsers, each of which ends after some hours.

    A code is traded once, soon after it was made. With a file, sessions survive a restart of the server, as hashes;
    codes do not.
    """

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self._tokens, self._clock, self._file = tokens, clock, file
        self._codes: dict[str, tuple[Visitor, float]] = {}
        self._sessions = {one.digest: one for one in _stored(file)}

    def new_code(self, visitor: Visitor) -> str:
        """Return a code that can be traded for a session of this visitor."""
        code = secrets.token_urlsafe(24)
        self._codes[digest_of(code)] = visitor, self._clock() + CODE_SECONDS
        return code

    def trade(self, code: str) -> str | None:
        """Return a session for a code; `None` if it is unknown, used or too old."""
        visitor, until = self._codes.pop(digest_of(code), (None, 0.0))
        return None if visitor is None or until < self._clock() else self._begin(visitor)

    def sign_in(self, token: str) -> str | None:
        """Return a session of the holder of a token; `None` if the token is unknown."""
        visitor = self._tokens.visitor(token)
        return None if visitor is None else self._begin(visitor, digest_of(token))

    def visitor(self, session: str) -> Visitor | None:
        """Return who has this session; `None` if it is unknown, has ended, or its token was deleted."""
        found = self._sessions.get(digest_of(session))
        if found is None:
            return None
        visitor = self._tokens.holder(found.token) if found.token else Visitor(found.name, found.role)
        if visitor is None or found.until < self._clock():
            self._sessions.pop(found.digest, None)
            return None
        return visitor

    def end(self, session: str) -> None:
        """End a session."""
        if self._sessions.pop(digest_of(session), None) is not None:
            self._save()

    def _begin(self, visitor: Visitor, token: str = "") -> str:
        session = secrets.token_urlsafe(32)
        own = [one.digest for one in self._sessions.values() if (one.name, one.token) == (visitor.name, token)]
        for digest in own[: max(0, len(own) - MOST_SESSIONS + 1)]:
            del self._sessions[digest]
        until = self._clock() + SESSION_SECONDS
        begun = StoredSession(digest_of(session), visitor.name, visitor.role, until, token)
        self._sessions[begun.digest] = begun
        self._save()
        return session

    def _save(self) -> None:
        now = self._clock()
        self._sessions = {digest: one for digest, one in self._sessions.items() if one.until >= now}
        if self._file is not None:
            write_private(self._file, [asdict(one) for one in self._sessions.values()])


def _stored(file: Path | None) -> list[StoredSession]:
    """Return the sessions in a file; none of them where it can't be read, so that people sign in again."""
    if file is None or not file.exists():
        return []
    try:
        stored = cast("list[dict[str, str]]", json.loads(file.read_text(encoding="utf-8")))
        found = [
            StoredSession(one["digest"], one["name"], cast("Role", one["role"]), float(one["until"]), one["token"])
            for one in stored
        ]
    except (ValueError, KeyError, TypeError):
        return []
    return [one for one in found if one.role in ROLES]
