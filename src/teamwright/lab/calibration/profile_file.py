"""Stores calibrations as files: in the user's data folder by name, or anywhere by path. Writes are atomic.

A file that is not a calibration, or that a newer version wrote, is rejected with a message.
"""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pydantic import ValidationError
from pydantic_core import from_json

from teamwright.errors import UnknownName, UsageError
from teamwright.journal.location import data_folder
from teamwright.lab.calibration.calibrate import VERSION, Calibration
from teamwright.lab.topology.profiles import TOPOLOGIES, TopologyProfiles
from teamwright.values.names import NAME, check_name
from teamwright.values.text.validation_messages import misfits_of, misfits_text

DEFAULT = "default"
ENDING = ".json"


def profiles_folder() -> Path:
    """The folder of profiles with a name."""
    return data_folder() / "profiles"


def profile_names() -> list[str]:
    """The names of the saved profiles."""
    folder = profiles_folder()
    return sorted(one.stem for one in folder.glob(f"*{ENDING}")) if folder.is_dir() else []


def profile_file(wanted: str) -> Path:
    """The file of a profile: a name means a file in the data folder, anything else is a path."""
    if NAME.fullmatch(wanted) and not wanted.endswith(ENDING):
        return profiles_folder() / f"{wanted}{ENDING}"
    return Path(wanted)


def read_profile(wanted: str) -> Calibration:
    """Read the calibration with this name or path."""
    file = profile_file(wanted)
    if not file.is_file():
        if file.parent == profiles_folder():
            raise UnknownName("profile", wanted, profile_names())
        raise UsageError(f"There is no file {str(file)!r}; create it with  teamwright lab calibrate --out {file}")
    data: object = None
    try:
        data = from_json(file.read_bytes())
        found = Calibration.model_validate(data)
    except ValidationError as error:
        is_ours = isinstance(data, dict) and "topologies" in data  # another file is not quoted
        wrong = f": {misfits_text(misfits_of(error, cast('object', data)))}" if is_ours else ""
        raise UsageError(f"{str(file)!r} is not a calibration{wrong}.") from error
    except ValueError as error:
        raise UsageError(f"{str(file)!r} is not a calibration: it is not JSON.") from error
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be read: {error.strerror}.") from error
    if found.version > VERSION:
        raise UsageError(f"{str(file)!r} was written by a newer version of Teamwright; install that one.")
    return found


def profiles_of(wanted: str | None) -> TopologyProfiles:
    """The topology profiles of a calibration; without one, the built-in ones."""
    return TOPOLOGIES if wanted is None else read_profile(wanted).profiles


def save_profile(calibration: Calibration, name: str = DEFAULT) -> Path:
    """Save a calibration in the data folder under a name, and return its file."""
    folder = profiles_folder()
    file = folder / f"{check_name('profile', name)}{ENDING}"
    part = file.with_suffix(".part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_text(profile_text(calibration), encoding="utf-8")
        part.replace(file)
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be written: {error.strerror}; name a file with --out.") from error
    return file


def profile_text(calibration: Calibration) -> str:
    """The content of a profile file."""
    return calibration.model_dump_json(indent=2, exclude_none=True) + "\n"
