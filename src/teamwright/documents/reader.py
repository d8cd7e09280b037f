"""Reads YAML files into plain data with positions.

It bounds size, depth and alias expansion, and builds only texts, numbers, booleans, lists and mappings. Every mistake
becomes a problem, never an exception. `yaml_text` writes what it reads as the same data.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

from teamwright.documents.nodes import (
    TAG,
    UNPRINTABLE,
    Entry,
    Fields,
    Items,
    Node,
    Place,
    ProblemReport,
    Scalar,
    described,
    resolve,
    shown,
)

if TYPE_CHECKING:
    import yaml
    from pydantic import JsonValue

BACKSLASH = "\\"
YAML_NAMES = (".yaml", ".yml")
MAX_BYTES = 1 << 20
MAX_DEPTH = 50
MAX_NODES = 200_000
MAX_CHARACTERS = 4 << 20
MOST_KEYS, LONGEST_KEY = 50, 40
"""How many keys of a document say what it is, and how long a misspelt one may be."""
NOT_YAML = "This is not YAML"
"""The beginning of messages about syntax, which say where and why, and quote nothing."""
COLLECTION_TAGS = {None, "!", TAG + "map", TAG + "seq"}


UNCLOSED = "a list, mapping or text is not closed"
SYNTAX = (
    ("mapping values are not allowed", "mapping values are not allowed here: unexpected ':'"),
    ("did not find expected key", "the indentation does not match the lines above, or a key or ':' is missing"),
    ("did not find expected '-' indicator", "the indentation does not match the list above: items start with '- '"),
    ("expected ',' or '}'", "a ',' or '}' is missing"),
    ("expected ',' or ']'", "a ',' or ']' is missing"),
    ("expected ':'", "a ':' is missing"),
    ("unexpected end of stream", UNCLOSED),
    ("cannot start any token", "this character can't begin a value"),
    ("expected node content", "a value is missing"),
    ("unknown escape character", "there is no such escape after the backslash"),
    ("expected hexadecimal", "an escape needs hexadecimal digits"),
    ("invalid Unicode character", "an escape is not a valid character"),
    ("invalid leading UTF-8", "the file is not UTF-8 text"),
    ("tab character", "a tab where spaces are needed"),
    ("alphabetic or numeric", "an anchor or alias has no name"),
    ("undefined tag handle", "a tag is not declared; remove it"),
    ("duplicate %", "a directive is repeated"),
    ("incompatible YAML document", "the file requires another version of YAML"),
    ("unknown directive", "there is no such directive"),
    ("expected <document start>", "a document starts with '---'"),
    ("expected comment or a line break", "the rest of the line is not allowed here"),
    ("block sequence entries are not allowed", "a list item is not allowed here"),
    ("block mapping keys are not allowed", "a key is not allowed here"),
)
"""Parts of the parser's messages, with our own messages for them."""


class ReadLimits(NamedTuple):
    """Limits on the size of a file, and on its nodes and characters after alias expansion; by default a manifest's.

    With `escapes`, texts may contain escaped control characters.
    """

    size: int = MAX_BYTES
    nodes: int = MAX_NODES
    characters: int = MAX_CHARACTERS
    escapes: bool = False


MANIFEST = ReadLimits()


class FileForm(NamedTuple):
    """What files of one kind have in common. The content of any other file is never part of a message.

    A manifest can name every file that its user may read, and messages reach others: logs, records, clients.
    """

    is_ours: Callable[[Node], bool]
    """Whether a document, or the part of it before a mistake, is of this kind."""
    message: str
    hint: str = ""


def has_key_like(node: Node, known: Collection[str]) -> bool:
    """Whether a mapping has one of these keys, or one that is spelt almost like it."""
    keys = list(node.entries)[:MOST_KEYS] if isinstance(node, Fields) else ()
    return any(key in known or (len(key) < LONGEST_KEY and get_close_matches(key, known, 1, 0.75)) for key in keys)


def mapping_form(known: Collection[str], message: str, hint: str = "") -> FileForm:
    """Return the form of files that are mappings with some of these keys."""
    return FileForm(partial(has_key_like, known=known), message, hint)


class _Unreadable(Exception):
    """The rest of the file can't be read; the problem is reported already."""


