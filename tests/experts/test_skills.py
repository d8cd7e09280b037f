from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.errors import UsageError
from teamwright.experts import skills
from teamwright.experts.skills import pin_skills, skill_body

HEADER = "---\nname: pdf\ndescription: Fill forms.\n---\n# PDF\n\nBody.\n"


def make(folder: Path, text: str = HEADER, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in {"SKILL.md": text, **files}.items():
        (folder / name).write_text(content, encoding="utf-8")
    return folder


def test_a_folder_with_a_skill_file_is_one_skill(tmp_path: Path) -> None:  # A-01
    make(tmp_path / "pdf", **{"forms.md": "F"})
    (tmp_path / "pdf" / "scripts").mkdir()
    (tmp_path / "pdf" / "scripts" / "fill.py").write_text("print()", encoding="utf-8")
    (found,) = pin_skills([("pdf", tmp_path / "pdf")])
    assert (found.name, found.description, found.folder) == ("pdf", "Fill forms.", "pdf")
    assert list(found.files) == ["SKILL.md", "forms.md", "scripts/fill.py"]
    assert all(len(digest) == 64 for digest in found.files.values())


def test_a_folder_of_skills_brings_them_all(tmp_path: Path) -> None:  # A-01
    make(tmp_path / "b", "---\ndescription: B.\n---\n")
    make(tmp_path / "a", "---\nname: first\ndescription: A.\n---\n")
    (tmp_path / "notes").mkdir()
    assert [(one.name, one.folder) for one in pin_skills([("all/", tmp_path)])] == [("first", "all/a"), ("b", "all/b")]


def test_front_matter_of_the_wild_is_read(tmp_path: Path) -> None:  # A-01
    folded = "---\nname: pdf\ndescription: >-\n  Fill\n  forms.\nlicense: MIT\nmetadata: {version: 1}\n---\n"
    colon = "---\nname: pdf\ndescription: Use when: a form is filled\nallowed-tools: Bash(jq:*)\n---\n"
    windows = "\ufeff---\r\nname: pdf\r\ndescription: Fill forms.\r\n---\r\nBody.\r\n"
    title = "\n---\nname: PDF Processing\ndescription: Fill forms.\n---\n"
    chinese = "---\nname: 表单\ndescription: 填写表单。\n---\n"
    block = "---\nname: pdf\ndescription: |\n  Use when: a form\n  is filled\nnote: it: breaks\n---\n"
    for text, description in (
        (folded, "Fill forms."),
        (colon, "Use when: a form is filled"),
        (windows, "Fill forms."),
        (title, "Fill forms."),
        (chinese, "填写表单。"),
        (block, "Use when: a form is filled"),
    ):
        (found,) = pin_skills([("pdf", make(tmp_path / "pdf", text))])
        assert (found.name, found.description) == ("pdf", description)
    assert skill_body(windows) == "Body."
    assert skill_body(HEADER) == "# PDF\n\nBody."


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("# PDF", "has no front matter"),
        ("---\nname: pdf\n---\n", "has no description"),
        ("---\nname: a b\ndescription: x\n---\n", "is called 'a b'"),
        ("---\n[a]\n---\n", "has no description"),
    ],
)
def test_what_is_no_skill_is_refused_in_words(tmp_path: Path, text: str, problem: str) -> None:  # A-01
    with pytest.raises(UsageError, match=problem):
        pin_skills([("pdf", make(tmp_path / ("a b" if "a b" in text else "pdf"), text))])


def test_folders_without_skills_and_two_of_one_name_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no skill and has none in it"):
        pin_skills([("x", tmp_path)])
    with pytest.raises(UsageError, match="can't be read"):
        pin_skills([("x", tmp_path / "gone")])
    with pytest.raises(UsageError, match="two skills are called 'pdf'"):
        pin_skills([("a", make(tmp_path / "a")), ("b", make(tmp_path / "b"))])


def test_links_out_of_the_folder_and_hidden_files_are_no_part_of_a_skill(tmp_path: Path) -> None:  # A-01
    make(tmp_path / "pdf", **{".env": "KEY=1"})
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    (tmp_path / "pdf" / "link.txt").symlink_to(tmp_path / "outside.txt")
    (tmp_path / "pdf" / "up").symlink_to(tmp_path)
    (found,) = pin_skills([("pdf", tmp_path / "pdf")])
    assert list(found.files) == ["SKILL.md"]


def test_a_skill_of_too_many_files_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(skills, "MOST_FILES", 2)
    with pytest.raises(UsageError, match="more than 2 files"):
        pin_skills([("pdf", make(tmp_path, a="", b=""))])
