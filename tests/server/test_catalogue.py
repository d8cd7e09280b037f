from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import UnknownName
from teamwright.server.catalogue import Catalogue
from tests.cli.conftest import TEAM, write_team


def test_teams_are_found_in_the_given_folders_alone(tmp_path: Path) -> None:
    write_team(tmp_path / "given" / "duo", TEAM)
    write_team(tmp_path / "other" / "secret", TEAM)
    (tmp_path / "given" / "link").symlink_to(tmp_path / "other" / "secret", target_is_directory=True)
    catalogue = Catalogue([tmp_path / "given"])
    assert [one.id for one in catalogue.entries()] == ["duo"]
    for id_ in ("secret", "link", "../other/secret", str(tmp_path / "other" / "secret")):
        with pytest.raises(UnknownName):
            catalogue.load(id_)


def test_a_manifest_with_mistakes_is_listed_with_them(tmp_path: Path) -> None:
    write_team(tmp_path / "broken", "teams: {t: {members: [nobody]}}")
    (entry,) = Catalogue([tmp_path]).entries()
    assert entry.team is None
    assert "nobody" in str(entry.to_json()["problem"])
