"""Who may use a server: tokens, made once and stored as hashes, and sessions of browsers that traded a code for one."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from teamwright.errors import UsageError, nearest
from teamwright.journal.location import companion_folder
from teamwright.journal.permissions import FILE_MODE, make_folder

Role = Literal["read", "answer", "run", "admin"]
"""What a visitor may do; each role may do what those before it may."""
ROLES: tuple[Role, ...] = get_args(Role)
PREFIX = "tw_"
CODE_SECONDS = 600.0
SESSION_SECONDS = 12 * 3600.0


def tokens_file(journal: Path | None = None) -> Path:
    """The file of the tokens of a server over this journal, by default the user's."""
    return companion_folder(journal) / "server-tokens.json"


@dataclass(frozen=True, slots=True)
class Visitor:
    """A person or program that has shown a token or a session: a name for the audit, and a role."""

    name: str
    role: Role

    def may(self, role: Role) -> bool:
        """Whether the visitor may do what this role may."""
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as it is stored: its hash, which can't be turned back."""

    name: str
    role: Role
    digest: str


class Tokens:
    """The tokens of one server, in a file that only its owner can read."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def create(self, name: str, role: str) -> str:
        """Make a token, store its hash, and return it; it can't be shown again."""
        if role not in ROLES:
            raise UsageError(f"There is no role {role!r}; {nearest(role, ROLES)}")
        if any(one.name == name for one in self.all()):
            raise UsageError(f"There is a token named {name!r} already; delete it first, or choose another name.")
        token = PREFIX + secrets.token_urlsafe(32)
        self._save([*self.all(), StoredToken(name, role, _digest(token))])
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
            stored = cast("list[dict[str, str]]", json.loads(self._file.read_text(encoding="utf-8")))
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise UsageError(f"The file of tokens {str(self._file)!r} can't be read; move it away.") from error
        return [StoredToken(one["name"], cast("Role", one["role"]), one["digest"]) for one in stored]

    def visitor(self, token: str) -> Visitor | None:
        """Return who shows this token. All hashes are compared, so that the time says nothing about them."""
        shown, found = _digest(token), None
        for one in self.all():
            if hmac.compare_digest(one.digest, shown):
                found = Visitor(one.name, one.role)
        return found

    def _save(self, tokens: list[StoredToken]) -> None:
        _write(self._file, [asdict(one) for one in tokens])


class Sessions:
    """Sessions of browsers. A code is traded once, soon after it was made, for a session, which ends after some hours.

    With a file, sessions survive a restart of the server, as hashes; codes do not.
    """

    def __init__(self, clock: Callable[[], float] = time.time, file: Path | None = None) -> None:
        self._clock, self._file = clock, file
        self._codes: dict[str, tuple[Visitor, float]] = {}
        self._sessions: dict[str, tuple[Visitor, float]] = {}
        if file is not None and file.exists():
            try:
                stored = cast("list[tuple[str, str, Role, float]]", json.loads(file.read_text(encoding="utf-8")))
                self._sessions = {digest: (Visitor(name, role), until) for digest, name, role, until in stored}
            except ValueError:
                self._sessions = {}  # people sign in again

    def new_code(self, visitor: Visitor) -> str:
        """Return a code that can be traded for a session of this visitor."""
        code = secrets.token_urlsafe(24)
        self._codes[_digest(code)] = visitor, self._clock() + CODE_SECONDS
        return code

    def trade(self, code: str) -> str | None:
        """Return a session for a code; `None` if it is unknown, used or too old."""
        visitor, until = self._codes.pop(_digest(code), (None, 0.0))
        if visitor is None or until < self._clock():
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[_digest(session)] = visitor, self._clock() + SESSION_SECONDS
        self._save()
        return session

    def visitor(self, session: str) -> Visitor | None:
        """Return who has this session; `None` if it is unknown or has ended."""
        visitor, until = self._sessions.get(_digest(session), (None, 0.0))
        if until < self._clock():
            self._sessions.pop(_digest(session), None)
            return None
        return visitor

    def end(self, session: str) -> None:
        """End a session."""
        self._sessions.pop(_digest(session), None)
        self._save()

    def _save(self) -> None:
        now = self._clock()
        self._sessions = {digest: one for digest, one in self._sessions.items() if one[1] >= now}
        if self._file is not None:
            stored = [(digest, who.name, who.role, until) for digest, (who, until) in self._sessions.items()]
            _write(self._file, stored)


def _write(file: Path, value: object) -> None:
    """Replace a file, which only its owner can read."""
    make_folder(file.parent)
    part = file.with_suffix(".part")
    part.touch(mode=FILE_MODE)
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(file)


def _digest(secret: str) -> str:
    """The hash of a secret. It is random and long, so that one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
