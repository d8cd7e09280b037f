"""A run as one HTML file: its page events, prompts and KPIs, and the page that shows them, without a server.

Texts are data in the file and never markup: its content security policy allows the page's own script and style by their
hashes, and nothing else.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pydantic import JsonValue

from teamwright.errors import UsageError
from teamwright.history.kpis import read_kpis
from teamwright.runtime.recorded.rebuilt_prompts import PromptReplay, TurnPrompt
from teamwright.server.page.page_events import PAGE_VERSION, encode
from teamwright.server.page.projection import read_page_events
from teamwright.values.text.secrets import mask_value

if TYPE_CHECKING:
    from teamwright.runtime.engine import Engine

MOST_PROMPTS = 500
MOST_PROMPT_BYTES = 8 * 1024 * 1024
"""A prompt repeats what came before it, so the prompts of a long run are left out from some point on."""
LEFT_OUT = "left out of this file, which would be too large; see  teamwright runs show {run} {key}"
NOT_BUILT = "This installation has no page to put into the file; in a checkout, build it with  make page"
HARMLESS = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})
"""Characters that mean something to an HTML parser, or to an old parser of scripts, as they are written in JSON."""


@dataclass(frozen=True, slots=True)
class PageBundle:
    """The script and the style sheet of the page."""

    script: str
    style: str

    @classmethod
    def load(cls, folder: Path | None = None) -> PageBundle:
        """Read the bundle that came with the package; raises `UsageError` where there is none."""
        folder = folder or Path(str(files("teamwright"))) / "server" / "page" / "static" / "export"
        try:
            script, style = ((folder / name).read_text(encoding="utf-8") for name in ("run.js", "run.css"))
        except OSError as error:
            raise UsageError(NOT_BUILT) from error
        return cls(_inside(script, "script"), _inside(style, "style"))


def _inside(text: str, element: str) -> str:
    """Return code as it can stand inside an element: nothing in it ends the element, or begins a comment."""
    text = text.replace("\r\n", "\n").replace(f"</{element}", f"<\\/{element}")
    return text.replace("<!--", "<\\!--") if element == "script" else text


async def export_html(engine: Engine, run_id: str, bundle: PageBundle | None = None, *, prompts: bool = True) -> str:
    """Return a run as one HTML file; without `prompts` it is smaller."""
    events = await read_page_events(engine.journal, run_id)
    result = (await engine.runs.result(run_id)).to_json()
    document: dict[str, object] = {
        "format": f"teamwright.page/{PAGE_VERSION}",
        "run_id": run_id,
        "run": mask_value(result),
        "kpis": mask_value((await read_kpis(engine.journal, run_id)).to_json()),
        "prompts": await _prompts(engine, run_id) if prompts else {},
        "events": msgspec.Raw(encode(events)),
    }
    return html_file(f"Run {run_id}", msgspec.json.encode(document).decode(), bundle or PageBundle.load())


async def _prompts(engine: Engine, run_id: str) -> dict[str, JsonValue]:
    """Rebuild the prompts of all turns, as far as they fit."""
    replay, found, size = await PromptReplay.load(engine, run_id), dict[str, JsonValue](), 0
    for key in replay.keys:
        if len(found) < MOST_PROMPTS and size < MOST_PROMPT_BYTES:
            prompt = (await replay.prompt(key)).to_json()
            size += len(encode(prompt))
        else:
            prompt = _missing(run_id, key)
        found[key] = prompt
    return found


def _missing(run_id: str, key: str) -> JsonValue:
    missing = TurnPrompt(
        run_id=run_id, key=key, member="", member_kind="", purpose="", task="",
        problem=LEFT_OUT.format(run=run_id, key=key),
    )  # fmt: skip
    return missing.to_json()


def html_file(title: str, data: str, bundle: PageBundle) -> str:
    """Return the file with this title and JSON."""
    policy = (
        f"default-src 'none'; script-src {_hash(bundle.script)}; style-src {_hash(bundle.style)}; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{bundle.style}</style>\n</head>\n<body>\n"
        '<div id="app"></div>\n'
        f'<script type="application/json" id="run">{data.translate(HARMLESS)}</script>\n'
        f"<script>{bundle.script}</script>\n</body>\n</html>\n"
    )


def _hash(code: str) -> str:
    return f"'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"
