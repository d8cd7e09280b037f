"""How an expert looks on the page: its colour, and its avatar or initials.

Both follow from the manifest and the order in which experts appear in the events, so that all readers see the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import cos, pi, sin
from zlib import crc32

from pydantic import JsonValue

from teamwright.server.page.page_events import PageExpert
from teamwright.values.specs.members import COLOR

HUES = 24
NEAR = 2
"""Hues that are at most so many slots apart look alike beside each other."""
RINGS = ((0.52, 0.13), (0.42, 0.10), (0.60, 0.11))
"""Lightness and chroma, in OKLCH: white text is readable on the first ring; the others serve large teams."""


class ExpertAppearance:
    """Gives each expert of a run a colour and an avatar; of colours that are not declared, the first differ most."""

    def __init__(self) -> None:
        self._profiles: Mapping[str, JsonValue] = {}
        self._known: dict[str, PageExpert] = {}
        self._slots: list[int] = []

    def read_manifest(self, source: JsonValue) -> None:
        self._profiles = fields_of(fields_of(fields_of(source).get("manifest")).get("agents"))

    def add_profile(self, name: str, declared: JsonValue) -> None:
        """Add the declaration of an agent that joined later."""
        self._profiles = {**self._profiles, name: declared}

    def description_of(self, name: str) -> str:
        described = fields_of(self._profiles.get(name)).get("description")
        return described if isinstance(described, str) else ""

    def expert(self, id: str, name: str) -> PageExpert:
        """Return an expert with its colour and avatar."""
        known = self._known.get(id)
        if known is None:
            profile = fields_of(fields_of(self._profiles.get(name)).get("expert"))
            colour, avatar = profile.get("color"), profile.get("avatar")
            known = self._known[id] = PageExpert(
                id=id,
                name=name,
                colour=colour if isinstance(colour, str) and COLOR.fullmatch(colour) else self._new_colour(name),
                avatar=avatar if isinstance(avatar, str) and avatar else initials(name),
            )
        return known

    def _new_colour(self, name: str) -> str:
        """Prefer the hue of the name; where it is taken or near a taken one, take the one farthest from all others."""
        ring, used = divmod(len(self._slots), HUES)
        taken = self._slots[ring * HUES :]
        slot = crc32(name.encode()) % HUES
        if used and min(_distance(slot, other) for other in taken) <= NEAR:
            slot = max(range(HUES), key=lambda one: (min(_distance(one, other) for other in taken), -one))
        self._slots.append(slot)
        lightness, chroma = RINGS[ring % len(RINGS)]
        return oklch(lightness, chroma, 2 * pi * slot / HUES)


def pictures_of(source: JsonValue, names: Iterable[str]) -> list[JsonValue]:
    """Return the members of a team as they will look in its runs: name, description, colour and avatar."""
    looks = ExpertAppearance()
    looks.read_manifest(source)
    experts = [looks.expert(name, name) for name in names]
    return [
        {"name": one.name, "description": looks.description_of(one.name), "colour": one.colour, "avatar": one.avatar}
        for one in experts
    ]


def fields_of(value: JsonValue) -> Mapping[str, JsonValue]:
    """The fields of a JSON object; nothing for other values."""
    return value if isinstance(value, dict) else {}


def initials(name: str) -> str:
    """Two letters that stand for a name: the first ones of its first two words, or of the name."""
    words = [word for word in name.replace("-", " ").replace("_", " ").replace(".", " ").split() if word]
    letters = "".join(word[0] for word in words[:2]) if len(words) > 1 else name[:2]
    return letters.upper()


def _distance(one: int, other: int) -> int:
    apart = abs(one - other)
    return min(apart, HUES - apart)


def oklch(lightness: float, chroma: float, hue: float) -> str:
    """Convert a colour of the OKLCH space, in which equal lightness looks equally light, to hexadecimal sRGB."""
    a, b = chroma * cos(hue), chroma * sin(hue)
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    middle = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * middle + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * middle - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * middle + 1.7076147010 * short,
    )
    return "#" + "".join(f"{round(255 * _gamma(min(1.0, max(0.0, part)))):02x}" for part in linear)


def _gamma(linear: float) -> float:
    return 12.92 * linear if linear <= 0.0031308 else 1.055 * linear ** (1 / 2.4) - 0.055
