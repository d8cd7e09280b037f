"""A log of JSON lines holds nothing else, whatever writes to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from teamwright.cli.terminal.output import wants_json_lines

NOISE = """
import logging, os, sys, threading, warnings
from teamwright.cli.terminal.output import json_lines
with json_lines():
    print('{"event": "own", "number": 1}', file=sys.stderr, flush=True)
    print("printed")
    warnings.warn("beware")
    logging.getLogger("some.library").error("logged")
    os.write(1, b"by C code\\n")
    os.write(2, b"[1, 2]\\n{broken\\nPASSWORD=hunter2hunter2")
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()
    print('{"event": "own", "number": 2}', file=sys.stderr, flush=True)
    LAST
print("after")
"""


def run(last: str) -> subprocess.CompletedProcess[str]:
    program = NOISE.replace("\\\\n", "\\n").replace("LAST", last)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50, check=False)


@pytest.mark.parametrize(
    "last", ["pass", "from teamwright.cli.terminal.output import flush_all; flush_all(); os._exit(0)"]
)
def test_whatever_is_written_becomes_a_line_of_json(last: str) -> None:
    done = run(last)
    records = [json.loads(line) for line in done.stderr.splitlines()]
    own = [number for number, one in enumerate(records) if one["event"] == "own"]
    assert [records[number]["number"] for number in own] == [1, 2]
    others = "\n".join(one["detail"] for one in records if one["event"] == "output")
    for text in ("printed", "beware", "logged", "by C code", "[1, 2]", "{broken", "ZeroDivisionError", "Traceback"):
        assert text in others
    assert "hunter2" not in done.stderr
    assert done.stdout == ("after\n" if last == "pass" else "")


@pytest.mark.cluster
def test_a_worker_that_can_not_start_says_so_in_json() -> None:
    for more in (["--at-once", "0"], ["--journal", "runs.db"], ["--allow", "env:="]):
        command = [sys.executable, "-m", "teamwright", "worker", "--json", *more]
        done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
        assert done.returncode != 0
        records = [json.loads(line) for line in done.stderr.splitlines()]
        assert "teamwright: " in records[-1]["detail"]


@pytest.mark.cluster
def test_a_log_that_goes_to_a_file_is_json_too(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "teamwright", "worker", "--json", "--journal", "runs.db"]
    with (tmp_path / "log").open("w", encoding="utf-8") as log:
        done = subprocess.run(command, stdout=log, stderr=log, timeout=50, check=False)
    records = [json.loads(line) for line in (tmp_path / "log").read_text(encoding="utf-8").splitlines()]
    assert (done.returncode, [one["event"] for one in records]) == (2, ["output"])
    assert "need a journal in Postgres" in records[0]["detail"]


def test_only_a_worker_with_the_option_has_such_a_log() -> None:
    assert wants_json_lines(["worker", "--json"])
    assert wants_json_lines(["worker", "--queue", "x", "--json"])
    assert not wants_json_lines(["worker"])
    assert not wants_json_lines(["experts", "worker", "--json"])
