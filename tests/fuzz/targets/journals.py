"""Journals: databases of real runs with rows tampered with or bytes flipped, read by every command that reads one."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from shutil import copyfile, copytree, rmtree
from typing import ClassVar, cast

from pydantic import JsonValue

from teamwright.journal.location import data_folder, default_journal
from tests.fuzz.case import Outcome, Violation
from tests.fuzz.mutation import mutated_bytes, mutated_text, mutated_tree
from tests.fuzz.odd_values import odd_number, odd_text, odd_value
from tests.fuzz.program import call
from tests.fuzz.targets.protocol import CORPUS

SAFE = "safe"
VICTIMS = ("hurt-dag", "hurt-fan_out", "hurt-approvals", "hurt-fork")
ANY = (0, 1, 2, 3, 4, 5, 6, 7)
"""The exit codes of commands that drive a run."""
COMMANDS: tuple[tuple[tuple[str, ...], Sequence[int]], ...] = (
    (("runs", "show", "{run}"), (0, 1, 2)),
    (("runs", "show", "{run}", "--json"), (0, 1, 2)),
    (("runs", "logs", "{run}"), (0, 1, 2)),
    (("runs", "export", "{run}", "--json"), (0, 1, 2)),
    (("runs", "kpi", "{run}", "--json"), (0, 1, 2)),
    (("runs", "steer", "{run}", "checkpoint", "--json"), (0, 1, 2)),
    (("runs", "answer", "{run}", "--json"), (0, 1, 2)),
    (("runs", "diff", "{run}", SAFE, "--json"), (0, 1, 2)),
    (("runs", "show", "{run}", "--follow", "--events"), (0, 1, 2)),
    (("lab", "calibrate", "{run}", "--json"), (0, 1, 2)),
    (("runs", "fork", "{run}", "--run-id", "forked", "--quiet", "--no-input", "--json"), ANY),
    (("runs", "resume", "{run}", "--quiet", "--no-input", "--json"), ANY),
    (("runs", "cancel", "{run}", "--json"), (0, 1, 2)),
    (("runs", "delete", "--keep", "0", "--json"), (0, 1, 2)),
)


class Journals:
    """A journal that was tampered with; one run in it is unchanged and must read as before."""

    name: ClassVar[str] = "journals"
    weight: ClassVar[float] = 2.0
    seconds: ClassVar[float] = 20.0
    load: ClassVar[float] = 1.0
    heavy: ClassVar[str] = ""

    def __init__(self, folder: Path) -> None:
        self._base = folder / "base.db"
        for name in ("safe", "dag", "fan_out", "approvals"):
            run = SAFE if name == SAFE else f"hurt-{name}"
            copytree(CORPUS / self.name / name, folder / name)
            call("run", str(folder / name), "Go", "--run-id", run, "--quiet", "--no-input", codes=ANY)
        call("runs", "fork", VICTIMS[0], "--run-id", "hurt-fork", "--quiet", codes=ANY)
        with closing(sqlite3.connect(default_journal())) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        copyfile(default_journal(), self._base)
        self._safe = self._read_safe()

    def corpus(self) -> list[JsonValue]:
        file = CORPUS / self.name / "tampered.json"
        return cast("list[JsonValue]", json.loads(file.read_text()))

    def draw(self, random: Random) -> JsonValue:
        run = random.choice(VICTIMS)
        if random.random() < 0.15:
            return {"run": run, "bytes": random.getrandbits(32)}
        edits = [_edit(random) for _ in range(random.choice((1, 1, 1, 2, 5)))]
        return {"run": run, "edits": edits}

    def run(self, payload: JsonValue) -> Outcome:
        given = cast("dict[str, JsonValue]", payload)
        run = cast("str", given["run"])
        self._renew()
        whole = "edits" in given
        if whole:
            self._tamper(run, cast("list[dict[str, JsonValue]]", given["edits"]))
        else:
            changed = mutated_bytes(Random(cast("int", given["bytes"])), default_journal().read_bytes())
            default_journal().write_bytes(changed)
        codes = [call("runs", "list", "--json", codes=(0,) if whole else (0, 1)).code]
        if whole and self._read_safe() != self._safe:
            raise Violation("bystander", "tampering with one run changed how another reads")
        for command, allowed in COMMANDS:
            arguments = [part.format(run=run) for part in command]
            codes.append(call(*arguments, codes=allowed).code)
        if whole and self._read_safe() != self._safe:
            raise Violation("bystander", "working on a damaged run changed how another reads")
        return "refused" if any(codes[1:11]) else "accepted"

    def close(self) -> None:
        pass

    def _renew(self) -> None:
        home = data_folder()
        rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        copyfile(self._base, default_journal())

    def _read_safe(self) -> tuple[str, str]:
        shown = call("runs", "export", SAFE, codes=(0,)).out
        listed = json.loads(call("runs", "list", "--json", codes=(0,)).out)
        return shown, json.dumps([one for one in listed if one["id"] == SAFE])

    def _tamper(self, run: str, edits: Sequence[dict[str, JsonValue]]) -> None:
        with closing(sqlite3.connect(default_journal())) as connection, connection:
            connection.execute("PRAGMA ignore_check_constraints = ON")
            (place,) = connection.execute("SELECT place FROM runs WHERE id = ?", (run,)).fetchone()
            for edit in edits:
                with suppress(sqlite3.Error, OverflowError, UnicodeEncodeError):
                    _apply(connection, run, place, edit)


def _edit(random: Random) -> JsonValue:
    """One change of a row: `row` picks it, and what is drawn from `seed` goes into it."""
    table = random.choice(("events",) * 12 + ("runs",) * 3 + ("inbox",))
    how = random.choice(("data", "data", "data", "value", "value", "delete", "swap", "text", "version", "kind"))
    return {"table": table, "how": how, "row": random.randrange(10_000), "seed": random.getrandbits(32)}


def _apply(connection: sqlite3.Connection, run: str, place: int, edit: dict[str, JsonValue]) -> None:
    table, how = str(edit["table"]), str(edit["how"])
    random = Random(cast("int", edit["seed"]))
    if table == "inbox":
        letter = odd_text(random) if how == "text" else json.dumps({"kind": random.choice(("cancel", "answer", "x"))})
        connection.execute("INSERT INTO inbox (run_id, data) VALUES (?, ?)", (run, letter))
        return
    columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
    if table == "runs":
        column = random.choice([one for one in columns if one not in {"id", "place"}])
        connection.execute(f"UPDATE runs SET {column} = ? WHERE id = ?", (_cell(random), run))
        return
    where = "position > ? AND position < ?"
    positions = [
        row[0]
        for row in connection.execute(f"SELECT position FROM events WHERE {where}", (place << 32, (place + 1) << 32))
    ]
    position = positions[cast("int", edit["row"]) % len(positions)]
    _change_event(connection, random, how, position, columns, positions)


def _change_event(
    connection: sqlite3.Connection, random: Random, how: str, position: int, columns: list[str], positions: list[int]
) -> None:
    def put(column: str, value: object) -> None:
        connection.execute(f"UPDATE events SET {column} = ? WHERE position = ?", (value, position))

    data, bodies = connection.execute("SELECT data, bodies FROM events WHERE position = ?", (position,)).fetchone()
    match how:
        case "data":
            put("data", json.dumps(mutated_tree(random, json.loads(data)), ensure_ascii=random.random() < 0.9))
        case "text":
            column, text = ("bodies", bodies) if bodies and random.random() < 0.5 else ("data", data)
            put(column, mutated_text(random, text, others=(data,)))
        case "delete":
            connection.execute("DELETE FROM events WHERE position = ?", (position,))
        case "swap":
            other = random.choice(positions)
            row = connection.execute("SELECT scope, place, kind, data FROM events WHERE position = ?", (other,))
            for column, value in zip(("scope", "place", "kind", "data"), row.fetchone(), strict=True):
                put(column, value)
        case "version":
            put("version", random.choice((0, -1, 2, 3, 99, "1", 1.5, 2**62)))
        case "kind":
            kinds = [row[0] for row in connection.execute("SELECT DISTINCT kind FROM events")]
            put("kind", random.choice((*kinds, "", "nothing", "RUN.ENDED")))
        case _:
            put(random.choice([one for one in columns if one != "position"]), _cell(random))


def _cell(random: Random) -> object:
    """Whatever a column may hold: SQLite keeps any type anywhere."""
    match random.randrange(6):
        case 0:
            return None
        case 1:
            return odd_number(random)
        case 2:
            return odd_text(random)
        case 3:
            return bytes(random.randrange(256) for _ in range(random.randint(0, 40)))
        case 4:
            return json.dumps(odd_value(random))
        case _:
            return random.choice(("completed", "paused", "running", "done", "", "{}", "[]", "null"))
