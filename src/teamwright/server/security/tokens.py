"""Who may use a server: tokens, made once and stored as hashes."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal, cast, get_args

from teamwright.errors import UsageError, nearest
from teamwright.journal.location import FILE_MODE, companion_folder, make_folder

Role = Literal["read", "answer", "run", "admin"]
"""What a visitor may do; each role may do what those before it may."""
ROLES: tuple[Role, ...] = get_args(Role)
PREFIX = "tw_"
OWNER_NAME = "owner"
"""The name of who started the server, which no token has."""


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
        if name == OWNER_NAME:
            raise UsageError(f"{name!r} is who starts the server; choose another name for a token.")
        token = PREFIX + secrets.token_urlsafe(32)
        self._save([*self.all(), StoredToken(name, role, digest_of(token))])
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
        return self.holder(digest_of(token))

    def holder(self, digest: str) -> Visitor | None:
        """Return whose token has this hash; `None` if it was deleted."""
        found = None
        for one in self.all():
            if hmac.compare_digest(one.digest, digest):
                found = Visitor(one.name, one.role)
        return found

    def _save(self, tokens: list[StoredToken]) -> None:
        write_private(self._file, [asdict(one) for one in tokens])


def write_private(file: Path, value: object) -> None:
    """Replace a file, which only its owner can read."""
    make_folder(file.parent)
    part = file.with_suffix(".part")
    part.touch(mode=FILE_MODE)
    part.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")
    part.replace(file)


def digest_of(secret: str) -> str:
    """The hash of a secret. It is random and long, so that one round is enough."""
    return hashlib.sha256(secret.encode()).hexdigest()
