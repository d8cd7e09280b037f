"""Calibrations as files: in the user's data folder by name, or anywhere by path. Data only, and never overwritten half.

A file that is no calibration, or was written by a newer version, is refused in words.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError
from pydantic_core import from_json

from teamwright.errors import UnknownName, UsageError
from teamwright.journal.location import data_folder
from teamwright.lab.calibration.calibrate import VERSION, Calibration
from teamwright.planning.topology.profiles import TOPOLOGIES, TopologyProfiles
from teamwright.values.names import NAME, check_name
from teamwright.values.text.validation_messages import misfits_of, misfits_text

DEFAULT = "default"
ENDING = ".json"


def profiles_folder() -> Path:
    """Where profiles lie that have a name."""
    return data_folder() / "profiles"


def profile_names() -> list[str]:
    """The profiles that there are by name."""
    folder = profiles_folder()
    return sorted(one.stem for one in folder.glob(f"*{ENDING}")) if folder.is_dir() else []


def profile_file(wanted: str) -> Path:
    """The file of a profile: a name is looked for in the data folder, anything else is a path."""
    if NAME.fullmatch(wanted) and not wanted.endswith(ENDING):
        return profiles_folder() / f"{wanted}{ENDING}"
    return Path(wanted)


def read_profile(wanted: str) -> Calibration:
    """The calibration of this name or file."""
    file = profile_file(wanted)
    if not file.is_file():
        if file.parent == profiles_folder():
            raise UnknownName("profile", wanted, profile_names())
        raise UsageError(f"There is no file {str(file)!r}; make one with  teamwright lab calibrate --out {file}")
    data: object = None
    try:
        data = from_json(file.read_bytes())
        found = Calibration.model_validate(data)
    except ValidationError as error:
        raise UsageError(f"{str(file)!r} is no calibration: {misfits_text(misfits_of(error, data))}.") from error
    except ValueError as error:
        raise UsageError(f"{str(file)!r} is no calibration: it is not JSON.") from error
    except OSError as error:
        raise UsageError(f"{str(file)!r} can't be read: {error.strerror}.") from error
    if found.version > VERSION:
        raise UsageError(f"{str(file)!r} was written by a newer version of Teamwright; install that one.")
    return found


def profiles_of(wanted: str | None) -> TopologyProfiles:
    """The numbers of topologies by a calibration; where none is named, those built in."""
    return TOPOLOGIES if wanted is None else read_profile(wanted).profiles


def keep_profile(calibration: Calibration, name: str = DEFAULT) -> Path:
    """Write a calibration into the data folder under a name."""
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
    """A calibration as it stands in a file."""
    return calibration.model_dump_json(indent=2, exclude_none=True) + "\n"
