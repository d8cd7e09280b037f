"""Texts are cut in one way."""

from hypothesis import given, strategies as st

from teamwright.values.text.display import ELLIPSIS, cut


def test_what_is_short_enough_stays_as_it_is() -> None:
    assert cut("four", 4) == "four"
    assert cut("", 1) == ""


@given(st.text(), st.integers(min_value=1, max_value=20))
def test_what_is_cut_is_as_long_as_it_may_be_and_ends_with_an_ellipsis(text: str, most: int) -> None:
    shown = cut(text, most)
    assert len(shown) == min(len(text), most)
    assert shown == text or (shown[-1] == ELLIPSIS and text.startswith(shown[:-1]))
