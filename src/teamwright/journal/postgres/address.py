"""The address of a journal in Postgres: a URL, whose `schema` names the schema that contains the tables."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import blake2b
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from teamwright.errors import UsageError

DEFAULT_SCHEMA = "teamwright"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where the tables of a journal are."""

    url: str
    schema: str

    @classmethod
    def parse(cls, url: str) -> DatabaseAddress:
        """Read `postgresql://…?schema=name`; raises `UsageError`. Without a schema it is `teamwright`."""
        try:
            urlsplit(url)
        except ValueError as error:
            raise UsageError(f"The address of the journal is not a valid URL: {error}.") from error
        server, _, text = url.partition("?")
        query = parse_qsl(text, keep_blank_values=True)
        schema = next((value for name, value in query if name == "schema"), DEFAULT_SCHEMA)
        if not _SCHEMA.fullmatch(schema):
            raise UsageError(
                f"{schema!r} can't be the schema of a journal: use up to 48 lower-case letters, digits and underscores."
            )
        rest = urlencode([(name, value) for name, value in query if name != "schema"], quote_via=quote)
        return cls(f"{server}?{rest}" if rest else server, schema)

    @property
    def shown(self) -> str:
        """The address without user and password, for messages."""
        server, _, query = self.url.partition("?")
        place = server.partition("://")[2].rpartition("@")[2]
        host = dict(parse_qsl(query)).get("host", "") if place.startswith("/") else ""
        return f"postgresql://{host}{place}?schema={self.schema}"

    @property
    def channel(self) -> str:
        """The channel of notifications about changes."""
        return f"teamwright_{self.schema}"

    def lock_key(self, name: str) -> int:
        """The key of the advisory lock with this name; locks of other schemas have other keys."""
        name_hash = blake2b(f"{self.schema}\0{name}".encode(), digest_size=8).digest()
        return int.from_bytes(name_hash, "big", signed=True)
