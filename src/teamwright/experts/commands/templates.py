"""`teamwright experts`, and `list` and `show`: the templates of experts, built-in ones and your own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, one_line, say, write_json, write_result
from teamwright.experts.commands.new_template import DEFAULT, Folder, Name, new, open_templates

if TYPE_CHECKING:
    from teamwright.experts.templates import ExpertTemplate, ExpertTemplates


app = typer.Typer(help="List, show and create experts.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
def list_templates(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[WORD…]", help="Only those with these words in a name, a capability or a task."),
    ] = None,
    folder: Folder = DEFAULT,
    json: Json = False,
    out: Out = None,
) -> int:
    """List the templates, built-in ones and your own, or those that match words, the best first.

    Templates with mistakes are named with them.
    """
    check_out(out)
    templates = open_templates(folder)
    readable = _readable(templates)
    if not words:
        return _write(readable, out, json=json)
    found = templates.search(" ".join(words))
    if not found and not json:
        say("No template fits; list them all with  teamwright experts list")
    return _write(found, out, json=json)


@app.command()
def show(name: Name, folder: Folder = DEFAULT, json: Json = False, out: Out = None) -> int:
    """Show a template whole, with its instructions."""
    check_out(out)
    template = open_templates(folder).get(name)
    if json:
        write_json(template.to_json(), out)
    else:
        write_result(_whole(template), out)
    return 0


app.command()(new)


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
