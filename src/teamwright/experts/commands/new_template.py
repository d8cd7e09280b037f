"""`teamwright experts new`: creates a template of your own; and the options of all commands that read templates."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, write_json, write_result

if TYPE_CHECKING:
    from teamwright.experts.templates import ExpertTemplates


Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of a template.")]
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


def new(
    name: Name,
    source: Annotated[str | None, typer.Option("--from", metavar="TEMPLATE", help="Copy this template.")] = None,
    folder: Folder = DEFAULT,
    json: Json = False,
) -> int:
    """Create a template of your own; an existing file is never overwritten."""
    from teamwright.errors import UsageError
    from teamwright.experts.templates import ExpertTemplate

    ExpertTemplate(name=name)  # refuses a name that is none
    copied = None if source is None else Path(open_templates(folder).get(source).file)
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
        write_json({"name": name, "file": str(file)})
    else:
        write_result(f"created {file}; use it with  expert: {name}")
    return 0


def open_templates(folder: Path) -> ExpertTemplates:
    """The built-in templates and those of a folder, if it exists."""
    from teamwright.experts.templates import ExpertTemplates

    return ExpertTemplates(*([folder] if folder.is_dir() else []))
