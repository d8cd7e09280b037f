"""Media types come from the content; the name decides only among texts and office documents."""

from __future__ import annotations

import pytest

from teamwright.values.turns.artifacts import is_text_type, media_type_of, suffix_of


@pytest.mark.parametrize(
    ("content", "name", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n", "", "image/png"),
        (b"\xff\xd8\xff\xe0", "a.png", "image/jpeg"),
        (b"GIF89a", "", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "", "image/webp"),
        (b"RIFF\0\0\0\0WAVEfmt ", "", "audio/wav"),
        (b"\0\0\0\x18ftypavif", "", "image/avif"),
        (b"\0\0\0\x18ftypisom", "", "video/mp4"),
        (b"%PDF-1.7", "a.txt", "application/pdf"),
        (b"PK\x03\x04", "a.zip", "application/zip"),
        (b"PK\x03\x04", "a.DOCX", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        (b"{}", "a.json", "application/json"),
        (b"a: 1", "a.yml", "application/yaml"),
        (b"# a", "a.md", "text/markdown"),
        ("größer".encode(), "noname", "text/plain"),
        (b"a\0b", "a.txt", "application/octet-stream"),
        (b"\xff\xfe", "a.csv", "application/octet-stream"),
        (b"RIFF", "", "text/plain"),
        (b"", "a.csv", "text/csv"),
    ],
)
def test_the_media_type_of_a_content(content: bytes, name: str, expected: str) -> None:
    assert media_type_of(content, name) == expected


def test_which_types_are_text() -> None:
    texts = ("text/plain", "text/csv; charset=utf-8", "application/json", "application/ld+json", "image/svg+xml")
    assert [one for one in texts if not is_text_type(one)] == []
    assert [one for one in ("image/png", "application/pdf", "application/octet-stream") if is_text_type(one)] == []


def test_a_file_without_a_name_gets_the_usual_suffix() -> None:
    assert [suffix_of(one) for one in ("image/png", "text/plain", "a/b")] == [".png", ".txt", ""]
