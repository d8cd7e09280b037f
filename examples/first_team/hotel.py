"""The members of the hotel team that need no model: one splits the mail, the other checks what the model noted."""

import json
import re

from teamwright import Reply


def split_letters(mail: str) -> Reply:
    """Split the mail into letters at empty lines."""
    letters = [letter.strip() for letter in mail.split("\n\n") if letter.strip()]
    return Reply.of("postman", f"{len(letters)} letters", data=letters)


def check_notes(results: str) -> str:
    """Write the list for the front desk. A value counts only if its own letter says it, word for word."""
    rooms: list[str] = []
    questions: list[str] = []
    for number, one in enumerate(json.loads(results), start=1):
        letter, note = one["chunk"], one.get("result")
        if note is None:
            questions.append(f"  letter {number}: the model gave no usable answer")
        elif says(letter, note["name"]) and says(letter, note["room"]):
            rooms.append(f"  room {note['room']}: {note['name']}")
        else:
            name = note["name"] if says(letter, note["name"]) else unknown("name", note["name"])
            room = f"room {note['room']}" if says(letter, note["room"]) else unknown("room", note["room"])
            questions.append(f"  letter {number}: {name}, {room}")
    lines = ["Rooms to call on, each checked against its letter:", *(rooms or ["  none"])]
    return "\n".join([*lines, "To ask at the desk:", *questions] if questions else lines)


def says(letter: str, value: str | int | None) -> bool:
    """Whether the letter contains the value as whole words."""
    return bool(value) and re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", letter) is not None


def unknown(field: str, claim: str | int | None) -> str:
    """What to write for a field that is not in the letter."""
    return f"{field} unknown (the model {'found none' if claim is None else f'made up {claim}'})"
