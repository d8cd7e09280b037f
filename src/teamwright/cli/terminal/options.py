"""Arguments and options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from teamwright.values.limits.limits import Limits

Run = Annotated[str, typer.Argument(metavar="RUN", help="A run's id, a unique prefix of it, or `last`.")]
ManifestPath = Annotated[Path, typer.Argument(metavar="MANIFEST", help="A file, or a folder of YAML files.")]
With = Annotated[
    list[Path] | None, typer.Option("--with", metavar="FILE", help="Another manifest to load; may be repeated.")
]
AllowRoot = Annotated[
    list[Path] | None,
    typer.Option(
        "--allow-root",
        metavar="DIR",
        help="Let file tools use this folder outside the manifest's; may be repeated.",
    ),
]
MovedTo = Annotated[
    Path | None,
    typer.Option(
        "--code", metavar="DIR", help="The folder of the run's manifest and code, if it was moved or renamed."
    ),
]
TeamName = Annotated[str | None, typer.Option("--team", help="Which team or agent, if there are several.")]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", "-m", help="Use this model for every agent: provider:name, URL#name, local, scripted:replies.yaml."
    ),
]
Profile = Annotated[
    str | None, typer.Option("--profile", metavar="NAME|FILE", help="Use a profile that `lab calibrate` wrote.")
]
Mermaid = Annotated[bool, typer.Option("--mermaid", help="Draw the team as a Mermaid flowchart.")]
Events = Annotated[bool, typer.Option("--events", help="Print each event as a line of JSON.")]
Full = Annotated[bool, typer.Option("--full", help="Show the arguments and results of tool calls whole.")]
NoInput = Annotated[bool, typer.Option("--no-input", help="Do not prompt: a run that waits for a person is paused.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no summary.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", min=1, metavar="N", help="Limit the run to N tokens.")]
MaxUsd = Annotated[float | None, typer.Option("--max-usd", min=0, metavar="X", help="Limit the run to X US dollars.")]
MaxCalls = Annotated[int | None, typer.Option("--max-calls", min=1, metavar="N", help="Limit the run to N calls.")]
MaxSeconds = Annotated[
    float | None, typer.Option("--max-seconds", min=0, metavar="S", help="Limit the run to S seconds.")
]


def run_limits(tokens: int | None, usd: float | None, calls: int | None, seconds: float | None) -> Limits | None:
    """The limits given on the command line, or None if there are none."""
    from pydantic import ValidationError

    from teamwright.errors import UsageError
    from teamwright.values.limits.limits import Limits
    from teamwright.values.text.validation_messages import misfits_of

    given = {"tokens": tokens, "usd": usd, "calls": calls, "seconds": seconds}
    given = {name: bound for name, bound in given.items() if bound is not None}
    try:
        return Limits.model_validate(given) if given else None
    except ValidationError as error:
        first = misfits_of(error, given)[0]
        raise UsageError(f"--max-{first.at[0]} {first.text}.") from error
