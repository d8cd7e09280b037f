"""Who may use a server: tokens, and sessions of browsers, which are short-lived tokens that a page keeps.

Both are made once and stored as hashes, in private files beside the journal, which a crash leaves as they were. A
session begins with the one-time code of the printed address, or with a token, and then lasts no longer than it.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast, get_args

from teamwright.errors import UsageError, nearest
from teamwright.journal.location import FILE_MODE, companion_folder, make_folder

Role = Literal["read", "answer", "run", "admin"]
"""What a visitor may do; each role may do what those before it may."""
ROLES: tuple[Role, ...] = get_args(Role)
TOKEN_PREFIX = "tw_"
SESSION_PREFIX = "tws_"
CODE_SECONDS = 180.0
SESSION_SECONDS = 12 * 3600.0
MOST_SESSIONS = 20
"""How many sessions one visitor has at once; a further one ends the oldest."""
OWNER_NAME = "owner"
"""The name of who started the server, which no token has."""


def tokens_file(journal: Path | None = None) -> Path:
    """The file of the tokens of a server over this journal, by default the user's."""
    return companion_folder(journal) / "server-tokens.json"


@dataclass(frozen=True, slots=True)
class Allowance:
    """What each run of a token may spend, and the tenant's budget that it draws on; nothing bounds it here if empty."""

    usd: float | None = None
    tokens: int | None = None
    budget: str = ""

    @property
    def ceiling(self) -> dict[str, float]:
        """The most that one run may spend, by unit."""
        given = {"usd": self.usd, "tokens": self.tokens}
        return {unit: amount for unit, amount in given.items() if amount is not None}


UNBOUNDED = Allowance()


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person or program that has shown a token or a session: a name for the audit, and what it may do and spend."""

    name: str
    role: Role
    allowance: Allowance = UNBOUNDED

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as it is stored: its hash, which can't be turned back."""

    name: str
    role: Role
    digest: str
    allowance: Allowance = UNBOUNDED