def read_file(
    path: Path, report: ProblemReport, limits: ReadLimits = MANIFEST, *, form: FileForm, may_be_empty: bool = False
) -> list[Node]:
    """Read the documents of one file, without empty ones; none of a file that is not of this form."""
    file = Place(str(path))
    text = read_text(path, report, limits)
    if text is None:
        report.incomplete = True
        return []
    before = len(report.problems)
    documents, rest = _parse(text, file, report, limits)
    roots = [*documents, *rest]
    if not any(map(form.is_ours, roots)) and (roots or len(report.problems) > before):
        report.incomplete = True
        report.problems[before:] = [one for one in report.problems[before:] if one.message.startswith(NOT_YAML)]
        if len(report.problems) == before:
            report.problem(roots[0].place if roots else file, form.message, form.hint)
        return []
    if not documents and not may_be_empty and len(report.problems) == before:
        report.problem(file, "The file is empty: it declares nothing", "a manifest has agents and teams")
    return documents


def read_lines(path: Path, report: ProblemReport, limits: ReadLimits) -> list[tuple[Place, str]] | None:
    """Read a file of JSON lines, without blank ones; report a problem and return None if that fails.

    A line ends where JSON lines end, and may contain whatever a text in JSON may.
    """
    text = read_text(path, report, limits, printable=False)
    if text is None:
        return None
    lines = enumerate(text.split("\n"), start=1)
    return [(Place(str(path), number, 1), line) for number, line in lines if line.strip()]


