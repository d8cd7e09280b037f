"""Mutations of texts, bytes and JSON trees. All randomness comes from the generator that is passed in."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import cast

from pydantic import JsonValue

from tests.fuzz.odd_values import CHARACTERS, odd_number, odd_text, odd_value

MOST_TEXT = 300_000
"""Longer mutants are cut: how work grows with size is tested elsewhere, by counting."""

Path = tuple[str | int, ...]


def mutated_text(random: Random, text: str, tokens: Sequence[str] = (), others: Sequence[str] = ()) -> str:
    """The text after a few changes; `tokens` are words that matter to the target, `others` texts to splice in."""
    for _ in range(_few(random)):
        change = random.choice(_TEXT_CHANGES)
        text = change(random, text, tokens, others)[:MOST_TEXT]
    return text


def mutated_json(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    """A text in JSON after changes of its tree or of its characters, another value in its place, or as it is."""
    roll = random.random()
    if roll < 0.6:
        return json.dumps(mutated_tree(random, json.loads(text)))
    if roll < 0.8:
        return mutated_text(random, text, tokens, others)
    return json.dumps(odd_value(random)) if roll < 0.9 else text


def mutated_bytes(random: Random, data: bytes) -> bytes:
    """The bytes after a few flips, cuts and repetitions."""
    changed = bytearray(data)
    for _ in range(_few(random)):
        start = random.randrange(len(changed) + 1)
        end = min(len(changed), start + random.choice((1, 2, 4, 16, 256)))
        match random.randrange(5):
            case 0 if end > start:
                changed[start] ^= 1 << random.randrange(8)
            case 1:
                changed[start:end] = bytes(random.randrange(256) for _ in range(end - start))
            case 2:
                del changed[start:end]
            case 3:
                changed[start:start] = changed[start:end] * random.choice((1, 2, 50))
            case _:
                del changed[start if random.random() < 0.2 else len(changed) :]
    return bytes(changed[:MOST_TEXT])


def mutated_tree(random: Random, tree: JsonValue, names: Sequence[str] = ()) -> JsonValue:
    """A copy of the tree with a few parts replaced, removed, renamed, moved or repeated."""
    for _ in range(_few(random)):
        places = list(_places(tree))
        place = random.choice(places)
        match random.randrange(7):
            case 0 | 1:
                tree = _replaced(tree, place, odd_value(random))
            case 2:
                tree = _replaced(tree, place, _at(tree, random.choice(places)))
            case 3:
                tree = _without(tree, place)
            case 4:
                tree = _renamed(
                    tree, place, random.choice(names) if names and random.random() < 0.6 else odd_text(random)
                )
            case 5:
                tree = _replaced(tree, place, [_at(tree, place)] * random.choice((1, 1, 2, 40)))
            case _:
                held = _at(tree, place)
                tree = _replaced(tree, place, odd_number(random) if isinstance(held, int | float) else odd_text(random))
    return tree


def _few(random: Random) -> int:
    return 1 + min(8, int(random.expovariate(0.8)))


def _span(random: Random, text: str) -> tuple[int, int]:
    start = random.randrange(len(text) + 1)
    return start, min(len(text), start + random.choice((1, 1, 3, 10, 60, 400)))


def _insert(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    place = random.randrange(len(text) + 1)
    added = random.choice(tokens) if tokens and random.random() < 0.6 else odd_text(random)
    return text[:place] + added + text[place:]


def _replace(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    start, end = _span(random, text)
    added = random.choice(tokens) if tokens and random.random() < 0.6 else random.choice(CHARACTERS)
    return text[:start] + added + text[end:]


def _delete(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    start, end = _span(random, text)
    return text[:start] + text[end:]


def _repeat(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    start, end = _span(random, text)
    return text[:end] + text[start:end] * random.choice((1, 2, 20, 500)) + text[end:]


def _splice(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    if not others:
        return _repeat(random, text, tokens, others)
    start, end = _span(random, other := random.choice(others))
    place = random.randrange(len(text) + 1)
    return text[:place] + other[start : end + 200] + text[place:]


def _swap_lines(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    lines = text.split("\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return "\n".join(lines)


def _indent(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    lines = text.split("\n")
    place = random.randrange(len(lines))
    lines[place] = " " * random.randint(0, 6) + lines[place].lstrip()
    return "\n".join(lines)


def _cut(random: Random, text: str, tokens: Sequence[str], others: Sequence[str]) -> str:
    return text[: random.randrange(len(text) + 1)]


_TEXT_CHANGES: tuple[Callable[[Random, str, Sequence[str], Sequence[str]], str], ...] = (
    _insert, _insert, _replace, _replace, _delete, _repeat, _splice, _swap_lines, _indent, _cut,
)  # fmt: skip


def _places(tree: JsonValue, place: Path = ()) -> list[Path]:
    """Every place in a tree, without recursion: it may be deep."""
    found: list[Path] = []
    open_: list[tuple[Path, JsonValue]] = [(place, tree)]
    while open_ and len(found) < 5000:
        at, held = open_.pop()
        found.append(at)
        if isinstance(held, dict):
            open_ += [((*at, key), value) for key, value in held.items()]
        elif isinstance(held, list):
            open_ += [((*at, index), value) for index, value in enumerate(held)]
    return found


def _at(tree: JsonValue, place: Path) -> JsonValue:
    for step in place:
        tree = cast("dict[str | int, JsonValue]", tree)[step]
    return tree


def _edited(tree: JsonValue, place: Path, edit: Callable[[dict[str | int, JsonValue], str | int], None]) -> JsonValue:
    """A copy in which the container of a place was edited; only the way to it is copied."""
    if not place:
        return tree
    root = held = _copy(tree)
    for step in place[:-1]:
        inner = _copy(held[step])
        held[step] = cast("JsonValue", inner)
        held = inner
    edit(held, place[-1])
    return cast("JsonValue", root)


def _copy(held: JsonValue) -> dict[str | int, JsonValue]:
    """A shallow copy of a container; a list serves as well, since both are read and written by a step."""
    copied = dict(held) if isinstance(held, dict) else list(cast("list[JsonValue]", held))
    return cast("dict[str | int, JsonValue]", copied)


def _replaced(tree: JsonValue, place: Path, value: JsonValue) -> JsonValue:
    if not place:
        return value

    def edit(held: dict[str | int, JsonValue], step: str | int) -> None:
        held[step] = value

    return _edited(tree, place, edit)


def _without(tree: JsonValue, place: Path) -> JsonValue:
    def edit(held: dict[str | int, JsonValue], step: str | int) -> None:
        del held[step]

    return _edited(tree, place, edit)


def _renamed(tree: JsonValue, place: Path, name: str) -> JsonValue:
    if not place or isinstance(place[-1], int):
        return _replaced(tree, place, name)

    def edit(held: dict[str | int, JsonValue], step: str | int) -> None:
        held[name] = held.pop(step)

    return _edited(tree, place, edit)
