"""The members of the hotel team that need no model: one splits the mail into letters, one writes the list."""

import json

from teamwright import Reply


def split_letters(mail: str) -> Reply:
    """Split the mail into letters at empty lines."""
    letters = [letter.strip() for letter in mail.split("\n\n") if letter.strip()]
    return Reply.of("postman", f"{len(letters)} letters", data=letters)


def write_list(results: str) -> str:
    """Write the list for the front desk, complaints first, from the results of the steps `guests` and `moods`."""
    steps = json.loads(results)
    letters = [guest | mood for guest, mood in zip(steps["guests"], steps["moods"], strict=True)]
    complaints = [f"  room {one['room']}: {one['name']}" for one in letters if one["kind"] == "complaint"]
    thanks = [f"  room {one['room']}: {one['name']}" for one in letters if one["kind"] == "praise"]
    lines = [f"Visit today ({len(complaints)} of {len(letters)} guests):", *complaints]
    return "\n".join([*lines, "Send our thanks:", *thanks] if thanks else lines)