def read_text(path: Path, report: ProblemReport, limits: ReadLimits, *, printable: bool = True) -> str | None:
    """Read the text of a file; report a problem and return None if that fails, or if it is not printable."""
    file = Place(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            report.problem(file, "This is not a regular file", "give a YAML file")
            return None
        with path.open("rb") as stream:
            data = stream.read(limits.size + 1)
    except FileNotFoundError:
        report.problem(file, "There is no such file", _similar_file(path))
        return None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        report.problem(file, f"The file can't be read: {reason}")
        return None
    if len(data) > limits.size:
        report.problem(file, f"The file is larger than {limits.size >> 20} MiB", "split it")
        return None
    text = _decoded(data, file, report)
    return None if text is None or (printable and not _is_printable(text, file, report)) else text


def forward_slashes(path: Path | str) -> str:
    """Suggest forward slashes for a missing file whose path is written as on Windows; they are valid everywhere."""
    return f"write {str(path).replace(BACKSLASH, '/')!r}" if BACKSLASH in str(path) else ""


def _similar_file(path: Path) -> str:
    """Suggest files and folders of teams with names like that of a missing one."""
    if hint := forward_slashes(path):
        return hint
    try:
        names = [one.name for one in path.parent.iterdir() if _may_be_meant(one)] if path.name else []
    except (OSError, ValueError):
        return ""
    return ProblemReport().near(path.name, names) if names else "check the path"


def _may_be_meant(path: Path) -> bool:
    return path.suffix in YAML_NAMES or any((path / f"team{suffix}").is_file() for suffix in YAML_NAMES)


def _decoded(data: bytes, file: Place, report: ProblemReport) -> str | None:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        report.problem(Place(file.file, line, column), "The file is not UTF-8 text", "save it as UTF-8")
        return None


def _is_printable(text: str, file: Place, report: ProblemReport) -> bool:
    found = UNPRINTABLE.search(text)
    if found is None:
        return True
    line = text.count("\n", 0, found.start()) + 1
    place = Place(file.file, line, found.start() - text.rfind("\n", 0, found.start()))
    report.problem(place, f"The file contains the control character U+{ord(found[0]):04X}", "remove it")
    return False


def parse_documents(text: str, file: Place, report: ProblemReport) -> list[Node]:
    """Parse the documents of a text, without empty ones; `file` is where it stands."""
    return _parse(text, file, report, MANIFEST)[0]


def _parse(text: str, file: Place, report: ProblemReport, limits: ReadLimits) -> tuple[list[Node], list[Node]]:
    """Parse a text into its documents, and the part of one that a mistake breaks off."""
    import yaml

    composer = _Composer(file.file, report, limits)
    try:
        for event in parse_events(text):
            composer.add(event)
    except _Unreadable:
        report.incomplete = True
    except yaml.MarkedYAMLError as error:
        report.incomplete = True
        _note_syntax(error, text, file, report)
    except (yaml.YAMLError, ValueError):
        report.incomplete = True
        report.problem(file, f"{NOT_YAML}: a character or number in it can't be read")
    return composer.documents, composer.unfinished()


def parse_events(text: str) -> Iterator[yaml.Event]:
    """Parse a text into YAML events."""
    import yaml

    # The C parser is six times as fast; not every build of PyYAML has it.
    parse = cast("Callable[..., Iterator[yaml.Event]]", yaml.parse)  # pyright: ignore[reportUnknownMemberType]
    return parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def _note_syntax(error: yaml.MarkedYAMLError, text: str, file: Place, report: ProblemReport) -> None:
    mark = error.problem_mark or error.context_mark
    place = Place(file.file, mark.line + 1, mark.column + 1) if mark else file
    lines = text.splitlines()
    line = lines[mark.line] if mark and mark.line < len(lines) else ""
    hint = ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        hint = "indent with spaces, not with tabs"
    elif "mapping values are not allowed" in (error.problem or ""):
        hint = "put a text that contains ': ' in quotes"
    elif mark and line[mark.column : mark.column + 1] in {"@", "`", "%"}:
        hint = "put a text that starts like this in quotes"
    report.problem(place, f"{NOT_YAML}: {_syntax_text(error)}", hint)


def _syntax_text(error: yaml.MarkedYAMLError) -> str:
    """Our own message for an error of the parser."""
    problem, context = error.problem or "", error.context or ""
    for theirs, ours in SYNTAX:
        if theirs in problem:
            return "a quoted text is not closed" if ours is UNCLOSED and "quoted scalar" in context else ours
    return "it can't be read from here on"


@dataclass(slots=True)
class _Size:
    """The size of a node after alias expansion."""

    nodes: int = 1
    characters: int = 0
    height: int = 0

    def add(self, part: _Size) -> None:
        self.nodes += part.nodes
        self.characters += part.characters
        self.height = max(self.height, part.height + 1)


@dataclass(slots=True)
class _Open:
    """A list or mapping that is not complete yet."""

    place: Place
    anchor: str | None
    items: list[Node] | None = None
    entries: dict[str, Entry] = field(default_factory=dict[str, Entry])
    merged: dict[str, Entry] = field(default_factory=dict[str, Entry])
    key: Scalar | None = None
    awaits_value: bool = False
    is_merge: bool = False
    size: _Size = field(default_factory=_Size)


@dataclass(slots=True)
class _Composer:
    """Composes parser events into nodes without recursion, so that nesting can't exhaust the stack."""

    file: str
    report: ProblemReport
    limits: ReadLimits
    documents: list[Node] = field(default_factory=list[Node])
    open: list[_Open] = field(default_factory=list[_Open])
    anchors: dict[str, tuple[Node, _Size]] = field(default_factory=dict[str, tuple[Node, _Size]])
    total: _Size = field(default_factory=_Size)

    def add(self, event: yaml.Event) -> None:
        import yaml

        place = Place(self.file, event.start_mark.line + 1, event.start_mark.column + 1)
        match event:
            case yaml.ScalarEvent():
                self._scalar(event, place)
            case yaml.AliasEvent():
                self._alias(str(event.anchor), place)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._start(event, place, None if isinstance(event, yaml.MappingStartEvent) else [])
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()
            case yaml.DocumentStartEvent():
                self.anchors.clear()
            case _:
                pass

    def unfinished(self) -> list[Node]:
        """Return the outermost list or mapping that has no end."""
        if not self.open:
            return []
        root = self.open[0]
        return [Fields(root.entries, root.place) if root.items is None else Items(tuple(root.items), root.place)]

    def _scalar(self, event: yaml.ScalarEvent, place: Place) -> None:
        text = str(event.value)
        if not self.limits.escapes and (found := UNPRINTABLE.search(text)):
            self.report.problem(place, f"The text contains the control character U+{ord(found[0]):04X}", "remove it")
            text = UNPRINTABLE.sub("", text)
        plainly = bool(event.implicit[0])
        value, mistake = resolve(text, event.tag, plainly=plainly)
        if mistake:
            self.report.problem(place, mistake)
        top = self.open[-1] if self.open else None
        if top and top.items is None and not top.awaits_value:
            top.is_merge = plainly and text == "<<"
        self._count(place, _Size(1, len(text)))
        self._add(Scalar(value, place, text), event.anchor, _Size(1, len(text)))

    def _alias(self, anchor: str, place: Place) -> None:
        if anchor not in self.anchors:
            inside = any(one.anchor == anchor for one in self.open)
            self._stop(place, f"*{anchor} is used inside its own anchor" if inside else f"There is no anchor &{anchor}")
        node, size = self.anchors[anchor]
        self._count(place, size)
        self._add(node, None, size)

    def _start(self, event: yaml.CollectionStartEvent, place: Place, items: list[Node] | None) -> None:
        if event.tag not in COLLECTION_TAGS:
            self.report.problem(place, f"The tag {shown(str(event.tag))} is not supported", "remove it")
        self._count(place, _Size())
        self.open.append(_Open(place, event.anchor, items))

    def _end(self) -> None:
        done = self.open.pop()
        if done.items is not None:
            node: Node = Items(tuple(done.items), done.place)
        else:
            node = Fields({**done.merged, **done.entries}, done.place)
        self._add(node, done.anchor, done.size)

    def _count(self, place: Place, size: _Size) -> None:
        self.total.add(size)
        if self.total.nodes > self.limits.nodes or self.total.characters > self.limits.characters:
            self._stop(place, "The file is too large when its aliases are expanded")
        if len(self.open) + size.height >= MAX_DEPTH:
            self._stop(place, f"This is nested more than {MAX_DEPTH} levels deep")

    def _add(self, node: Node, anchor: str | None, size: _Size) -> None:
        if anchor:
            self.anchors[anchor] = (node, size)
        if not self.open:
            if not (isinstance(node, Scalar) and node.value is None):
                self.documents.append(node)
            return
        top = self.open[-1]
        top.size.add(size)
        if top.items is not None:
            top.items.append(node)
        elif top.awaits_value:
            self._value(top, node)
        else:
            self._key(top, node)

    def _key(self, top: _Open, node: Node) -> None:
        top.awaits_value = True
        top.key = None
        if not isinstance(node, Scalar):
            top.is_merge = False
            hint = "put a text that starts with '{{' in quotes" if isinstance(node, Fields) else ""
            self.report.problem(node.place, f"A key must be text, and this is {described(node)}", hint)
        elif not isinstance(node.value, str):
            self.report.problem(
                node.place, f"A key must be text, and this is {described(node)}", f'write "{node.raw or "null"}"'
            )
        else:
            top.key = node

    def _value(self, top: _Open, node: Node) -> None:
        top.awaits_value = False
        key = top.key
        if key is None:
            return
        name = str(key.value)
        if top.is_merge:
            self._merge(top, node)
        elif name in top.entries:
            first = top.entries[name].place
            self.report.problem(
                key.place,
                f"The key {shown(name)} is duplicated",
                f"the first is in line {first.line}, column {first.column}; remove one",
            )
        else:
            top.entries[name] = Entry(name, key.place, node)

    def _merge(self, top: _Open, node: Node) -> None:
        sources = node.items if isinstance(node, Items) else (node,)
        for source in sources:
            if not isinstance(source, Fields):
                self.report.problem(node.place, f"'<<' expects mappings, and this is {described(source)}")
                continue
            for name, entry in source.entries.items():
                top.merged.setdefault(name, entry)

    def _stop(self, place: Place, message: str) -> None:
        self.report.problem(place, message)
        raise _Unreadable


def yaml_text(content: JsonValue) -> str:
    """Format plain data as YAML that this reader reads as the same data."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes multi-line texts as blocks, which people can read and edit."""

    def represent(_: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        # PyYAML leaves some texts unquoted that our reader takes for numbers.
        style = "|" if "\n" in text else None if resolve(text, None, plainly=True) == (text, "") else "'"
        return yaml.ScalarNode("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
