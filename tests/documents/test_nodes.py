"""The values of scalars: no surprises from dates, octals, sexagesimals or Norway."""

import pytest

from teamwright.documents.nodes import TAG, resolve


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None),
        ("true", True), ("False", False), ("yes", "yes"), ("no", "no"), ("on", "on"), ("NO", "NO"),
        ("0", 0), ("-12", -12), ("+3", 3), ("0x1F", 31), ("0o17", 15), ("010", "010"), ("1_000", "1_000"), ("08", "08"),
        ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("-2.5E-1", -0.25), ("1.2.3", "1.2.3"),
        ("2026-01-01", "2026-01-01"), ("12:30:45", "12:30:45"), ("1:30", "1:30"), ("=", "="), ("hello", "hello"),
    ],
)  # fmt: skip
def test_plain_scalars_mean_what_they_look_like(text: str, value: object) -> None:
    found, mistake = resolve(text, None, plainly=True)
    assert (found, type(found), mistake) == (value, type(value), "")


def test_quoted_scalars_are_text() -> None:
    assert resolve("12", None, plainly=False) == ("12", "")
    assert resolve("12", "!", plainly=True) == ("12", "")


@pytest.mark.parametrize("text", [".nan", ".inf", "-.inf", "1e999", "9" * 30, "9" * 5000, str(2**63)])
def test_numbers_that_no_record_can_hold_are_refused(text: str) -> None:
    assert resolve(text, None, plainly=True)[1]


def test_tags_hold() -> None:
    assert resolve("12", TAG + "str", plainly=False) == ("12", "")
    assert resolve("12", TAG + "int", plainly=False) == (12, "")
    assert resolve("12", TAG + "float", plainly=False) == (12, "")
    assert resolve("x", TAG + "int", plainly=False)[1] == "'x' does not match its tag !!int"
    assert "not supported" in resolve("2026-01-01", TAG + "timestamp", plainly=False)[1]
