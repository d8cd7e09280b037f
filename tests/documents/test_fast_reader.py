"""The quick reader reads what the careful one reads, or leaves it to that one."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st
from pydantic import JsonValue

from teamwright.documents.fast_reader import read_fast
from teamwright.documents.nodes import ProblemReport, plain
from teamwright.documents.reader import MANIFEST, FileForm, ReadLimits, read_file
from teamwright.errors import ManifestError
from teamwright.teams.manifests.plans import read_plan
from tests.paths import EXAMPLES

ANY = FileForm(lambda _: True, "")

DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=20,
)
PIECES = st.lists(
    st.sampled_from(
        ["a", ": ", "- ", "\n", "  ", "{", "}", "[", "]", ", ", "*x ", "&x ", "<<", "!!str ", "'q'", '"\\x01"', "1",
         "010", "yes", "~", ".inf", "1e999", "#c", "---\n", "? ", "|\n", "b: 1\n", "a: 2\n"]
    ),
    max_size=14,
)  # fmt: skip


def carefully(text: str, folder: Path) -> JsonValue | None:
    """The result of the full reader: the only document of a text, or None if it reports a problem."""
    file = folder / "file.yaml"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    report = ProblemReport()
    documents = read_file(file, report, form=ANY)
    return plain(documents[0]) if len(documents) == 1 and not report.problems else None


@given(DATA, st.sampled_from([True, False, None]))
def test_what_is_read_quickly_is_what_is_read_with_places(
    tmp_path_factory: pytest.TempPathFactory, data: JsonValue, style: bool | None
) -> None:
    text = yaml.safe_dump(data, default_flow_style=style, allow_unicode=True)
    found = read_fast(text, MANIFEST)
    if found is not None:
        assert repr(found) == repr(carefully(text, tmp_path_factory.getbasetemp()))


@given(PIECES.map("".join))
def test_the_same_holds_for_any_text(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    found = read_fast(text, MANIFEST)
    if found is not None:
        assert repr(found) == repr(carefully(text, tmp_path_factory.getbasetemp()))


@pytest.mark.parametrize(
    "text",
    [
        "a: &x 1\nb: *x", "a: !!str 1", "<<: {a: 1}", "1: a", "{a: 1}: b", "[a]: b", "a: 1\na: 2", "a: 1\n---\nb: 2",
        "", 'a: "\\x01"', "a: .inf", "a: 99999999999999999999", "a: [", "a: b: c", "[" * 60 + "]" * 60,
    ],
)  # fmt: skip
def test_what_takes_more_care_is_left_to_the_careful_reader(text: str) -> None:
    assert read_fast(text, MANIFEST) is None


def test_what_is_too_large_is_left_to_the_careful_reader() -> None:
    assert read_fast("[1, 2, 3]", ReadLimits(nodes=20)) == [1, 2, 3]
    assert read_fast("[1, 2, 3]", ReadLimits(nodes=5)) is None


def test_a_usual_file_of_tasks_needs_no_careful_reading(monkeypatch: pytest.MonkeyPatch) -> None:  # Z-04
    def never(path: Path) -> None:
        raise AssertionError("it was read carefully")

    monkeypatch.setattr("teamwright.teams.manifests.plans._read_with_places", never)
    for file in (EXAMPLES / "plan").glob("tasks*.yaml"):
        assert read_plan(file) is not None


@pytest.mark.parametrize(
    ("written", "place"),
    [
        ("tasks:\n  - {id: a, execution_tokens: '5'}", "2:31"),
        ("tasks:\n  - {id: a, execution_tokens: -5}", "2:31"),
        ("tasks:\n  - {id: a, speed: 5}", "2:13"),
        ("tasks:\n  - {id: a, needs: [b]}", "2:21"),
        ("tasks:\n  - {id: 5}", "2:10"),
        ("tasks:\n  - {id: a, needs: a}", "2:20"),
        ("tasks: []", "1:8"),
    ],
)
def test_a_mistake_is_still_reported_at_its_place(tmp_path: Path, written: str, place: str) -> None:  # Z-04
    file = tmp_path / "tasks.yaml"
    file.write_text(written)
    with pytest.raises(ManifestError) as raised:
        read_plan(file)
    assert [f"{one.line}:{one.column}" for one in raised.value.problems] == [place]
