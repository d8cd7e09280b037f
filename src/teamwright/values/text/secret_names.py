"""References to environment variables in a manifest, `${NAME}` and `$${`, which means `${`; and what is a secret.

A secret is known by the name of a variable or field, or by the form of a value. The same rules apply to everything that
is recorded, delivered, shown or rebuilt from a record.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urlsplit

if TYPE_CHECKING:
    from pydantic import JsonValue

REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
"""A reference to an environment variable in a manifest, or its escape."""
_NO_TEXT = frozenset({bool, int, float, type(None)})


def may_refer(declared: JsonValue) -> bool:
    """Whether a part of a declaration may contain a reference; most of a long list are names or numbers."""
    return "${" in declared if isinstance(declared, str) else type(declared) not in _NO_TEXT


def escape_references(declared: JsonValue) -> JsonValue:
    """Escape what a reader of a declaration would take for a reference or an escape, so that it reads the same text."""
    match declared:
        case str():
            return REFERENCE.sub(r"$\g<0>", declared) if "${" in declared else declared
        case list():
            return [escape_references(item) if may_refer(item) else item for item in declared]
        case dict():
            return {name: item and escape_references(item) for name, item in declared.items()}
        case _:
            return declared


def variables_of(text: str) -> list[str]:
    """Return the names of the variables that a text refers to, each once."""
    return list(dict.fromkeys(found[1] for found in REFERENCE.finditer(text) if found[1])) if "${" in text else []


def resolved(text: str, environment: Mapping[str, str]) -> str:
    """Return a text with the values of its variables; a variable that is not set is empty."""
    return REFERENCE.sub(lambda found: environment.get(found[1], "") if found[1] else "${", text)


HIDDEN = "[redacted]"
"""The replacement of a secret."""
SHORTEST = 12
"""A shorter value is not masked: it would match unrelated text."""

HEADERS = frozenset(("authorization", "proxy-authorization", "x-api-key", "api-key", "api_key", "apikey"))
"""Fields whose text is always a secret."""
NOTIFY = frozenset(("webhook", "secret"))
"""Fields of `notify` that are secrets; a run can be resumed without them."""
HEADER_FIELDS = frozenset(("headers", "extra_headers"))
NAMED_BY_OTHERS = HEADER_FIELDS | {"env"}
"""Mappings whose keys are chosen by a server or a program."""

FOR_SECRETS = frozenset(("api_key", "url"))
SCHEMAS = frozenset(("input_schema", "output_schema"))
OWN_SECRETS = frozenset((
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "TEAMWRIGHT_JOURNAL", "TEAMWRIGHT_REDIS",
    "TEAMWRIGHT_WEBHOOK", "TEAMWRIGHT_WEBHOOK_SECRET",
))  # fmt: skip
"""Variables that Teamwright itself reads, with addresses and credentials, which no manifest needs."""

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
"""`tokens` is a count, unless it follows one of these words."""
_STORES = frozenset(
    (
        "amqp", "broker", "celery", "database", "db", "mongo", "mongodb", "mysql", "pg", "postgres", "postgresql",
        "rabbitmq", "redis", "sql",
    )
)  # fmt: skip
_PASSWORD = re.compile(r"(?:^|[\s;])(?:password|pwd)\s{0,8}=\s{0,8}('[^']*'|[^\s;]+)", re.IGNORECASE)
"""The password of a connection string such as `host=db password=…`, or `Server=db;Pwd=…`."""
_ADDRESSES = frozenset(("url", "uri"))
_FOLDERS = frozenset(("PWD", "OLDPWD"))
_PLAIN_HEADERS = frozenset(("accept", "content-type", "user-agent", "host", "origin", "referer"))


@lru_cache(maxsize=4096)
def is_secret_name(name: str) -> bool:
    """Whether a variable, header or field is a secret by its name: SHOP_API_KEY, dbPassword, X-Auth-Token."""
    if name in OWN_SECRETS:
        return True
    if name in _FOLDERS or len(name) > 256:
        return False
    words = {word.lower() for word in _WORD.findall(name)}
    if "public" in words:
        return False
    if not words.isdisjoint(_SECRET_WORDS) or any(word.endswith(_SECRET_ENDINGS) for word in words):
        return True
    if "tokens" in words:
        return not words.isdisjoint(_TOKEN_LISTS)
    if "connection" in words and not words.isdisjoint(("string", "str")):
        return True
    return not words.isdisjoint(_ADDRESSES) and not words.isdisjoint(_STORES)


def may_hold_secret(path: Sequence[str]) -> bool:
    """Whether the field at a path in a declaration is for a key, header, variable, address or webhook."""
    if not path or path[0] in SCHEMAS:
        return False
    *_, around, name = "", *path
    return name in FOR_SECRETS or around in NAMED_BY_OTHERS or (around == "notify" and name in NOTIFY)


def has_password(value: str) -> bool:
    """Whether a value is the address of a server with a password, or a connection string with one."""
    return any(_of_address(value)) if "://" in value else _PASSWORD.search(value) is not None


@lru_cache(maxsize=4096)
def is_secret(parent: str, name: str) -> bool:
    """Whether the text of a manifest's field is a secret, by the names of the field and its parent."""
    return (
        name.lower() in HEADERS
        or (parent in NAMED_BY_OTHERS and is_secret_name(name))
        or (name in NOTIFY and parent == "notify")
    )


