"""What is a secret: by the name of its variable or field, or by the form of a value.

The names apply to everything that is recorded, delivered, shown or rebuilt from a record. Texts that only look like a
secret are masked on output (terminal, errors, exports, logs, webhooks): members get them, and journals store them,
unmasked. Every pattern takes linear time: a repetition is bounded, or starts once per run of its characters. Only a
private key contains blanks, so that a stream can be masked word by word.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote, unquote, urlsplit

from teamwright.values.names import REFERENCE

if TYPE_CHECKING:
    from pydantic import JsonValue


Span = tuple[int, int]
Strength = Literal["none", "weak", "field", "variable"]

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


class LazyPattern:
    """A regular expression that is compiled at its first search; most programs never use most of them."""

    __slots__ = ("_compiled", "_flags", "_source")

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source, self._flags = source, flags
        self._compiled: re.Pattern[str] | None = None

    @property
    def _pattern(self) -> re.Pattern[str]:
        if self._compiled is None:
            self._compiled = re.compile(self._source, self._flags)
        return self._compiled

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        return self._pattern.finditer(text)

    def search(self, text: str, start: int = 0) -> re.Match[str] | None:
        """Return the first match from a position on."""
        return self._pattern.search(text, start)

    def match(self, text: str, start: int = 0) -> re.Match[str] | None:
        return self._pattern.match(text, start)


_SERVICES = LazyPattern(
    r"\b(?:"
    r"(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}|(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|gl[a-z]{2,6}-[A-Za-z0-9_-]{16,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b|AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{20,}|GOCSPX-[0-9A-Za-z_-]{20,}"
    r"|xox[abceoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[A-Za-z0-9_-]{20,}|dop_v1_[a-f0-9]{20,}|shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{20,}|glsa_[A-Za-z0-9_]{20,}"
    r"|SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,}|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}"
    r"|nvapi-[A-Za-z0-9_-]{20,}|AGE-SECRET-KEY-1[0-9A-Z]{20,}|tws?_[A-Za-z0-9_-]{40,}"
    r")",
    re.ASCII,
)
_SERVICE_SIGNS = (
    "k-", "k_live_", "k_test_", "whsec_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "gl", "AKIA", "ASIA",
    "ABIA", "ACCA", "AIza", "ya29.", "GOCSPX-", "xox", "xapp-", "hf_", "npm_", "pypi-", "dop_v1_", "shp", "SG.",
    "gsk_", "xai-", "r8_", "nvapi-", "AGE-", "tw_", "tws_",
)  # fmt: skip
"""Each match of a service's pattern contains one of these, which are much faster to search for."""
_NAME_SIGNS = (
    "key", "token", "secret", "pass", "pwd", "cred", "auth", "bearer", "cookie", "jwt", "dsn", "pat", "webhook", "url",
    "uri",
)  # fmt: skip
"""Each name of a secret contains one of these, in lower case."""
_SHORTEST = 7
"""The length of the shortest text that can contain a secret: a user and a password in an address, `://a:b@`."""
_WEB_TOKEN = LazyPattern(r"(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*){1,3}", re.ASCII)
_PEM_BEGIN = LazyPattern(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = LazyPattern(r"-----END [A-Z0-9 ]{0,60}-----")
_PEM_LINES = LazyPattern(r"(?:(?:\\n|\\r|\s){0,4}[A-Za-z0-9+/=]{16,})*")
_BEARER = LazyPattern(r"\bbearer[ \t]{1,4}([\w.~+/=-]{16,})", re.ASCII | re.IGNORECASE)
_AUTHORIZATION = LazyPattern(
    r"authorization[\"']?[ \t]{0,4}[:=][ \t]{0,4}[\"']?"
    r"(?:(?:basic|bearer|token|apikey|digest|negotiate)[ \t]{1,4})?"
    r"(?!(?:basic|bearer|token|apikey|digest|negotiate)(?![^\s\"',;]))([^\s\"',;]{4,})",
    re.IGNORECASE,
)
_USER = LazyPattern(r"://([^\s/?#\"'<>]{1,1024})@")
_HOOK = LazyPattern(r"hooks\.slack\.com/services/([A-Za-z0-9/_-]{8,})|discord(?:app)?\.com/api/webhooks/([\w/-]{8,})")
_QUERY = LazyPattern(r"[?&;]([A-Za-z][\w.%\[\]-]{0,63})=(?=[^\s&;#\"'<>])", re.ASCII)
_QUERY_VALUE = LazyPattern(r"[^\s&;#\"'<>]*")
_QUERY_NAMES = frozenset(("sig", "signature", "x-amz-signature", "x-goog-signature", "x-amz-credential", "sign"))
_ASSIGNMENT = LazyPattern(
    r"(?<![\w?&-])-{0,2}([A-Za-z_][\w-]{1,63})[\"']?[ \t]{0,4}(=>|:=|[:=])[ \t]{0,4}[\"']?(?=[^\s\"',;]{4})", re.ASCII
)
_FLAG = LazyPattern(r"(?<![\w-])--([A-Za-z][\w-]{1,63})[ \t]{1,4}(?=[^\s\"',;-][^\s\"',;]{3})", re.ASCII)
_ASSIGNED = LazyPattern(r"[^\s\"',;]*")
_PLACEHOLDERS = ("$", "[", "<", "*", "{", "…", "%", "os.", "process.")
_STRONG = ("token", "secret", "password", "passwd", "passphrase", "pwd", "apikey", "credential", "credentials")
_STRONG_PAIRS = LazyPattern(
    r"(?:api|access|secret|private|signing|encryption|account|db|user)[-_]?(?:key|pass)", re.IGNORECASE
)
_LONG_WORD = 12


def mask_text(text: str) -> str:
    """Mask everything in a text that looks like a secret."""
    return text if len(text) < _SHORTEST else masked(text, secret_spans(text))


def mask_value(value: JsonValue) -> JsonValue:
    """Mask all texts of a value; under a key that names a secret, mask the whole text."""
    match value:
        case str():
            return mask_text(value)
        case list() | tuple():  # pyright: ignore[reportUnnecessaryComparison] - a tuple is a list once it is written
            return [mask_value(item) for item in value]
        case dict():
            return {mask_text(key): _entry(key, item) for key, item in value.items()}
        case _:
            return value


def _entry(key: str, item: JsonValue) -> JsonValue:
    if isinstance(item, str) and is_written_out(item):
        if key.lower() in HEADERS or _is_assigned(key, "=", item):
            return HIDDEN
        if _strength(key) == "field" and len(item) >= 4 and not item.startswith(_PLACEHOLDERS):
            return HIDDEN
    return mask_value(item)


def masked(text: str, spans: list[Span]) -> str:
    """Replace each span of a text by the mark; the spans are in order and do not overlap."""
    if not spans:
        return text
    parts: list[str] = []
    at = 0
    for start, end in spans:
        parts += (text[at:start], HIDDEN)
        at = end
    return "".join([*parts, text[at:]])


def merged(spans: list[Span]) -> list[Span]:
    """Sort spans and merge those that overlap."""
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def secret_spans(text: str) -> list[Span]:
    """Return the spans that look like a secret, in order and without overlaps."""
    found: list[Span] = []
    for sign in _SERVICE_SIGNS:
        if sign in text:
            found += [one.span() for one in _SERVICES.finditer(text)]
            break
    if "eyJ" in text:
        found += [one.span() for one in _WEB_TOKEN.finditer(text)]
    if "-----BEGIN " in text:
        found += _private_keys(text)
    if "earer" in text or "EARER" in text:
        found += [one.span(1) for one in _BEARER.finditer(text)]
    if ":" in text or "=" in text:
        if "uthorization" in text or "UTHORIZATION" in text:
            found += [one.span(1) for one in _AUTHORIZATION.finditer(text)]
        lower = text.lower()
        for sign in _NAME_SIGNS:
            if sign in lower:
                found += _assignments(text)
                break
    if "/" in text:
        found += _addresses(text)
    if "--" in text:
        found += _flags(text)
    return merged([span for span in found if text[slice(*span)] != HIDDEN]) if found else found


def _private_keys(text: str) -> Iterator[Span]:
    """Yield private keys with their headers; of a truncated key, the lines that are there."""
    over, ends = 0, True
    while begin := _PEM_BEGIN.search(text, over):
        end = _PEM_END.search(text, begin.end()) if ends else None
        ends = end is not None
        lines = end or _PEM_LINES.match(text, begin.end())
        assert lines is not None
        over = lines.end()
        yield begin.start(), over


def _addresses(text: str) -> Iterator[Span]:
    if "://" in text:
        for found in _USER.finditer(text):
            user, colon, _ = found[1].partition(":")
            if colon and len(found[1]) > len(user) + 1:
                yield found.start(1) + len(user) + 1, found.end(1)
            elif not colon and len(user) >= _LONG_WORD:
                yield found.span(1)
    for found in _HOOK.finditer(text):
        yield found.span(found.lastindex or 0)
    if "=" in text:
        for found in _QUERY.finditer(text):
            if found[1].lower() in _QUERY_NAMES or is_secret_name(found[1]):
                value = _QUERY_VALUE.match(text, found.end())
                assert value is not None
                yield value.span()


def _assignments(text: str) -> Iterator[Span]:
    """Yield values that are assigned to names of secrets; each value is checked once."""
    over = 0
    for found in _ASSIGNMENT.finditer(text):
        if found.end() < over or _strength(found[1]) == "none":
            continue
        value = _ASSIGNED.match(text, found.end())
        assert value is not None
        over = value.end()
        if _is_assigned(found[1], found[2], value[0]):
            yield value.span()


def _flags(text: str) -> Iterator[Span]:
    """Yield values of command-line options."""
    for found in _FLAG.finditer(text):
        value = _ASSIGNED.match(text, found.end())
        if value is not None and _strength(found[1]) != "none" and _is_assigned(found[1], " ", value[0]):
            yield value.span()


@lru_cache(maxsize=4096)
def _strength(name: str) -> Strength:
    """How surely a name in prose is that of a secret: `key` and `auth` alone are ordinary words."""
    if not is_secret_name(name):
        return "none"
    if name.isupper() and "_" in name:
        return "variable"
    if name.lower().endswith(_STRONG) or _STRONG_PAIRS.search(name):
        return "field"
    return "none" if name.isalpha() else "weak"


def _is_assigned(name: str, sign: str, value: str) -> bool:
    """Whether the value can be a secret, and not a description or a placeholder."""
    if value.startswith(_PLACEHOLDERS) or len(value) < 4:
        return False
    plain = value.rstrip(".)").isalpha()
    match _strength(name):
        case "variable":
            return "=" in sign or not (plain and value.islower() and len(value) < _LONG_WORD)
        case "field":
            return len(value) >= 6 and not plain and any(char.isdigit() for char in value)
        case "weak":
            return len(value) >= 16 and not plain and any(char.isdigit() for char in value)
        case "none":
            return False


class MaskedStream:
    """Masks a streamed text word by word. The last word is held back until it ends, since it may be a secret.

    Writing systems without blanks are not held back. A word that is too long to hold back is dropped, as is the inside
    of a private key.
    """

    __slots__ = ("_before", "_inside", "_last_line", "_length", "_waiting")

    def __init__(self) -> None:
        self._before = ""
        self._waiting: list[str] = []
        self._length = 0
        self._inside = False
        self._last_line: str | None = None
        """What has come of the last line of a private key, which is hidden with it."""

    def feed(self, piece: str) -> str:
        """Add a piece of text and return what can be shown now."""
        end = _last_end(piece)
        if end == 0:
            self._wait(piece)
            return ""
        words = "".join([*self._waiting, piece[:end]])
        self._waiting, self._length = [], 0
        self._wait(piece[end:])
        return self._shown(words)

    def flush(self) -> str:
        """Return what was held back, at the end of the stream."""
        words = "".join(self._waiting)
        self._waiting, self._length = [], 0
        return self._shown(words)

    def _wait(self, part: str) -> None:
        self._length += len(part)
        if part and self._length <= _LONGEST_WORD:
            self._waiting.append(part)
        elif part:
            self._waiting = ["…"]

    def _shown(self, words: str) -> str:
        outside: list[str] = []
        for index, part in enumerate(_FRAME.split(words)):
            if index % 2 and part != _DASHES:
                outside += [HIDDEN] if part == _BEGIN and not self._inside else []
                self._last_line = "" if part != _BEGIN and self._inside else None
                self._inside = part == _BEGIN
            elif self._last_line is not None:
                line = self._last_line + part
                is_open = part != _DASHES and _LAST_LINE.fullmatch(line) is not None
                outside += [] if is_open or part == _DASHES else [line]
                self._last_line = line if is_open else None
            elif not self._inside:
                outside.append(part)
        known = len(self._before)
        text = self._before + "".join(outside)
        self._before = text[-_BEFORE:]
        later = [(max(start, known) - known, end - known) for start, end in secret_spans(text) if end > known]
        return masked(text[known:], later)


_BEGIN = "-----BEGIN"
_DASHES = "-----"
_FRAME = re.compile(r"(-----(?:BEGIN|END)?)")
_LAST_LINE = re.compile(r"[A-Z0-9 ]{0,61}")
_LONGEST_WORD = 4096
_BEFORE = 200
_TO_LAST_IDEOGRAPH = LazyPattern(r".*[\u2e80-\U0010ffff]", re.DOTALL)


def _last_end(piece: str) -> int:
    """The end of the last whole word of a piece; 0 where there is none."""
    words = piece.rsplit(None, 1)
    if not words or piece[-1].isspace():
        return len(piece)
    begun = len(piece) - len(words[-1])
    if words[-1].isascii():
        return begun
    found = _TO_LAST_IDEOGRAPH.match(words[-1])
    return begun if found is None else begun + found.end()
