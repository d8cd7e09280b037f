"""Rejects output files that the run also reads, so that no manifest, task or script is overwritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from teamwright.agents.scripted import Script
from teamwright.errors import UsageError
from teamwright.teams.builder import SCRIPTED
from teamwright.values.specs.manifest import FallbackModel, model_key

if TYPE_CHECKING:
    from teamwright.teams.manifests.load import Loaded
    from teamwright.values.specs.manifest import Source


def check_no_overwrite(written: Mapping[str, Path | None], read: Iterable[Path]) -> None:
    """Reject an output file that is also read; `written` maps options to their files."""
    existing = {option: file for option, file in written.items() if file is not None and file.is_file()}
    if not existing:
        return
    for source in read:
        for option, file in existing.items():
            if source.is_file() and source.samefile(file):
                raise UsageError(
                    f"{option} {str(file)!r} would overwrite a file that this run reads; name another one."
                )


def files_read(source: Source, loaded: Loaded | None, task: str | None) -> Iterator[Path]:
    """The files that a run reads: its manifests, its task and the scripts of its agents."""
    yield from (Path(source.base) / file for file in _scripts(source))
    yield from (file for file in (loaded.files if loaded else ()) if not _is_script(file))
    if task is not None:
        yield Path(task)


def _scripts(source: Source) -> Iterator[str]:
    specs = source.manifest.agents.values()
    fallbacks = (spec.fallback.model for spec in specs if isinstance(spec.fallback, FallbackModel))
    models = (*source.manifest.models.values(), *fallbacks, *(spec.model for spec in specs if spec.model is not None))
    yield from (spec.scripted for spec in specs if spec.scripted is not None)
    yield from (key.removeprefix(SCRIPTED) for key in map(model_key, models) if key.startswith(SCRIPTED))


def _is_script(file: Path) -> bool:
    """Whether a file in the folder of the manifests is a script, which `--record` may overwrite, and no manifest."""
    try:
        Script.load(file)
    except UsageError:
        return False
    return True
