"""Reading YAML: positions, bounds, and a clear problem for whatever is not YAML."""

import os
from pathlib import Path

import pytest
import yaml
from pydantic import JsonValue

from teamwright.documents import reader
from teamwright.documents.nodes import Fields, ProblemReport, plain
from teamwright.documents.reader import MAX_BYTES, FileForm, mapping_form, read_file

ANY = FileForm(lambda _: True, "")


def read(folder: Path, text: str | bytes) -> tuple[list[JsonValue], list[str]]:
    file = folder / "a.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    report = ProblemReport()
    documents = [plain(node) for node in read_file(file, report, form=ANY)]
    return documents, [str(one).removeprefix(f"{file}:").removeprefix(" ") for one in report.problems]


def test_documents_and_positions_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("a: 1\n---\n# nothing\n---\nb:\n  - x\n")
    first, second = read_file(file, ProblemReport(), form=ANY)
    assert (plain(first), plain(second)) == ({"a": 1}, {"b": ["x"]})
    assert isinstance(second, Fields)
    item = second.entries["b"]
    assert (item.place.line, item.place.column) == (5, 1)
    assert (item.node.place.line, item.node.place.column) == (6, 3)


def test_small_aliases_and_merge_keys_are_fine(tmp_path: Path) -> None:
    text = "x: &x {m: local, t: 1}\na: {<<: *x, t: 2}\nb: {<<: [{m: 3}, *x]}\nc: [*x, *x]\n"
    documents, found = read(tmp_path, text)
    x = {"m": "local", "t": 1}
    assert documents == [{"x": x, "a": {"m": "local", "t": 2}, "b": {"m": 3, "t": 1}, "c": [x, x]}]
    assert not found


def test_a_duplicate_key_is_reported_with_both_positions(tmp_path: Path) -> None:
    _, found = read(tmp_path, "a: 1\nb: {c: 1, c: 2}\na: 2\n")
    assert found == [
        "2:11: The key 'c' is duplicated (the first is in line 2, column 5; remove one)",
        "3:1: The key 'a' is duplicated (the first is in line 1, column 1; remove one)",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "The file is empty: it declares nothing"),
        ("# only a comment\n", "The file is empty"),
        ("a: b: c", "1:5: This is not YAML: mapping values are not allowed"),
        ("a:\n\tb: c", "indent with spaces, not with tabs"),
        ("a: @b", "put a text that starts like this in quotes"),
        ("a: [1, 2", "This is not YAML"),
        ("a: 'b", "This is not YAML"),
        ("%YAML 3.0\n---\na: 1", "This is not YAML"),
        ("a: {{ b }}", "put a text that starts with '{{' in quotes"),
        ("a: *b", "1:4: There is no anchor &b"),
        ("a: &a [*a]", "1:8: *a is used inside its own anchor"),
        ("a: &a {b: {c: *a}}", "*a is used inside its own anchor"),
        ("1: a", '1:1: A key must be text, and this is the number 1 (write "1")'),
        ("true: a", 'this is true (write "true")'),
        ("~: a", "this is nothing"),
        ("? [a]\n: b", "A key must be text, and this is a list"),
        ("<<: 5", "'<<' expects mappings, and this is the number 5"),
        ("a: !!python/object/apply:os.system [ls]", "is not supported"),
        ("a: !thing b", "The tag '!thing' is not supported"),
        ('a: "b\\0"', "1:4: The text contains the control character U+0000"),
        ('a: "\\e[31m"', "U+001B"),
        (b"a: b\n  \x00", "2:3: The file contains the control character U+0000"),
        (b"\xff\xfea\x00", "1:1: The file is not UTF-8 text"),
        ("a: 1\nb: ä".encode("latin-1"), "2:4: The file is not UTF-8 text"),
        ("[" * 100_000, "nested more than 50 levels deep"),
        ("{a: " * 100_000, "nested more than 50 levels deep"),
        ("- " * 100_000, "nested more than 50 levels deep"),
        (b"a: " + b"x" * MAX_BYTES, "larger than 1 MiB"),
    ],
)
def test_what_cannot_be_read_is_reported_clearly(tmp_path: Path, text: str | bytes, told: str) -> None:
    _, found = read(tmp_path, text)
    assert len(found) == 1
    assert told in found[0]


def test_a_bomb_of_aliases_is_refused(tmp_path: Path) -> None:
    levels = [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12)]
    _, found = read(tmp_path, "l0: &l0 lol\n" + "\n".join(levels))
    assert len(found) == 1
    assert "is too large" in found[0]


