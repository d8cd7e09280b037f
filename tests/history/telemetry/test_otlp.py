from __future__ import annotations

import socket
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from time import monotonic, sleep
from typing import Any

import pytest
from hypothesis import given, strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from teamwright.errors import UsageError
from teamwright.history.telemetry.otlp import RESOURCE, SERVICE, Receiver, encode, encode_json
from teamwright.history.telemetry.spans import Span, SpanEvent, SpanLink
from tests.kit.telemetry import OtlpReceiver, attributes_of

SPAN = Span(
    trace_id=b"t" * 16,
    span_id=b"s" * 8,
    parent=b"p" * 8,
    name="chat m",
    kind="client",
    begin=1.5,
    end=2.25,
    attributes={"text": "x", "number": 3, "share": 0.5, "true": True, "list": ("a", "b")},
    links=(SpanLink(trace_id=b"l" * 16, span_id=b"k" * 8, to="fork"),),
    notes=(SpanEvent(name="budget.refused", time=2.0, attributes={"teamwright.key": "k"}),),
    error="it failed",
)


def test_a_span_in_json_has_the_same_as_in_protobuf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVICE, "bridge")
    monkeypatch.setenv(RESOURCE, "deployment.environment.name=test,odd,=x,a%20b=c%2Cd")
    decoded = ExportTraceServiceRequest.FromString(encode([SPAN]))
    resource = {one.key: one.value.string_value for one in decoded.resource_spans[0].resource.attributes}
    assert resource == {"service.name": "bridge", "deployment.environment.name": "test", "a b": "c,d"}
    span = decoded.resource_spans[0].scope_spans[0].spans[0]
    assert (span.name, span.kind, span.status.code, span.status.message) == ("chat m", 3, 2, "it failed")
    assert (span.start_time_unix_nano, span.end_time_unix_nano) == (1_500_000_000, 2_250_000_000)
    found = attributes_of(span)
    assert found.pop("list")
    assert found == {"text": "x", "number": 3, "share": 0.5, "true": True}
    written: Any = encode_json([SPAN])
    one = written["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    assert (one["traceId"], one["parentSpanId"]) == ((b"t" * 16).hex(), (b"p" * 8).hex())
    assert one["links"][0]["spanId"] == (b"k" * 8).hex()
    assert (one["kind"], one["status"]["code"]) == (3, 2)


@given(st.text(st.characters(), max_size=50))
def test_any_text_can_be_sent(text: str) -> None:
    made = SPAN.changed(name=text + "\ud800", error=text + "\udfff", attributes={"a": text + "\ud8ff\x00"})
    assert ExportTraceServiceRequest.FromString(encode([made]))


@pytest.mark.parametrize(
    ("endpoint", "target", "place"),
    [
        ("http://localhost:4318", "/v1/traces", "localhost:4318"),
        ("https://host/api/otel/", "/api/otel/v1/traces", "host:443"),
        ("http://[::1]:6006/v1/traces", "/v1/traces", "[::1]:6006"),
        ("http://host/x?project=1", "/x/v1/traces?project=1", "host:80"),
    ],
)
def test_traces_go_below_the_address_of_a_receiver(endpoint: str, target: str, place: str) -> None:
    made = Receiver.at(endpoint)
    assert (made.target, made.place) == (target, place)


def test_a_password_of_an_address_is_sent_as_a_header_and_shown_nowhere() -> None:
    with OtlpReceiver([403]) as receiver:
        made = Receiver.at(receiver.url.replace("//", "//me:pass%20word@"))
        response = made.send(encode([SPAN]))
    assert receiver.posts[0].headers["authorization"] == "Basic bWU6cGFzcyB3b3Jk"
    assert "pass" not in f"{made!r}{response!r}{made.place}"
    assert response.problem == "answers HTTP 403: set its headers in OTEL_EXPORTER_OTLP_HEADERS"
    with pytest.raises(UsageError) as error:
        Receiver.at("ftp://me:pass-word-0815@host")
    assert "pass-word" not in str(error.value)


RETRYABLE = {200: False, 400: False, 404: False, 413: False, 429: True, 500: False, 502: True, 503: True, 504: True}


@pytest.mark.parametrize(("status", "retry"), RETRYABLE.items())
def test_only_the_statuses_that_otlp_names_are_sent_again(status: int, retry: bool) -> None:
    with OtlpReceiver([status], headers={"Retry-After": "7"}) as receiver:
        response = Receiver.at(receiver.url).send(encode([SPAN]))
    assert response.retry == retry
    assert (response.problem is None) == (status == 200)
    assert response.retry_after == (0 if status == 200 else 7)


def test_a_time_to_come_back_may_be_a_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    for value, expected in {date: 30, "soon": 0, "-5": 0, "99999999999999999999": 999999999}.items():
        with OtlpReceiver([503], headers={"Retry-After": value}) as receiver:
            response = Receiver.at(receiver.url).send(encode([SPAN]))
        assert response.retry_after == pytest.approx(expected, abs=5)


def test_a_redirect_is_not_followed() -> None:
    with OtlpReceiver() as other, OtlpReceiver([307], headers={"Location": other.url}) as receiver:
        response = Receiver.at(receiver.url).send(encode([SPAN]))
    assert response.problem == "answers HTTP 307"
    assert not other.posts


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (b"", "can't be reached"),
        (b"nonsense\r\n\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n", "does not speak HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnonsense!", None),
        (None, "does not answer in time"),
    ],
)
def test_a_receiver_may_answer_anything(answer: bytes | None, problem: str | None) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    done = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            if answer is None:
                done.wait(20)
            else:
                connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        made = Receiver.at(f"http://127.0.0.1:{listener.getsockname()[1]}")
        response = made.send(encode([SPAN]), timeout=0.3 if answer is None else 5)
    finally:
        done.set()
        thread.join()
        listener.close()
    assert (response.problem or "").startswith(problem or "")
    assert (response.problem is None) == (problem is None)


@pytest.mark.parametrize("drips", [b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n"])
def test_a_receiver_that_answers_byte_by_byte_takes_no_longer_than_one_that_is_silent(drips: bytes) -> None:
    def drip(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(drips)
            for _ in range(200):
                connection.sendall(b"x")
                sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=lambda: drip(listening.accept()[0]), daemon=True)
        thread.start()
        began = monotonic()
        answer = Receiver.at(f"http://127.0.0.1:{listening.getsockname()[1]}").send(b"body", 0.3)
        assert monotonic() - began < 5
    assert (answer.problem, answer.retry) == ("does not answer in time", True)
    thread.join()
