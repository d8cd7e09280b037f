"""The colours and avatars of experts."""

from __future__ import annotations

from teamwright.server.page.page_state import ExpertAppearance, initials, oklch

NAMES = [f"member-{number}" for number in range(24)]


def test_an_expert_has_the_colour_and_avatar_of_its_profile() -> None:
    appearance = ExpertAppearance()
    appearance.read_manifest({"manifest": {"agents": {"ann": {"expert": {"color": "#0f766e", "avatar": "🦊"}}}}})
    expert = appearance.expert("ann", "ann")
    assert (expert.colour, expert.avatar) == ("#0f766e", "🦊")


def test_a_derived_colour_depends_on_the_run_alone() -> None:
    one, other = ExpertAppearance(), ExpertAppearance()
    assert [one.expert(name, name) for name in NAMES] == [other.expert(name, name) for name in NAMES]


def test_members_of_a_team_have_different_colours() -> None:
    appearance = ExpertAppearance()
    assert len({appearance.expert(name, name).colour for name in NAMES}) == len(NAMES)
    assert appearance.expert(NAMES[0], NAMES[0]) is appearance.expert(NAMES[0], NAMES[0])


def test_a_large_team_still_gets_colours() -> None:
    appearance = ExpertAppearance()
    assert len({appearance.expert(str(number), str(number)).colour for number in range(60)}) == 60


def test_an_invalid_colour_of_an_older_record_is_replaced() -> None:
    appearance = ExpertAppearance()
    appearance.read_manifest({"manifest": {"agents": {"ann": {"expert": {"color": "red; x", "avatar": 3}}}}})
    expert = appearance.expert("ann", "ann")
    assert expert.colour.startswith("#")
    assert expert.avatar == "AN"


def test_initials_stand_for_the_words_of_a_name() -> None:
    assert [initials(name) for name in ("security_reviewer", "writer", "a", "n-2.x")] == ["SR", "WR", "A", "N2"]


def test_white_text_is_readable_on_a_derived_colour() -> None:
    appearance = ExpertAppearance()
    for name in NAMES:
        colour = appearance.expert(name, name).colour
        red, green, blue = (_linear(int(colour[at : at + 2], 16) / 255) for at in (1, 3, 5))
        assert 1.05 / (0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05) >= 4.5, colour


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def test_grey_has_no_hue() -> None:
    assert oklch(1.0, 0.0, 0.0) == "#ffffff"