def is_header(parent: str, name: str) -> bool:
    """Whether a field is a header that may carry a credential; variables in it are secrets."""
    return parent in HEADER_FIELDS and name.lower() not in _PLAIN_HEADERS


def is_written_out(text: str) -> bool:
    """Whether a text contains a secret itself, and not a reference to an environment variable."""
    return bool(text.strip()) and not any(found[1] for found in REFERENCE.finditer(text))


def is_maskable(value: str) -> bool:
    """Whether a value is distinct from ordinary text: at least 12 characters, and not letters alone."""
    return len(value) >= SHORTEST and not value.isalpha()


@lru_cache(maxsize=1024)
def known_forms(value: str) -> frozenset[str]:
    """Return all texts to mask for one secret: itself, the credential within a header or URL, and their JSON and URL
    encodings. Forms that are too short or too plain are left out.
    """
    found = {part for part in (value.strip(), *_parts(value.strip())) if is_maskable(part)}
    written = {json.dumps(part, ensure_ascii=plain)[1:-1] for part in found for plain in (True, False)}
    return frozenset(found | written | {quote(part, safe="") for part in found if not _is_half(part)})


def _parts(value: str) -> Iterator[str]:
    """Yield the credentials within the value of a header (`Bearer …`, `Basic …`, a cookie) or a URL."""
    scheme, _, rest = value.partition(" ")
    if rest and scheme.isalpha():
        yield rest.strip()
        if scheme.lower() == "basic":
            yield from _user_and_password(rest.strip())
    for cookie in value.split(";") if ";" in value or "=" in value else ():
        yield cookie.partition("=")[2].strip()
    if "://" in value:
        yield from _of_address(value)
    elif found := _PASSWORD.search(value):
        yield found[1].strip("'")


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
    """Whether a text contains a lone surrogate, which a URL can't encode."""
    return any("\ud800" <= char <= "\udfff" for char in text) if not text.isascii() else False


def without_secrets(declared: JsonValue, parent: str = "") -> JsonValue:
    """Replace literal secrets in a declaration; references to environment variables stay."""
    match declared:
        case list():
            return [item if isinstance(item, str) else without_secrets(item) for item in declared]
        case dict():
            return {
                name: (HIDDEN if is_secret(parent, name) and is_written_out(item) else item)
                if isinstance(item, str)
                else (item and without_secrets(item, name))
                for name, item in declared.items()
            }
        case _:
            return declared
