"""What counts as a secret: by the name of a variable or a field, and by how a value is written.

One rule for everything that is recorded, delivered, shown or made again from a record.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from pydantic import JsonValue

HIDDEN = "[redacted]"
"""What stands in the place of a secret."""
SHORTEST = 12
"""A shorter value is not masked: it would be found in text that has nothing to do with it."""

HEADERS = frozenset(("authorization", "proxy-authorization", "x-api-key", "api-key", "api_key", "apikey"))
"""Fields whose text is a secret, whatever it looks like."""
NOTIFY = frozenset(("webhook", "secret"))
"""Fields of `notify` that are secrets; a run whose record hides them can still go on."""
NAMED_BY_OTHERS = frozenset(("headers", "env"))
"""Mappings whose keys are chosen by a server or a program."""
REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A variable that a manifest reads from the environment, or the escape for its beginning."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_SECRET_WORDS = frozenset(
    (
        "key", "keys", "apikey", "token", "secret", "secrets", "pass", "passwd", "password", "passwords", "passphrase",
        "passcode", "pwd", "credential", "credentials", "auth", "oauth", "authorization", "authentication", "bearer",
        "cookie", "cookies", "creds", "jwt", "dsn", "dbpass", "pat", "pgpass", "webhook",
    )
)  # fmt: skip
_SECRET_ENDINGS = ("apikey", "accesskey", "secretkey", "privatekey", "token", "secret", "password", "passwd")
_TOKEN_LISTS = frozenset(("api", "auth", "access", "refresh", "bot"))
"""`tokens` are a number of words or so, unless one of these stands before them."""
_STORES = frozenset(
    (
        "amqp", "broker", "celery", "database", "db", "mongo", "mongodb", "mysql", "pg", "postgres", "postgresql",
        "rabbitmq", "redis", "sql",
    )
)  # fmt: skip
_ADDRESSES = frozenset(("url", "uri"))
_FOLDERS = frozenset(("PWD", "OLDPWD"))
_PLAIN_HEADERS = frozenset(("accept", "content-type", "user-agent", "host", "origin", "referer"))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, header or field is a secret by its name: SHOP_API_KEY, dbPassword, X-Auth-Token."""
    if name in _FOLDERS or len(name) > 256:
        return False
    words = {word.lower() for word in _WORD.findall(name)}
    if "public" in words:
        return False
    if not words.isdisjoint(_SECRET_WORDS) or any(word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    if "tokens" in words:
        return not words.isdisjoint(_TOKEN_LISTS)
    return not words.isdisjoint(_ADDRESSES) and not words.isdisjoint(_STORES)


def is_secret(parent: str, name: str) -> bool:
    """Whether the text of a manifest's field is a secret, by the field's name and the one above it."""
    return (
        name.lower() in HEADERS
        or (parent in NAMED_BY_OTHERS and is_secret_name(name))
        or (name in NOTIFY and parent == "notify")
    )


def is_header(parent: str, name: str) -> bool:
    """Whether a field is a header that may carry a credential: what it reads from the environment is a secret."""
    return parent == "headers" and name.lower() not in _PLAIN_HEADERS


def is_written_out(text: str) -> bool:
    """Whether a secret stands there itself, and not the name of one in the environment."""
    return bool(text.strip()) and not any(found[1] for found in REFERENCE.finditer(text))


def is_maskable(value: str) -> bool:
    """Whether a value can be told from ordinary text: at least 12 characters, and not letters alone."""
    return len(value) >= SHORTEST and not value.isalpha()


@lru_cache(maxsize=1024)
def known_forms(value: str) -> frozenset[str]:
    """All that has to be masked for one secret: itself, the credential inside a header or an address, and how JSON
    and URLs write them. What is too short or too plain is left out.
    """
    found = {part for part in (value.strip(), *_parts(value.strip())) if is_maskable(part)}
    written = {json.dumps(part, ensure_ascii=plain)[1:-1] for part in found for plain in (True, False)}
    return frozenset(found | written | {quote(part, safe="") for part in found if not _is_half(part)})


def stands_for(masked: str, text: str) -> bool:
    """Whether a masked text may have been made of this one."""
    first, *others = masked.split(HIDDEN)
    if not others:
        return masked == text
    *between, last = others
    if not text.startswith(first) or not text.endswith(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in between:
        at = text.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return at <= end


def _parts(value: str) -> Iterator[str]:
    """The credentials inside of a header's value (`Bearer …`, `Basic …`, a cookie) or of an address."""
    scheme, _, rest = value.partition(" ")
    if rest and scheme.isalpha():
        yield rest.strip()
        if scheme.lower() == "basic":
            yield from _user_and_password(rest.strip())
    for cookie in value.split(";") if ";" in value or "=" in value else ():
        yield cookie.partition("=")[2].strip()
    if "://" in value:
        yield from _of_address(value)


def _user_and_password(encoded: str) -> Iterator[str]:
    try:
        both = b64decode(encoded, validate=True).decode()
    except (NotBase64, ValueError):
        return
    yield both
    yield both.partition(":")[2]


def _of_address(value: str) -> Iterator[str]:
    try:
        address = urlsplit(value)
        password = address.password
    except ValueError:
        return
    if password:
        yield password
        yield unquote(password)
    for pair in address.query.split("&"):
        name, _, text = pair.partition("=")
        if is_secret_name(unquote(name)):
            yield text
            yield unquote(text)


def _is_half(text: str) -> bool:
    """Whether a text has half of a surrogate pair, which no URL can hold."""
    return any("\ud800" <= char <= "\udfff" for char in text) if not text.isascii() else False


def without_keys(declared: JsonValue, parent: str = "") -> JsonValue:
    """A declaration without secrets that are written in it; names that are read from the environment stay."""
    match declared:
        case list():
            return [without_keys(item) for item in declared]
        case dict():
            return {
                name: (HIDDEN if is_secret(parent, name) and is_written_out(item) else item)
                if isinstance(item, str)
                else (item and without_keys(item, name))
                for name, item in declared.items()
            }
        case _:
            return declared
