"""When a provider takes calls again, where it says so in another way than by `Retry-After`.

Read from the headers of limits that are used up, and from the retry information of Google's errors. What can't be read
counts as not said. Nothing here decides to wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import cast

RESET = re.compile(r"(?P<family>.*ratelimit)(?P<infix>.*?)-reset(?P<limit>-.+)?")
"""The header of when a limit is full again; beside it, one says with `remaining` how much is left of the limit."""
PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
LEAST_INSTANT = 1e9
"""Numbers from here on are points in time, in seconds since 1970, or in milliseconds if they are a thousand times this;
smaller ones are seconds from now."""
RETRY_INFO = "google.rpc.RetryInfo"


def reset_after(headers: Mapping[str, str] | None, body: object) -> float | None:
    """Return the seconds until every limit that is used up is full again; `None` where the provider says nothing."""
    found = [*_of_headers(headers or {}), *_of_body(body)]
    return max(found, default=None)


def _of_headers(headers: Mapping[str, str]) -> Iterator[float]:
    for name, value in headers.items():
        if (matched := RESET.fullmatch(name)) is None:
            continue
        left = headers.get(f"{matched['family']}{matched['infix']}-remaining{matched['limit'] or ''}")
        if (left is None or left.strip() in ("0", "0.0")) and (seconds := seconds_of_reset(value)) is not None:
            yield seconds


def _of_body(body: object) -> Iterator[float]:
    if isinstance(body, Mapping):
        inner = cast("Mapping[str, object]", body)
        yield from _of_body(inner.get("error"))
        details = inner.get("details")
        for detail in cast("list[object]", details) if isinstance(details, list) else ():
            one = cast("Mapping[str, object]", detail if isinstance(detail, Mapping) else {})
            delay = str(one.get("retryDelay", "")) if str(one.get("@type", "")).endswith(RETRY_INFO) else ""
            if (seconds := seconds_of_reset(delay)) is not None:
                yield seconds
    elif isinstance(body, list) and body:
        yield from _of_body(cast("list[object]", body)[0])


def seconds_of_reset(text: str) -> float | None:
    """Return the seconds from now that a text names: `6m0s`, a number, or an instant as a number or in ISO 8601."""
    text = text.strip()
    try:
        number = float(text)
    except ValueError:
        return _of_duration(text)
    if number >= LEAST_INSTANT * 1000:
        number /= 1000
    seconds = number - time.time() if number >= LEAST_INSTANT else number
    return max(0.0, seconds) if seconds == seconds else None  # noqa: PLR0124 - not a number


def _of_duration(text: str) -> float | None:
    parts = PART.findall(text)
    if parts and "".join(amount + unit for amount, unit in parts) == text:
        return sum(float(amount) * UNITS[unit] for amount, unit in parts)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        return None
    instant = instant if instant.tzinfo is not None else instant.replace(tzinfo=UTC)
    return max(0.0, instant.timestamp() - time.time())
