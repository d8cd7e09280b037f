"""`teamwright new`: creates a team folder that runs offline at once and is easy to change."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from teamwright.cli.terminal.output import Json, Out, check_out, write_json, write_result

TEAM = """\
# A team of two. It runs offline with the replies in replies.yaml; see README.md for real models.
agents:
  researcher:
    model: primary
    instructions: Collect the facts that matter for the task. Three short points, no more.
  writer:
    model: primary
    instructions: Write one clear paragraph from what the researcher found.

teams:
  {name}:
    strategy: sequential        # one after the other; round_robin repeats until max_turns or terminate
    members: [researcher, writer]
    limits: {{tokens: 20000, seconds: 300}}

models:
  primary: scripted:replies.yaml
  # primary: openai:gpt-5-mini               a provider, with its key in the environment
  # primary: local                           the embedded model, after `teamwright local install`
  # primary: {{url: http://localhost:8000/v1, name: my-model}}
"""

REPLIES = """\
# Scripted replies, so that the team runs without a model. The first rule that matches answers.
rules:
  - agent: researcher
    reply: |
      - Sourdough rises because wild yeast and bacteria live in the starter.
      - The bacteria make the acids that give it its taste and keep it fresh.
      - It needs hours where baker's yeast needs minutes.
  - agent: writer
    match: wild yeast
    reply: >-
      Sourdough is bread that rises slowly: wild yeast and bacteria in the starter do in hours what baker's yeast does
      in minutes, and on the way they make the acids that give the loaf its taste and keep it fresh.
  - agent: writer
    reply: I have nothing to write from.
"""

README = """\
# {name}

A team for Teamwright. `team.yaml` declares it, `replies.yaml` lets it run offline.

    teamwright run {folder} "Why does sourdough taste of more than bread?"

What to change first:

- `models.primary` in `team.yaml`: `openai:gpt-5-mini`, any other provider, `local`, or your own server. Or keep the
  file and try a model once: `teamwright run {folder} "…" --model openai:gpt-5-mini`
- `instructions` and `members`: add an agent, and add it to the list.
- `teamwright validate {folder}` reports every mistake with its line.

Afterwards:

    teamwright runs show last
"""

TASK = "Why does sourdough taste of more than bread?"


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The team's name, or a path that ends in it.")],
    json: Json = False,
    out: Out = None,
) -> int:
    """Create a team folder that runs at once."""
    check_out(out)
    folder, files = scaffold(Path(name))
    command = f'teamwright run {_quoted(str(folder))} "{TASK}"'
    if json:
        write_json({"folder": str(folder), "files": [str(file) for file in files], "command": command}, out)
    else:
        made = "\n".join(f"  {file}" for file in files)
        write_result(f"created\n{made}\nrun it with:\n  {command}", out)
    return 0


def scaffold(folder: Path) -> tuple[Path, list[Path]]:
    """Write the folder and return it with its files; never overwrites a file."""
    from teamwright.errors import UsageError
    from teamwright.values.names import check_name

    name = check_name("team", folder.name)
    texts = {"team.yaml": TEAM, "replies.yaml": REPLIES, "README.md": README}
    try:
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{str(folder)!r} exists already and is not empty; choose another name.")
        folder.mkdir(parents=True, exist_ok=True)
        files: list[Path] = []
        for file, text in texts.items():
            filled = text if file == "replies.yaml" else text.format(name=name, folder=_quoted(str(folder)))
            with (folder / file).open("x", encoding="utf-8") as opened:
                opened.write(filled)
            files.append(folder / file)
    except OSError as error:
        raise UsageError(f"The folder {str(folder)!r} can't be created: {error.strerror}.") from error
    return folder, files


def _quoted(text: str) -> str:
    from shlex import quote

    return quote(text)
