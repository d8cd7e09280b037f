from __future__ import annotations

import json
from pathlib import Path

import pytest

from teamwright.errors import ManifestError
from teamwright.lab.experiments.dataset import read_data_set

YAML = """\
evaluate: {criteria: [{id: short, length: {max: 80}}]}
cases:
  - {id: one, task: "What is 6 times 7?", expected: 42, tags: [sums, easy]}
  - {task: "Say it as data.", data: {total: 3}, files: [facts.txt]}
"""
JSONL = """\
{"id": "one", "task": "What is 6 times 7?", "expected": 42, "tags": ["sums", "easy"]}

{"task": "Say it as data.", "data": {"total": 3}, "files": ["facts.txt"]}
"""
CSV = """\
id,task,expected,tags,data,files
one,What is 6 times 7?,42,sums;easy,,
,Say it as data.,,,"{""total"": 3}",facts.txt
"""


@pytest.mark.parametrize(("name", "text"), [("cases.yaml", YAML), ("cases.jsonl", JSONL), ("cases.csv", CSV)])
def test_the_same_cases_are_written_in_three_formats(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "facts.txt").write_text("facts")
    (tmp_path / name).write_text(text)
    first, second = read_data_set(tmp_path / name).cases
    assert (first.id, first.expected, first.tags) == ("one", "42", ("sums", "easy"))
    assert (second.id, second.data, second.files) == ("2", {"total": 3}, ("facts.txt",))


def mistakes(folder: Path, name: str, text: str) -> list[str]:
    (folder / name).write_text(text)
    with pytest.raises(ManifestError) as caught:
        read_data_set(folder / name)
    return [str(one).removeprefix(f"{folder}/") for one in caught.value.problems]


def test_every_mistake_of_a_yaml_file_is_reported_at_once_with_its_line_and_a_suggestion(tmp_path: Path) -> None:
    text = (
        "evaluate: {criteria: [{id: kind, judge: Is it kind?}]}\nbase: x\ncases:\n  - {id: a, tsk: x}\n"
        "  - {id: a, task: y, label: good}\n  - {task: z, files: [no.txt], label: pass}\n  - word\n"
    )
    assert mistakes(tmp_path, "cases.yaml", text) == [
        "cases.yaml:1:11: evaluate: the criterion 'kind' needs a judge; name an agent as  judge",
        "cases.yaml:2:1: 'base' is not a part of a data set (known are cases, evaluate)",
        "cases.yaml:4:5: case 'a': task: is missing",
        "cases.yaml:4:18: case 'a': tsk: is not a field here (did you mean 'task'?)",
        "cases.yaml:5:5: The case 'a' is there twice (give each case an id of its own)",
        "cases.yaml:5:5: case 'a': its label is about no answer (add the answer as  output)",
        "cases.yaml:5:29: case 'a': label: is 'pass' or 'fail', and this is the text 'good'",
        "cases.yaml:6:5: case '3': there is no file 'no.txt' (name it relative to the data set)",
        "cases.yaml:6:5: case '3': its label is about no answer (add the answer as  output)",
        "cases.yaml:7:5: A case is a mapping, and this is the text 'word' (write  task: …)",
    ]


def test_mistakes_of_lines_name_their_line(tmp_path: Path) -> None:
    text = '{"task":"a","expcted":"x"}\n{nope\n{"id":"1","task":""}\n[1]\n'
    found = mistakes(tmp_path, "cases.jsonl", text)
    assert [one.split(":")[1] for one in found] == ["1", "2", "3", "3", "4"]
    assert found[0].endswith("case '1': expcted: is not a field here (did you mean 'expected'?)")


def test_mistakes_of_a_table_name_their_row_also_after_texts_of_several_lines(tmp_path: Path) -> None:
    text = 'id,task,expectd,data\na,"two\nlines",,\nb,x,,{no\nc,y,,,,\n'
    assert mistakes(tmp_path, "cases.csv", text) == [
        "cases.csv:1:1: 'expectd' is not a column of a data set (did you mean 'expected'?)",
        "cases.csv:4:1: The cell 'data' is not JSON: '{no' (write a text as \"…\")",
        "cases.csv:5:1: This row has 6 cells, and there are 4 columns (put a text with commas in quotes)",
    ]


def test_a_line_ends_where_json_lines_end(tmp_path: Path) -> None:
    task = "one\u2028two\u0085three\x7f"
    (tmp_path / "cases.jsonl").write_text(json.dumps({"task": task}, ensure_ascii=False) + "\r\n\n")
    assert [one.task for one in read_data_set(tmp_path / "cases.jsonl").cases] == [task]


def test_blank_rows_say_nothing_and_a_column_is_there_once(tmp_path: Path) -> None:
    assert mistakes(tmp_path, "cases.csv", "\n,,\nid,task,id\n") == [
        "cases.csv:3:1: The column 'id' is there twice (leave one of them out)",
    ]
    assert mistakes(tmp_path, "empty.csv", "\n\n") == [
        "empty.csv: The data set has no cases (a case is a mapping with a task)"
    ]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("cases.yaml", "agents: {a: {model: local}}\n", "This is not a data set"),
        ("cases.yaml", "cases: []\n", "The data set has no cases"),
        ("cases.jsonl", "", "The data set has no cases"),
        ("cases.csv", "id\na\n", "There is no column 'task'"),
        ("cases.txt", "x", "is no data set (name a file ending in .yaml, .yml, .jsonl or .csv)"),
    ],
)
def test_what_is_no_data_set_is_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    assert any(message in one for one in mistakes(tmp_path, name, text))


def test_a_line_is_strict_json_and_a_file_is_beside_the_data_set(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "key.txt").write_text("secret")
    deep = f'{{"task": "x", "data": {"[" * 9000}{"]" * 9000}}}'
    lines = ['{"task": "x", "data": NaN}', '{"task": "x", "task": "y"}', deep, '{"task": "x", "files": ["../key.txt"]}']
    why = [one.partition(" (")[0] for one in mistakes(tmp_path / "data", "cases.jsonl", "\n".join(lines))]
    assert why == [
        "cases.jsonl:1:1: This line is not JSON: NaN is not a finite number",
        "cases.jsonl:2:1: This line is not JSON: the key 'task' is duplicated",
        "cases.jsonl:3:1: This line is not JSON: it is nested too deeply",
        "cases.jsonl:4:1: case '1': the file '../key.txt' is outside the folder of the data set",
    ]
