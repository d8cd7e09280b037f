"""The page: its files from the wheel, which need no token. They are public; what they show comes from `/api`."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

router = APIRouter(include_in_schema=False)
NOT_BUILT = """\
Teamwright's server is running, but this installation has no page: its files are built into the wheel.

In a checkout, build them with  make page.  The interface for programs is described by /api/openapi.json.
"""
HASHED = "public, max-age=31536000, immutable"


def static_folder() -> Path:
    """The folder of the page's files; it may be missing."""
    return Path(str(files("teamwright"))) / "server" / "page" / "static"


@router.get("/{path:path}")
async def page_file(path: str) -> Response:
    """Return a file of the page, or its document for addresses that the page itself interprets."""
    if path.startswith(("api/", "v1/")):
        raise HTTPException(404, "there is no such address")
    folder = static_folder().resolve()
    document = folder / "index.html"
    if not document.is_file():
        return PlainTextResponse(NOT_BUILT, 200 if path == "" else 404)
    found = _file_in(folder, path)
    if found is not None and found != document:
        caching = HASHED if path.startswith("assets/") else "no-cache"
        return FileResponse(found, headers={"Cache-Control": caching})
    if "." in path.rpartition("/")[2]:
        raise HTTPException(404, "there is no such file")
    return FileResponse(document, headers={"Cache-Control": "no-cache"})


def _file_in(folder: Path, path: str) -> Path | None:
    """Return the file with this path inside a folder, if there is one."""
    try:
        found = (folder / path).resolve()
        return found if found.is_relative_to(folder) and found.is_file() else None
    except (OSError, ValueError):  # a name that no file can have: too long, or with a null character
        return None
