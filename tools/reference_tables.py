"""Writes the reference from the code: every key of manifests, every command and every event.

    python -m tools.reference_tables

The keys come from the JSON Schema of manifests, commands and options from the command line, and events from the facts.
A test makes the tables again and compares.
"""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from teamwright.cli.main import commands
from teamwright.strategies.registry import strategy_names
from teamwright.teams.manifests.schema import manifest_schema
from teamwright.values.events.event import ENGINE_FACTS, Fact
from tools.plan_tables import presets, with_tables

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
PROVIDERS = "ModelSettings"
"""The block with the settings that providers' libraries declare."""
BY_HAND = {"AgentSpec", "TeamSpec"}
"""Blocks with tables of their own on the page, which link to other pages."""
SHARED = 4
"""In so many commands a row stands once, before all of them."""
SECTIONS = ("agents", "teams", "plans", "models", "tools")
Schema = Mapping[str, Any]


def key_tables() -> Iterator[str]:
    """A table for each block of a manifest, under the path at which a block is found first; by section."""
    schema = manifest_schema()
    blocks = cast("dict[str, Schema]", schema["$defs"])
    paths = block_paths(schema)
    for section in SECTIONS:
        yield f"### Keys of {section}\n"
        for path, name in paths:
            rows = [(key, one) for key, one in _keys(blocks[name]) if key not in strategy_names()]
            if rows and _section(path) == section:
                yield f"**`{path}`**{_after_colon(blocks[name].get('description', ''))}\n"
                yield "| key | type | default | |\n|---|---|---|---|"
                yield from (_key_row(key, one, blocks) for key, one in rows)
                yield ""


def _section(path: str) -> str:
    return "plans" if path.startswith("teams.NAME.plan") else path.partition(".")[0]