class Tokens:
    """The tokens of one server, in a file that only its owner can read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def create(self, name: str, role: str, allowance: Allowance = UNBOUNDED) -> str:
        """Make a token, store its hash, and return it; it can't be shown again."""
        if role not in ROLES:
            raise UsageError(f"There is no role {role!r}; {nearest(role, ROLES)}")
        if any(one.name == name for one in self.all()):
            raise UsageError(f"There is a token named {name!r} already; delete it first, or choose another name.")
        if name == OWNER_NAME:
            raise UsageError(f"{name!r} is who starts the server; choose another name for a token.")
        token = TOKEN_PREFIX + secrets.token_urlsafe(32)
        self._save([*self.all(), StoredToken(name, role, digest_of(token), allowance)])
        return token

    def delete(self, name: str) -> bool:
        """Delete a token; returns whether there was one."""
        found = self.all()
        kept = [one for one in found if one.name != name]
        if len(kept) < len(found):
            self._save(kept)
        return len(kept) < len(found)

    def all(self) -> list[StoredToken]:
        """Return all tokens, oldest first."""
        try:
            stored = cast("list[dict[str, Any]]", json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise UsageError(f"The file of tokens {str(self._file)!r} can't be read; move it away.") from error
        return [
            StoredToken(one["name"], one["role"], one["digest"], Allowance(**one.get("allowance", {})))
            for one in stored
        ]

    def visitor(self, token: str) -> Visitor | None:
        """Return who shows this token. All hashes are compared, so that the time says nothing about them."""
        return self.holder(digest_of(token))

    def holder(self, digest: str) -> Visitor | None:
        """Return whose token has this hash; `None` if it was deleted."""
        found = None
        for one in self.all():
            if hmac.compare_digest(one.digest, digest):
                found = Visitor(one.name, one.role, one.allowance)
        return found

    def _save(self, tokens: list[StoredToken]) -> None:
        write_private(self._file, [asdict(one) for one in tokens])


def digest_of(secret: str) -> str:
    """The hash of a secret. It is random and long, so that one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class StoredSession:
    """A session as it is stored. `token` is the hash of the token that it began with; empty if it was a code."""

    digest: str
    name: str
    role: Role
    until: float
    token: str = ""

    @property
    def id(self) -> str:
        """A short name of the session, which says nothing about it."""
        return self.digest[:8]


def sessions_file() -> Path:
    """The file of the sessions of a server over the user's journal."""
    return companion_folder(None) / "server-sessions.json"


class Sessions:
    """Sessions of browsers, each of which ends after some hours.

    A code is traded once, soon after it was made. With a file, sessions survive a restart of the server, as hashes, and
    a command can end them; codes do not survive.
    """

    def __init__(self, tokens: Tokens, clock: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self._tokens, self._clock, self._file = tokens, clock, file
        self._codes: dict[str, tuple[Visitor, float]] = {}
        self._sessions: dict[str, StoredSession] = {}
        self._read_as: tuple[int, int] | None = None

    def new_code(self, visitor: Visitor) -> str:
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
        found = self._current().get(digest_of(session))
        return None if found is None else self._holder(found)

    def all(self) -> list[StoredSession]:
        """Return the sessions that have not ended, oldest first."""
        return [one for one in self._current().values() if self._holder(one) is not None]

    def end(self, session: str) -> None:
        if self._current().pop(digest_of(session), None) is not None:
            self._save()

    def end_named(self, name: str) -> int:
        """End the session with this id, or all sessions of a visitor; returns how many there were."""
        gone = [one.digest for one in self.all() if name in (one.id, one.name)]
        for digest in gone:
            del self._sessions[digest]
        if gone:
            self._save()
        return len(gone)

    def _holder(self, session: StoredSession) -> Visitor | None:
        if session.until < self._clock():
            return None
        return self._tokens.holder(session.token) if session.token else Visitor(session.name, session.role)

    def _begin(self, visitor: Visitor, token: str = "") -> str:
        session = SESSION_PREFIX + secrets.token_urlsafe(32)
        own = [one.digest for one in self._current().values() if (one.name, one.token) == (visitor.name, token)]
        for digest in own[: max(0, len(own) - MOST_SESSIONS + 1)]:
            del self._sessions[digest]
        until = self._clock() + SESSION_SECONDS
        begun = StoredSession(digest_of(session), visitor.name, visitor.role, until, token)
        self._sessions[begun.digest] = begun
        self._save()
        return session

    def _current(self) -> dict[str, StoredSession]:
        """Return the sessions, read again if another process has changed the file."""
        if self._file is not None and (written := file_version(self._file)) != self._read_as:
            self._sessions = {one.digest: one for one in _stored(self._file)}
            self._read_as = written
        return self._sessions

    def _save(self) -> None:
        self._sessions = {one.digest: one for one in self._sessions.values() if self._holder(one) is not None}
        if self._file is not None:
            write_private(self._file, [asdict(one) for one in self._sessions.values()])
            self._read_as = file_version(self._file)


def _stored(file: Path) -> list[StoredSession]:
    """Return the sessions in a file; none of them where it can't be read, so that people sign in again."""
    try:
        stored = cast("list[dict[str, str]]", json.loads(file.read_text(encoding="utf-8")))
        found = [
            StoredSession(one["digest"], one["name"], cast("Role", one["role"]), float(one["until"]), one["token"])
            for one in stored
        ]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [one for one in found if one.role in ROLES]


def write_private(file: Path, value: object) -> None:
    """Replace a file, which only its owner can read."""
    make_folder(file.parent)
    part = file.with_suffix(".part")
    part.touch(mode=FILE_MODE)
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(file)


def file_version(file: Path) -> tuple[int, int] | None:
    """What changes whenever a file is replaced; `None` if there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
