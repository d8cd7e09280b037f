"""The environments of BFCL's multi-turn tasks as a service: a program of the environment of `bfcl-eval`.

Each run of a task has a world, which is the calls that it has had, on disk by idempotency key. A call that is repeated
under its key gets the recorded result, and changes nothing. BFCL's own executor makes the calls, and its own checkers
judge what became of a world.
"""

# pyright: basic, reportMissingImports=false

from __future__ import annotations

import ast
import inspect
import json
import sqlite3
import sys
import uuid
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING
from bfcl_eval.constants.type_mappings import GORILLA_TO_OPENAPI
from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (
    multi_turn_checker,
    multi_turn_irrelevance_checker,
    state_checker,
)
from bfcl_eval.utils import load_dataset_entry, load_ground_truth_entry

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
SINGLE = "simple_python"
SCHEMA = """
create table if not exists calls(
    key text primary key, world text not null, number integer not null, call text not null, result text not null,
    unique(world, number));
"""
Instances = dict[str, Any]


@cache
def entries() -> dict[str, dict[str, Any]]:
    """Every multi-turn task with its expected calls, by id."""
    found: dict[str, dict[str, Any]] = {}
    for category in CATEGORIES:
        expected = {one["id"]: one["ground_truth"] for one in load_ground_truth_entry(f"multi_turn_{category}")}
        for one in load_dataset_entry(f"multi_turn_{category}"):
            found[one["id"]] = {**one, "ground_truth": expected[one["id"]]}
    return found


def execute(entry: dict[str, Any], calls: list[str], instances: Instances | None) -> tuple[list[str], Instances]:
    """Make calls with BFCL's executor, which keeps instances by name in its module; they are put there and removed."""
    model, held = f"m{uuid.uuid4().hex}", vars(multi_turn_utils)
    for class_name, instance in (instances or {}).items():
        held[f"{model}_{entry['id']}_{class_name}_instance"] = instance
    try:
        return multi_turn_utils.execute_multi_turn_func_call(
            func_call_list=calls,
            initial_config=entry["initial_config"],
            involved_classes=entry["involved_classes"],
            model_name=model,
            test_entry_id=entry["id"],
            long_context="long_context" in entry["id"],
        )
    finally:
        forget(model)


def forget(model: str) -> None:
    """Remove the instances that BFCL's executor keeps for a model."""
    for name in [one for one in vars(multi_turn_utils) if one.startswith(model)]:
        del vars(multi_turn_utils)[name]


class Worlds:
    """The worlds: the calls that each has had, in one SQLite file, and the instances that these have made.

    The instances of a world that only the file knows are made again from its calls.
    """

    def __init__(self, file: str) -> None:
        self._connection = sqlite3.connect(file, isolation_level=None)
        self._connection.execute("pragma journal_mode=wal")
        self._connection.executescript(SCHEMA)
        self._held: dict[str, Instances] = {}

    def call(self, world: str, task: str, key: str, call: str) -> str:
        """Make a call once, and return its result."""
        row = self._connection.execute("select result from calls where key = ?", [key]).fetchone()
        if row is not None:
            return row[0]
        results, self._held[world] = execute(entries()[task], [call], self.state(world, task))
        number = len(self.calls(world)) + 1
        self._connection.execute("insert into calls values (?, ?, ?, ?, ?)", [key, world, number, call, results[0]])
        return results[0]

    def state(self, world: str, task: str) -> Instances:
        """The instances of a world."""
        if world not in self._held:
            self._held[world] = execute(entries()[task], self.calls(world), None)[1]
        return self._held[world]

    def calls(self, world: str) -> list[str]:
        """The calls that a world has had, in order."""
        found = self._connection.execute("select call from calls where world = ? order by number", [world])
        return [one for (one,) in found]


def judge(worlds: Worlds, world: str, task: str, turns: list[list[dict[str, str]]]) -> list[str]:
    """Compare a world, and the calls and results that were recorded of each turn, with what the task expects."""
    entry = entries()[task]
    expected: Instances | None = None
    results: list[list[str]] = []
    for calls in entry["ground_truth"]:
        found, expected = execute(entry, calls, expected)
        results.append(found)
    assert expected is not None
    problems: list[str] = []
    if not (state := state_checker(worlds.state(world, task), expected))["valid"]:
        problems.append(f"state: {state['error_message']} {state['details']['differences']}")
    if [[one["result"] for one in turn] for turn in turns] != results:
        problems.append(f"results: {turns} are not {results}")
    if (made := len(worlds.calls(world))) != (wanted := sum(map(len, results))):
        problems.append(f"calls: {made} were made, not {wanted}")
    decoded = [[[one["call"]] for one in turn] for turn in turns]
    model = f"m{uuid.uuid4().hex}"
    verdict = multi_turn_checker(decoded, entry["ground_truth"], entry, "", model)
    forget(model)
    both = (verdict, multi_turn_irrelevance_checker(decoded, entry["ground_truth"]))
    return problems + [f"verdict: {one['error_type']}: {one['error_message']}" for one in both if not one["valid"]]