def _keys(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The keys of a block, and those of the mappings that are written inside it."""
    for key, one in cast("dict[str, Schema]", schema.get("properties", {})).items():
        yield key, one
        yield from _keys(one)


def block_paths(schema: Schema) -> list[tuple[str, str]]:
    """The blocks of a manifest, breadth first, each with the path at which it is found first.

    Without agents and teams, whose tables are written by hand, and the presets of plans, which have the keys of `plan`.
    """
    blocks = cast("dict[str, Schema]", schema["$defs"])
    places = {name: one for name, one in schema["properties"].items() if name != "tasks"}
    waiting, seen, found = deque([("", cast("object", {"properties": places}))]), {PROVIDERS}, list[tuple[str, str]]()
    shared = {f"{preset}.options" for preset in presets()}
    while waiting:
        path, node = waiting.popleft()
        for step, name in _references(node):
            one = name if name.endswith(".options") else name.rpartition(".")[2]
            if name in shared or one in seen:
                continue
            seen.add(one)
            at = f"{path}.{step}".strip(".")
            if name not in BY_HAND:
                found.append((at, name))
            waiting.append((at, blocks[name]))
    return found


def _references(node: object, path: str = "") -> Iterator[tuple[str, str]]:
    """The blocks that a schema refers to, each with the keys that lead there."""
    match node:
        case {"$ref": str(target)}:
            yield path, target.rpartition("/")[2]
        case dict():
            parts = cast("dict[str, object]", node)
            for key, one in parts.items():
                if key == "properties":
                    for name, inner in cast("dict[str, object]", one).items():
                        yield from _references(inner, f"{path}.{name}".strip("."))
                else:
                    below = f"{path}.NAME" if key in {"additionalProperties", "patternProperties"} else path
                    yield from _references(one, below)
        case list():
            for one in cast("list[object]", node):
                yield from _references(one, path)
        case _:
            return


def _key_row(key: str, schema: Schema, blocks: Mapping[str, Schema]) -> str:
    about = schema.get("description") or next(
        (blocks[name].get("description", "") for _, name in _references(schema) if name in blocks), ""
    )
    return f"| `{key}` | {_type_of(schema)} | {_default_of(schema)} | {_cell(_sentence(about))} |"


def _type_of(schema: Schema) -> str:
    """The types that a key takes, in the words of YAML."""
    if "enum" in schema:
        return _cell(", ".join(f"`{one}`" for one in schema["enum"]))
    if "const" in schema:
        return f"`{schema['const']}`"
    if "$ref" in schema:
        return "any" if schema["$ref"].endswith("JsonValue") else "block"
    if "anyOf" in schema:
        kinds = [_type_of(one) for one in schema["anyOf"] if one.get("type") != "null"]
        return " or ".join(dict.fromkeys(kinds))
    if schema.get("type") == "array":
        inner = _type_of(schema.get("items", {}))
        return f"list of {inner}" if inner != "any" else "list"
    words = {"string": "text", "object": "mapping", "boolean": "yes or no"}
    kind = schema.get("type", "any")
    return words.get(kind, kind) if isinstance(kind, str) else "any"


def _default_of(schema: Schema) -> str:
    value = schema.get("default")
    return "" if value in (None, "", [], {}) else f"`{_cell(json.dumps(value))}`"


def _after_colon(text: str) -> str:
    return f": {_sentence(text)}" if text else ""


def _sentence(text: str) -> str:
    """The first sentence of a description, on one line."""
    return re.split(r"(?<=[.])\s", " ".join(text.split()))[0].rstrip(".")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def command_tables() -> Iterator[str]:
    """Every command with its arguments, options and first example; rows of many commands stand once, before them."""
    found = [(path, command, _rows(command)) for path, command in _commands(commands(), "teamwright")]
    counts = Counter(row for *_, rows in found for row in rows)
    shared = [row for row, count in counts.items() if count >= SHARED]
    yield "Many commands have these:\n"
    yield "| | |\n|---|---|"
    yield from (f"| {names} | {about} |" for names, about in shared)
    yield ""
    for path, command, rows in found:
        yield f"**`{_usage(path, command)}`**: {_sentence(_about(command))}"
        yield ""
        if example := _example(command):
            yield f"e.g. `{example}`\n"
        own = [row for row in rows if row not in shared]
        if own:
            yield "| | |\n|---|---|"
            yield from (f"| {names} | {about} |" for names, about in own)
            yield ""
        also = [names.partition(", ")[0].partition(" ")[0].strip("`") for names, _ in rows if (names, _) in shared]
        options = [f"`{name}`" for name in also if name.startswith("-")]
        if options:
            yield f"also {', '.join(options)}\n"


def _rows(command: Any) -> list[tuple[str, str]]:
    """The arguments and options of a command, each with its help."""
    arguments = [one for one in command.params if _is_argument(one)]
    options = [one for one in command.params if not (_is_argument(one) or one.hidden or one.name == "help")]
    rows = [(f"`{_metavar(one)}`", _cell(one.help)) for one in arguments if one.help]
    return [*rows, *((_option(one), _cell(one.help or "")) for one in options)]


def _is_argument(one: Any) -> bool:
    return not one.opts[0].startswith("-")


def _usage(path: str, command: Any) -> str:
    return " ".join([path, *(_metavar(one) for one in command.params if _is_argument(one))])


def _about(command: Any) -> str:
    return (command.help or "").partition("Examples:")[0].partition(chr(8))[0]


def _example(command: Any) -> str:
    """The first example of a command's help."""
    examples = (command.help or "").partition("Examples:")[2]
    return next((line.strip() for line in examples.splitlines() if line.strip()), "")


def _commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    below = cast("dict[str, Any]", getattr(command, "commands", {}))
    if not below or getattr(command, "invoke_without_command", False):
        yield path, command
    for name, one in sorted(below.items()):
        if not one.hidden:
            yield from _commands(one, f"{path} {name}")


def _metavar(argument: Any) -> str:
    return argument.metavar or argument.name.upper()


def _option(option: Any) -> str:
    value = "" if option.is_flag else f" {option.metavar or 'TEXT'}"
    return _cell(", ".join(f"`{one}{value}`" for one in (*option.opts, *option.secondary_opts)))


def event_table() -> Iterator[str]:
    """A line for each kind of event: what it records, and its fields."""
    yield "| event | what it records | fields |"
    yield "|---|---|---|"
    for fact in get_args(Fact):
        fields = ", ".join(f"`{name}`" for name in fact.__struct_fields__)
        mark = "" if fact in ENGINE_FACTS else " ◦"
        yield f"| `{fact.kind}`{mark} | {_cell(_sentence(fact.__doc__ or ''))} | {fields} |"


PAGES = {
    FOLDER / "manifest.md": ("keys", key_tables),
    FOLDER / "commands.md": ("commands", command_tables),
    FOLDER / "events.md": ("events", event_table),
}
"""The name of the table of each page, and what writes its lines."""


def with_reference(page: Path) -> str:
    """The text of a page, with its table as the code makes it."""
    name, lines = PAGES[page]
    return with_tables(page.read_text(encoding="utf-8"), {name: "\n".join(lines()).strip() + "\n"})


def main() -> None:
    """Write the tables."""
    for page in PAGES:
        page.write_text(with_reference(page), encoding="utf-8")


if __name__ == "__main__":
    main()
