import pytest

from teamwright.errors import UsageError
from teamwright.teams import run_files as files
from teamwright.teams.run_files import body_of, check_files, check_path, digest_of

HOSTILE_PATHS = [
    "",
    ".",
    "..",
    "/etc/passwd",
    "../secrets.yaml",
    "a/../../b",
    "a//b",
    "./a",
    "a/",
    "C:/windows",
    "a\\..\\b",
    "a\0b",
    "a\nb",
    "x" * 201,
    "/".join(["deep"] * 200),
]


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_a_path_that_is_not_plainly_below_the_folder_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="can't travel"):
        check_path(path)


def test_plain_paths_are_accepted() -> None:
    for path in ("replies.yaml", "skills/review/SKILL.md", "añadidos/größe.txt", "a b/c-d_e.f"):
        check_path(path)


def test_too_many_and_too_large_files_are_refused_with_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LARGEST_FILE", 10)
    monkeypatch.setattr(files, "LARGEST_TOTAL", 15)
    monkeypatch.setattr(files, "MOST_FILES", 2)
    with pytest.raises(UsageError, match=r"'a' has more than 10 B"):
        check_files({"a": b"x" * 11})
    with pytest.raises(UsageError, match="have more than 15 B together"):
        check_files({"a": b"x" * 8, "b": b"x" * 8})
    with pytest.raises(UsageError, match="names 3 files"):
        check_files({"a": b"", "b": b"", "c": b""})


def test_a_file_can_not_also_be_a_folder() -> None:
    with pytest.raises(UsageError, match="'a' can't travel"):
        check_files({"a": b"1", "a/b": b"2"})


def test_a_digest_covers_paths_and_contents() -> None:
    one = digest_of({"a": body_of(b"1"), "b": body_of(b"2")})
    assert one == digest_of({"b": body_of(b"2"), "a": body_of(b"1")})
    assert one != digest_of({"a": body_of(b"2"), "b": body_of(b"1")})
    assert one != digest_of({"a": body_of(b"1")})
