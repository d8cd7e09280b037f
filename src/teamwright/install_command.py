"""The command that installs an extra of this package, from where the package came, with the installer that it came by.

Only messages for people need it, so it imports what it uses when it is called.
"""

from __future__ import annotations

from functools import cache

PACKAGE = "teamwright"


def install_command(extra: str) -> str:
    """Return the command that adds an extra, from where this package came: an index need not have it."""
    from shlex import quote  # for mistakes alone

    program, options, source = _origin()
    if source is None:
        return f"{program} {quote(f'{PACKAGE}[{extra}]')}"
    if "://" in source:
        return f"{program} {quote(f'{PACKAGE}[{extra}] @ {source}')}"
    return f"{program} {options}{quote(f'{source}[{extra}]')}"


@cache
def _origin() -> tuple[str, str, str | None]:
    """The installer, its options, and the folder, file or address that the package came from; `None` for an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution(PACKAGE)
    except PackageNotFoundError:
        return installer(by_uv=False), "", _checkout()
    by_uv = (found.read_text("INSTALLER") or "").strip() == "uv"
    return installer(by_uv=by_uv), *origin_in(found.read_text("direct_url.json"))


def installer(*, by_uv: bool) -> str:
    """Return the command that installs into the environment of this Python, which need not be the active one."""
    import os
    import shutil
    import sys
    from pathlib import Path
    from shlex import quote

    if by_uv:
        active = os.environ.get("VIRTUAL_ENV") == sys.prefix
        return "uv pip install" if active else f"uv pip install --python {quote(sys.executable)}"
    pip = shutil.which("pip")
    beside = pip is not None and Path(pip).parent == Path(sys.executable).parent
    return "pip install" if beside else f"{quote(sys.executable)} -m pip install"


def origin_in(direct_url: str | None) -> tuple[str, str | None]:
    """Return the options and the source in a `direct_url.json`, which an installer writes for all but an index."""
    import json
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    if not direct_url:
        return "", None
    try:
        said = json.loads(direct_url)
        url, version, folder = str(said["url"]), said.get("vcs_info"), said.get("dir_info")
        if version is not None:
            revision = version.get("requested_revision") or version["commit_id"]
            url = f"{version['vcs']}+{url}@{revision}"
        elif url.startswith("file:"):
            url = url2pathname(urlsplit(url).path)
    except (ValueError, KeyError, TypeError, AttributeError):  # another installer may write what it likes
        return "", _checkout()
    if inner := said.get("subdirectory"):
        url = f"{url}#subdirectory={inner}" if "://" in url else f"{url.rstrip('/')}/{inner}"
    return "-e " if folder and folder.get("editable") else "", url


def _checkout() -> str | None:
    """The folder of the source from which the package runs without being installed."""
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    return str(root) if (root / "pyproject.toml").is_file() else None
