"""Arguments and options that several commands take, spelt the same everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, a unique beginning of it, or `last`.")]
ManifestPath = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A file, or a folder of YAML files.")]
With = Annotated[list[Path] | None, typer.Option("--with", metavar="FILE", help="A further manifest; may be repeated.")]
TeamName = Annotated[str | None, typer.Option("--team", help="Which team or agent, where there are several.")]
Model = Annotated[
    str | None,
    typer.Option("--model", "-m", help="Use this model for everyone: provider:name, local, scripted:replies.yaml."),
]
Mermaid = Annotated[bool, typer.Option("--mermaid", help="Draw the team as a Mermaid flowchart.")]
Events = Annotated[bool, typer.Option("--events", help="Print each event as a line of JSON.")]
NoInput = Annotated[
    bool, typer.Option("--no-input", help="Ask nobody here: a run that waits for a person is set down.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]