def test_a_bomb_of_one_long_text_is_refused(tmp_path: Path) -> None:
    _, found = read(tmp_path, f"a: &a {'x' * 100_000}\nb: [{', '.join(['*a'] * 1000)}]")
    assert "is too large" in found[0]


def test_a_bomb_of_merge_keys_is_refused(tmp_path: Path) -> None:
    levels = [f"l{n}: &l{n} {{a{n}: 1, <<: [{', '.join([f'*l{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    _, found = read(tmp_path, "l0: &l0 {a: 1}\n" + "\n".join(levels))
    assert "is too large" in found[0]


def test_depth_by_aliases_is_bounded(tmp_path: Path) -> None:
    levels = [f"l{n}: &l{n} {'[' * 20}*l{n - 1}{']' * 20}" for n in range(1, 500)]
    _, found = read(tmp_path, "l0: &l0 x\n" + "\n".join(levels))
    assert "nested more than 50 levels deep" in found[0]


def test_a_byte_order_mark_and_windows_line_ends_are_fine(tmp_path: Path) -> None:
    assert read(tmp_path, b"\xef\xbb\xbfa: b\r\nc: d\r\n") == ([{"a": "b", "c": "d"}], [])


def test_a_missing_file_is_reported_with_its_neighbours(tmp_path: Path) -> None:
    (tmp_path / "team.yaml").write_text("a: 1")
    report = ProblemReport()
    assert read_file(tmp_path / "taem.yaml", report, form=ANY) == []
    assert report.incomplete
    assert (report.problems[0].message, report.problems[0].suggestion) == (
        "There is no such file",
        "did you mean 'team.yaml'?",
    )


def test_a_value_that_is_no_file_is_reported(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    for path in (tmp_path / "pipe.yaml", tmp_path / "a\0b.yaml", tmp_path / ("x" * 300), Path()):
        report = ProblemReport()
        assert read_file(path, report, form=ANY) == []
        assert len(report.problems) == 1


def test_the_python_parser_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "a: &x [1, 'b', ~]\nb: *x\nc: {<<: {d: 1.5}}\n---\n- x\n"
    with_c = read(tmp_path, text)
    monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    assert read(tmp_path, text) == with_c
    for broken in ("a: [", "a:\n\tb: c", "a: b: c", "[" * 1000):
        assert read(tmp_path, broken)[1]


def test_the_bounds_leave_room_for_large_manifests(tmp_path: Path) -> None:
    lines = "".join(f"  agent-{number}: {{model: local, instructions: Be brief.}}\n" for number in range(5000))
    documents, found = read(tmp_path, "agents:\n" + lines)
    assert not found
    assert len(documents) == 1
    assert reader.MAX_NODES > 5000 * 6


@pytest.mark.parametrize(
    "text",
    [
        "root:$6$S3CRET:19000:0:99999:7:::\n", "PASSWORD=S3CRET\nOTHER=S3CRET\n", "S3CRET: 1\nS3CRET: 2\n",
        "- S3CRET\n", "a: *S3CRET\n", "a: !!S3CRET x\n", "{S3CRET: 1}: 2\n", "a: 'S3CRET\n", "a: S3CRET: b\n",
        "[S3CRET]\nk = S3CRET\n", "%S3CRET 1\n---\na\n", "<<: S3CRET\n", "S3CRET", "a:\n\tS3CRET\n",
        "1234567890: S3CRET\n", "---\nS3CRET\n---\nS3CRET\n",
    ],
)  # fmt: skip
def test_a_file_that_is_not_ours_is_never_quoted(text: str, tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text(text)
    report = ProblemReport()
    form = mapping_form(("agents",), "This is not a manifest")
    assert read_file(file, report, form=form) == []
    assert report.problems
    assert report.incomplete
    said = "".join(f"{one.message} {one.suggestion}" for one in report.problems)
    assert "S3CRET" not in said
    assert "1234567890" not in said
    assert all((one.file, one.line > 0) == (str(file), True) for one in report.problems)


@pytest.mark.parametrize("text", ["agents: {}\nb: *gone\n", "agnets: {}\nb: 1\nb: 2\n"])
def test_a_file_of_ours_with_a_mistake_is_quoted(text: str, tmp_path: Path) -> None:
    (file := tmp_path / "file").write_text(text)
    report = ProblemReport()
    form = mapping_form(("agents",), "This is not a manifest")
    read_file(file, report, form=form)
    assert [one.message for one in report.problems] in (["There is no anchor &gone"], ["The key 'b' is duplicated"])