def exported(entry: dict[str, Any]) -> dict[str, Any]:
    """A task as the driver needs it: what the user says in each turn, the tools then, and the expected calls."""
    names = [one["name"] for one in entry["function"]]
    later = entry.get("missed_function", {})
    parameters = parameters_of(entry["involved_classes"])
    turns: list[dict[str, Any]] = []
    for number, (messages, calls) in enumerate(zip(entry["question"], entry["ground_truth"], strict=True)):
        names += [one["name"] for one in later.get(str(number), [])]
        said = "\n".join(one["content"] for one in messages) or DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC
        turns.append({"task": said, "tools": [*names], "calls": [parsed(one, parameters) for one in calls]})
    return {"id": entry["id"], "turns": turns}


def parameters_of(classes: list[str]) -> dict[str, list[str]]:
    """The names of the parameters of each tool of these classes."""
    found: dict[str, list[str]] = {}
    for name in classes:
        members = inspect.getmembers(getattr(backend(name), name), inspect.isfunction)
        found |= {method: list(inspect.signature(function).parameters)[1:] for method, function in members}
    return found


def backend(name: str) -> ModuleType:
    return import_module(CLASS_FILE_PATH_MAPPING[name])


def parsed(call: str, parameters: dict[str, list[str]]) -> dict[str, Any]:
    """An expected call, written as Python, as its name and its arguments."""
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert isinstance(node.func, ast.Name)
    values = [ast.literal_eval(one) for one in node.args]
    named = {str(one.arg): ast.literal_eval(one.value) for one in node.keywords}
    return {"name": node.func.id, "args": {**dict(zip(parameters[node.func.id], values, strict=False)), **named}}


def schema(declared: Any) -> Any:
    """The parameters of a tool as JSON Schema, from BFCL's names of types."""
    if not isinstance(declared, dict):
        return declared
    found = {name: value for name, value in declared.items() if name not in ("type", "properties", "items")}
    if "type" in declared:
        found["type"] = GORILLA_TO_OPENAPI[declared["type"]]
    if "items" in declared:
        found["items"] = schema(declared["items"])
    if "properties" in declared:
        found["properties"] = {name: schema(value) for name, value in declared["properties"].items()}
    return found


def export() -> dict[str, Any]:
    """All tasks, and the tools that they name."""
    tools: dict[str, Any] = {}
    for entry in entries().values():
        held_back = [one for found in entry.get("missed_function", {}).values() for one in found]
        for one in [*entry["function"], *held_back]:
            tools.setdefault(one["name"], {"description": one["description"], "parameters": schema(one["parameters"])})
    return {"tools": tools, "tasks": [exported(one) for one in entries().values()]}


@cache
def single_turns() -> dict[str, dict[str, Any]]:
    """The tasks of one call, with the calls that are right."""
    expected = {one["id"]: one["ground_truth"] for one in load_ground_truth_entry(SINGLE)}
    return {one["id"]: {**one, "ground_truth": expected[one["id"]]} for one in load_dataset_entry(SINGLE)}


def exported_single(entry: dict[str, Any]) -> dict[str, Any]:
    """A task of one call: what the user says, and the tools. Names have no dots, as BFCL gives them to most models."""
    tools = {
        one["name"].replace(".", "_"): {"description": one["description"], "parameters": schema(one["parameters"])}
        for one in entry["function"]
    }
    return {"id": entry["id"], "task": entry["question"][0][0]["content"], "tools": tools}


def is_right(task: str, calls: list[dict[str, Any]]) -> bool:
    """Judge the calls of a task of one call with BFCL's checker.

    It reads whether a model's names have dots from a table whose import needs the library of every provider.
    """
    table = ModuleType("bfcl_eval.constants.model_config")
    vars(table)["MODEL_CONFIG_MAPPING"] = {"model": SimpleNamespace(underscore_to_dot=True)}
    sys.modules.setdefault(table.__name__, table)
    from bfcl_eval.eval_checker.ast_eval.ast_checker import Language, ast_checker

    entry, found = single_turns()[task], [{one["name"]: one["args"]} for one in calls]
    return ast_checker(entry["function"], found, entry["ground_truth"], Language.PYTHON, SINGLE, "model")["valid"]


def written(name: str, args: dict[str, Any]) -> str:
    """A call as BFCL's executor reads it."""
    return f"{name}({', '.join(f'{parameter}={value!r}' for parameter, value in args.items())})"


def serve(file: str) -> None:
    """Serve one request after the other, and print the port first."""
    worlds = Worlds(file)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            match self.path:
                case "/call":
                    call = written(asked["name"], asked["args"])
                    found: Any = worlds.call(asked["world"], asked["task"], asked["key"], call)
                case "/judge":
                    turns = [
                        [{"call": written(one["name"], one["args"]), "result": one["result"]} for one in turn]
                        for turn in asked["turns"]
                    ]
                    found = judge(worlds, asked["world"], asked["task"], turns)
                case "/single-turns":
                    found = list(map(exported_single, single_turns().values()))
                case "/right":
                    found = is_right(asked["task"], asked["calls"])
                case _:
                    found = export()
            body = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1])
