"""Runs of every strategy become cases, replay green, and show one mutated reply, prompt, tool, order or missing reply.

    python -m tests.cases_campaign [--runs 300] [--seed N]

Each member calls a tool first. Every tenth run is also killed at each write. A mutation that changes nothing must be
one that the table explains.
"""

from __future__ import annotations

import random
import re
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

from teamwright.cli.new import all_templates, scaffold
from teamwright.testing.case_file import LoadedCase
from teamwright.testing.case_replay import replay_case
from teamwright.testing.recorded_case import RecordedReply
from tests.kit.cases import changed_reply, made_case

MUTATIONS = ("reply", "prompt", "tool", "order", "missing")
TOOL = "look_up"
CODE = f"""\
def {TOOL}(word: str, limit: int = 3) -> str:
    \"\"\"Look a word up.\"\"\"
    return f"{{limit}} facts of {{word}}"
"""
OTHER_TOOLS = (
    (f"def {TOOL}(word: str, limit: int = 3)", f"def {TOOL}(word: str, most: int = 3)"),
    ("Look a word up.", "Look a word up in a book."),
)
"""Changes of the tool itself: of a parameter, and of what models read about it."""
CALL = f"  - {{agent: '*', tool: {{name: {TOOL}, args: {{word: odd}}}}, times: 1}}\n"
EQUIVALENT = {
    "reply of selector": "the words of who chooses are read for a name, which is still in them",
    "order of dag": "its steps say who works, and when",
    "order of expert": "its steps say who works, and when",
    "order of plan": "its steps say who works, and when",
    "order of lead_subagent": "its lead, which is named, gives the work out by name",
    "order of star_team": "its lead, which is named, gives the work out by name",
    "order of reactive": "its subscriptions say who works, and on what",
}
"""Mutations that may change nothing, and why."""


def with_tool(folder: Path) -> None:
    """Give every member of a new team a tool, which its script calls once."""
    manifest, replies = folder / "team.yaml", folder / "replies.yaml"
    declared = manifest.read_text().replace("    model: primary\n", f"    model: primary\n    tools: [{TOOL}]\n")
    manifest.write_text(f"{declared}\ntools:\n  {TOOL}: 'words:{TOOL}'\n")
    replies.write_text(replies.read_text().replace("rules:\n", f"rules:\n{CALL}", 1))
    (folder / "words.py").write_text(CODE)


def mutated(case: LoadedCase, folder: Path, mutation: str, chance: random.Random) -> LoadedCase | None:
    """Return the case, or its team, with one mutation; `None` where it has nothing to mutate."""
    manifest = folder / "team.yaml"
    text = manifest.read_text()
    replies = [one for one in case.recording.replies.values() if one.result and isinstance(one.result.value, str)]
    match mutation:
        case "reply":
            return changed_reply(case, chance.choice(replies).key, _other_words) if replies else None
        case "missing":
            return changed_reply(case, chance.choice(sorted(case.recording.replies)), lambda _: None)
        case "prompt":
            asked = chance.choice(sorted({one.member for one in case.recording.replies.values()}))
            found = re.search(
                rf"^  {asked}:\n    model: primary\n    tools: .*\n    instructions: ", text, re.MULTILINE
            )
            if found is None:
                return None
            manifest.write_text(f"{text[: found.end()]}Otherwise. {text[found.end() :]}")
        case "tool":
            return _with_other_tool(case, manifest, chance)
        case _:
            members = re.search(r"members: \[(.*)\]", text)
            if members is None or "," not in members[1]:
                return None
            turned = ", ".join(reversed(members[1].split(", ")))
            manifest.write_text(text.replace(members[0], f"members: [{turned}]"))
    return case


def _with_other_tool(case: LoadedCase, manifest: Path, chance: random.Random) -> LoadedCase | None:
    """Return the case with another result of a tool, or with another tool in its team."""
    calls = sorted(one.key for one in case.recording.replies.values() if one.effect == "tool")
    if not calls:
        return None
    match chance.randrange(3):
        case 0:
            return changed_reply(case, chance.choice(calls), _other_words)
        case 1:
            before, after = chance.choice(OTHER_TOOLS)
            manifest.with_name("other.py").write_text(CODE.replace(before, after).replace("{limit}", "some"))
            manifest.write_text(manifest.read_text().replace("'words:", "'other:"))  # a module is loaded once
        case _:
            renamed = re.sub(rf"\b{TOOL}\b(?=\]|: )", "consult", manifest.read_text())
            manifest.write_text(renamed)
    return case


def _other_words(reply: RecordedReply) -> RecordedReply:
    assert reply.result is not None
    return reply.changed(result=reply.result.changed(value=f"{reply.result.value} Or not."))


def check(number: int, seed: int, folder: Path, told: Counter[str]) -> None:
    """Make one case, replay it, and mutate it; raises `AssertionError` for what is not as it must be."""
    chance, templates = random.Random(f"{seed} {number}"), sorted(all_templates())
    strategy = templates[number % len(templates)]
    scaffold(folder, strategy)
    with_tool(folder)
    case = made_case(folder, f"Why is number {number} odd?")
    green = replay_case(case, kill=number % 10 == 0)
    assert green.passes, f"{strategy}, run {number}: {list(green.lines())}"
    declared = (folder / "team.yaml").read_text()
    for mutation in MUTATIONS:
        (folder / "team.yaml").write_text(declared)
        other = mutated(case, folder, mutation, chance)
        outcome = "nothing to mutate" if other is None else "equivalent" if replay_case(other).passes else "found"
        told[f"{mutation}: {outcome}"] += 1
        if outcome == "equivalent":
            why = EQUIVALENT.get(f"{mutation} of {strategy}")
            assert why is not None, f"{strategy}, run {number}: {mutation} is not found"
            told[f"{mutation} of {strategy}: equivalent, because {why}"] += 1


def main() -> None:
    """Run the campaign, and print what was found."""
    parser = ArgumentParser()
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    given, told = parser.parse_args(), Counter[str]()
    sys.stdout.write(f"seed {given.seed}\n")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.runs):
            check(number, given.seed, Path(folder) / f"team-{number}", told)
    sys.stdout.writelines(f"{words}: {count}\n" for words, count in sorted(told.items()))


if __name__ == "__main__":
    main()
