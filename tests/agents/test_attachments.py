"""Files for a task: read once, checked, and refused in words that name them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from teamwright.agents.attachments import (
    LARGEST_FILE,
    LARGEST_TOTAL,
    MOST_FILES,
    Attachment,
    AttachmentLike,
    read_attachments,
)
from teamwright.errors import UsageError

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"


def test_a_file_is_read_with_its_name_and_the_type_of_its_content(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"  # a wrong suffix among images does not matter
    file.write_bytes(PNG)
    found = Attachment.read(file)
    assert (found.name, found.media_type, found.content) == ("photo.jpg", "image/png", PNG)


def test_bytes_have_the_media_type_that_is_given_or_found() -> None:
    assert Attachment(PNG).media_type == "image/png"
    assert Attachment(PNG).name == "file.png"
    assert Attachment(b"abc", "notes.md").media_type == "text/markdown"
    assert Attachment(b"\0\1", "x.bin", "application/x-own").media_type == "application/x-own"


def test_a_text_is_attached_as_utf_8() -> None:
    assert Attachment("größer", "a.txt").content == "größer".encode()  # pyright: ignore[reportArgumentType]


def test_a_name_is_reduced_to_its_last_part_without_control_characters() -> None:
    assert Attachment(PNG, "../../etc/a\nb.png").name == "a_b.png"


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.png").write_bytes(PNG)
    link = tmp_path / "link.png"
    link.symlink_to(tmp_path / "real.png")
    assert Attachment.read(link).content == PNG


def _folder(path: Path) -> None:
    path.mkdir()


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def _loop(path: Path) -> None:
    path.symlink_to(path)


def _empty(path: Path) -> None:
    path.touch()


def _huge(path: Path) -> None:
    with path.open("wb") as opened:
        opened.truncate(1 << 30)  # claims a gigabyte and holds none of it


def _mislabelled(path: Path) -> None:
    path.write_bytes(b"this is no picture")


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (None, "No such file"),
        (_folder, "it is a folder"),
        (_pipe, "no regular file"),
        (_dangling, "No such file"),
        (_loop, "symbolic links"),
        (_empty, "is empty"),
        (_huge, "1.1 GB; an attachment can have 20.0 MB"),
        (_mislabelled, "named like image/png, but its content is text/plain"),
    ],
)
def test_a_hostile_file_is_refused_in_words_that_name_it(tmp_path: Path, make: object, reason: str) -> None:
    file = tmp_path / "photo.png"
    if callable(make):
        make(file)
    with pytest.raises(UsageError, match=r"photo\.png") as refused:
        Attachment.read(file)
    assert reason in str(refused.value)


def test_a_path_that_no_system_takes_is_refused() -> None:
    with pytest.raises(UsageError, match="can't be attached"):
        Attachment.read("a\0b")


def test_every_file_that_cannot_be_attached_is_reported_at_once(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    (tmp_path / "fine.txt").write_text("x")
    with pytest.raises(UsageError) as refused:
        read_attachments([tmp_path / name for name in ("empty.txt", "fine.txt", "none.png", "other.png")])
    assert [one for one in ("empty", "fine", "none", "other") if one in str(refused.value)] == [
        "empty",
        "none",
        "other",
    ]
    assert len(refused.value.reasons) == 3


def test_content_that_is_not_what_it_is_given_as_is_refused() -> None:
    with pytest.raises(UsageError, match="no UTF-8 text"):
        Attachment(b"\xff\xfe\0", "a.bin", "text/plain")
    with pytest.raises(UsageError, match="bytes or text, not 'int'"):
        Attachment(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([3], "not a 'int'"),
        ([PNG], "needs a name"),
    ],
)
def test_what_is_no_list_of_files_is_refused(given: list[AttachmentLike], reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        read_attachments(given)


def test_too_many_or_too_large_attachments_are_refused() -> None:
    with pytest.raises(UsageError, match=f"At most {MOST_FILES} files can be attached at once, and these are 101"):
        read_attachments([Attachment(PNG)] * 101)
    large = Attachment(b"\0" * LARGEST_FILE, "a.bin")
    with pytest.raises(UsageError, match=r"60\.0 MB in total"):
        read_attachments([large] * (LARGEST_TOTAL // LARGEST_FILE + 1))
