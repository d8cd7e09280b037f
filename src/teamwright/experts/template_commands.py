"""`teamwright experts`: the templates of experts, built-in ones and your own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result
from teamwright.errors import UsageError, nearest

if TYPE_CHECKING:
    from teamwright.experts.templates import ExpertTemplate, ExpertTemplates


BLANK = "blank"
"""A template to begin with that has the headings alone."""
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="[NAME|WORD…]", help="Show this template; or those with the words in a name or capability."),
]
Source = Annotated[
    str | None,
    typer.Option("--from", metavar="TEMPLATE", help="Create NAME as a copy of this template, or of `blank`."),
]
Folder = Annotated[
    Path, typer.Option("--folder", metavar="DIR", help="The folder of your own templates.", show_default=True)
]
DEFAULT = Path("experts")
TEMPLATE = """\
# A template of an expert: an agent with  expert: {name}  is made from it.
description: What the expert does, in one sentence. The other experts read it.
capabilities: [what, it, is, good, at]
avatar: "🙂"
color: "#0f766e"
persona: >-
  Who the expert is, and what it has seen.
thinking_style: >-
  How it looks at a problem.
collaboration_strategy: >-
  What it gives to the others, and what it asks of them.
instructions: |
  ## Method

  1. What it does first, and how it knows that it is done.

  ## What you deliver

  - The form of the result.

  ## What you refuse

  - What it must not do, also if it is asked to.

  ## How you disagree

  How it objects, and when it gives in.
"""


def experts(
    words: Words = None,
    source: Source = None,
    folder: Folder = DEFAULT,
    json: Json = False,
    out: Out = None,
) -> int:
    """List the templates of experts, built-in ones and your own; show one, find some, or create one of your own.

    Words that are no name of a template find those that match, the best first. Templates with mistakes are named with
    them. An existing file is never overwritten.

    Examples:
      teamwright experts
      teamwright experts market
      teamwright experts editor
      teamwright experts baker --from editor
    """
    check_out(out)
    given = words or []
    if source is not None:
        if len(given) != 1:
            raise UsageError("Name the new template:  teamwright experts NAME --from TEMPLATE")
        return _create(given[0], source, folder, out, json=json)
    templates = open_templates(folder)
    readable = _readable(templates)
    if len(given) == 1 and any(one.name == given[0] for one in readable):
        template = templates.get(given[0])
        if json:
            write_json(template.to_json(), out)
        else:
            write_result(_whole(template), out)
        return 0
    found = templates.search(" ".join(given)) if given else readable
    if given and not found and not json:
        say(f"No template fits; {nearest(' '.join(given), [one.name for one in readable])}")
    return _write(found, out, json=json)


def _create(name: str, source: str, folder: Path, out: Path | None, *, json: bool) -> int:
    """Write a template, from another one or from the headings of a blank one."""
    from teamwright.experts.templates import ExpertTemplate

    ExpertTemplate(name=name)  # refuses an invalid name
    copied = None if source == BLANK else Path(open_templates(folder).get(source).file)
    text = TEMPLATE.format(name=name) if copied is None else copied.read_text("utf-8")
    file = folder / f"{name}.yaml"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError as error:
        raise UsageError(f"{str(file)!r} exists already; choose another name, or edit it.") from error
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be written: {error.strerror}.") from error
    if json:
        write_json({"name": name, "file": str(file)}, out)
    else:
        write_result(f"created {file}; use it with  expert: {name}", out)
    return 0


def open_templates(folder: Path) -> ExpertTemplates:
    """The built-in templates and those of a folder, if it exists."""
    from teamwright.experts.templates import ExpertTemplates

    return ExpertTemplates(*([folder] if folder.is_dir() else []))


def _readable(templates: ExpertTemplates) -> Sequence[ExpertTemplate]:
    """Return the templates without mistakes, and tell the mistakes of the others."""
    found, problems = templates.list_readable()
    if problems:
        say("\n".join(("Templates that can't be read:", *map(str, problems))))
    return found


def _write(found: Sequence[ExpertTemplate], out: Path | None, *, json: bool) -> int:
    if json:
        write_json([one.to_json() for one in found], out)
    elif found:
        from teamwright.cli.terminal.output import columns

        rows = [(one.name, "" if one.built_in else "own", one_line(one.description)) for one in found]
        if not any(own for _, own, _ in rows):
            rows = [(name, about) for name, _, about in rows]
        write_result(columns(rows), out)
    return 0


def _whole(template: ExpertTemplate) -> str:
    """The template as text: what it is, its profile, and its instructions."""
    profile, agent = template.profile, template.agent
    origin = "built in" if template.built_in else template.file
    facts = {
        "capabilities": ", ".join(agent.capabilities),
        "persona": profile.persona,
        "thinking style": profile.thinking_style,
        "collaboration": profile.collaboration_strategy,
        "skills": ", ".join(profile.skills),
    }
    listed = [f"{name}: {value}" for name, value in facts.items() if value]
    heading = f"{profile.avatar} {template.name} ({origin})".strip()
    return "\n\n".join(filter(None, (f"{heading}\n{template.description}", *listed, agent.instructions_text.strip())))
