"""Where the data of a user lives: `TEAMWRIGHT_HOME`, or the platform's data folder. Nothing is created here."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """The folder of the journal and its locks."""
    if home := os.environ.get("TEAMWRIGHT_HOME"):
        return Path(home).expanduser()
    from platformdirs import user_data_path

    return user_data_path("teamwright", appauthor=False)


def default_journal() -> Path:
    """The journal that is used where nobody names one."""
    return data_folder() / "journal.db"
