"""What the environment says of telemetry, by the variables of OpenTelemetry: to whom it goes, as whom, and with what.

The headers are secrets: no message, record or file has them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from urllib.parse import unquote

from teamwright.errors import UsageError
from teamwright.history.telemetry.conventions import SCOPE

ENDPOINT, HEADERS = "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS"
SERVICE, RESOURCE, DISABLED = "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"
EXPORTER = "OTEL_TRACES_EXPORTER"
"""Names to whom traces go, of which we know `otlp`; with others alone, such as `none`, nothing is sent."""
CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""Asks instrumentations of models for what is said; in spans, which is where it goes, with one of `IN_SPANS`."""
IN_SPANS = frozenset(("true", "span_only", "span_and_event"))
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"[\t -~]*")


def configured_endpoint() -> str | None:
    """Return the receiver that the environment names, unless telemetry is disabled there, or traces go elsewhere."""
    exporters = {one.strip().lower() for one in os.environ.get(EXPORTER, "otlp").split(",")}
    if os.environ.get(DISABLED, "").strip().lower() == "true" or "otlp" not in exporters:
        return None
    return os.environ.get(ENDPOINT, "").strip() or None


def wants_content() -> bool:
    """Whether live telemetry has what is said in runs."""
    return os.environ.get(CONTENT, "").strip().lower() in IN_SPANS


def configured_headers() -> dict[str, str]:
    """Return the headers of each request; raises `UsageError` if they can't be sent."""
    headers = dict(_pairs(os.environ.get(HEADERS, "")))
    for name, value in headers.items():
        if not _HEADER.fullmatch(name) or not _HEADER_VALUE.fullmatch(value):
            raise UsageError(f"{HEADERS} must be  name=value,name=value  with percent-encoded values.")
    return headers


def resource_attributes() -> dict[str, str]:
    """Return what describes this program to the receiver."""
    given = dict(_pairs(os.environ.get(RESOURCE, "")))
    return {**given, "service.name": os.environ.get(SERVICE) or given.get("service.name") or SCOPE}


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Read `name=value,name=value`, percent-encoded."""
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if equals and name.strip():
            yield unquote(name.strip()), unquote(value.strip())
