from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from teamwright.agents.clients.chat_stream import EventReader

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def read(*pieces: bytes) -> list[bytes]:
    """The data of all events in these pieces."""
    reader = EventReader()
    found = [data for piece in pieces for data in reader.feed(piece)]
    return [data for data in (*found, reader.end()) if data]


@given(
    st.lists(TEXTS, max_size=5),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"", b"\xef\xbb\xbf", b" \n\n"]),
    st.integers(1, 12),
)
def test_events_are_the_same_however_they_are_divided_and_whatever_ends_a_line(
    texts: list[str], end: bytes, before: bytes, size: int
) -> None:
    data = [json.dumps(text, ensure_ascii=False).encode() for text in texts]
    sent = before + b"".join(b": ping" + 2 * end + b"data: " + one + 2 * end for one in data)
    assert read(*(sent[at : at + size] for at in range(0, len(sent), size))) == data


@pytest.mark.parametrize(
    ("sent", "data"),
    [
        (b"data:1\n\n", b"1"),
        (b"data: 1\nid: 7\nretry: 3\n\n", b"1"),
        (b"event: message\ndata: 1\n\n", b"1"),
        (b"data: [1,\ndata: 2]\n\n", b"[1,\n2]"),
        (b'event: error\ndata: "no"\n\n', b'{"error":"no"}'),
        (b'event:error\ndata: "no"\n\n', b'{"error":"no"}'),
        (b'error: "no"\n\n', b'{"error":"no"}'),
        (b"data: 1", b"1"),
        (b"data: 1\r", b"1"),
    ],
)
def test_the_data_of_an_event_is_in_lines_of_that_name(sent: bytes, data: bytes) -> None:
    assert read(sent) == [data]


@pytest.mark.parametrize("sent", [b"", b"\n\n\n", b": ping\n\n", b"event: error\n\n", b"id: 7\n\n", b"nonsense"])
def test_what_has_no_data_is_no_event(sent: bytes) -> None:
    assert read(sent) == []


@pytest.mark.parametrize("before", [b"", b"  \n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("sent", [b'{\n "a": 1\r\n\n}\n', b"[1]", b"<html>\n\n</html>"])
def test_a_document_is_kept_as_it_is(before: bytes, sent: bytes) -> None:
    reader = EventReader()
    assert [data for one in before + sent for data in reader.feed(bytes((one,)))] == []
    assert (reader.is_document, reader.end()) == (True, sent)


def test_what_has_arrived_of_a_line_is_not_copied_for_each_piece() -> None:
    reader = EventReader()
    rest = reader._rest
    for _ in range(1000):
        assert list(reader.feed(b"data")) == []
        assert reader._rest is rest
