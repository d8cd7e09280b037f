"""The tool `skills`: files on demand, nothing outside the folder, and no silent change between a run and its resume."""

from __future__ import annotations

from pathlib import Path

import pytest

from teamwright import Engine, ModelAgent, Team, load_team
from teamwright.agents import ServerModel, ToolSource
from teamwright.errors import ToolError, UsageError
from teamwright.experts import read_skills
from teamwright.experts.skills import SkillMethods, SkillSource
from teamwright.journal.in_memory_journal import MemoryJournal
from teamwright.testing import ModelServer, Say, ToolSourceConformance
from teamwright.testing.model_server import ChatRequest
from tests.experts.test_skills import make
from tests.kit.records import cut
from tests.teams.manifests.manifests import only_problem

FORMS = {"forms.md": "Field by field."}


class TestSkills(ToolSourceConformance):
    calls = (("read_skill", {"skill": "pdf"}), ("read_skill", {"skill": "pdf", "file": "forms.md"}))

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = make(tmp_path / "pdf", **FORMS)

    def make(self) -> ToolSource:
        return read_skills(self.folder)


def methods(source: SkillSource) -> SkillMethods:
    return SkillMethods(source.skills)


def test_a_skill_gives_its_instructions_first_and_its_files_by_name(tmp_path: Path) -> None:  # A-01
    tool = methods(read_skills(make(tmp_path / "pdf", **FORMS)))
    assert tool.read_skill("pdf") == {"instructions": "# PDF\n\nBody.", "files": ["forms.md"]}
    assert tool.read_skill("pdf", "./forms.md") == "Field by field."


@pytest.mark.parametrize("file", ["../outside.txt", "/etc/passwd", "none.md", "", "sub/../../outside.txt"])
def test_nothing_outside_the_folder_can_be_read(tmp_path: Path, file: str) -> None:  # A-01
    (tmp_path / "outside.txt").write_text("secret", encoding="utf-8")
    with pytest.raises(ToolError, match="has no file"):
        methods(read_skills(make(tmp_path / "pdf", **FORMS))).read_skill("pdf", file)


def test_a_file_that_becomes_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:  # A-01
    source = read_skills(make(tmp_path / "pdf", **FORMS))
    (tmp_path / "outside.txt").write_text(FORMS["forms.md"], encoding="utf-8")
    (tmp_path / "pdf" / "forms.md").unlink()
    (tmp_path / "pdf" / "forms.md").symlink_to(tmp_path / "outside.txt")
    with pytest.raises(ToolError, match="is gone"):
        methods(source).read_skill("pdf", "forms.md")


def test_a_file_that_changed_is_never_used_silently(tmp_path: Path) -> None:  # A-01 D-01
    source = read_skills(make(tmp_path / "pdf", **FORMS))
    make(tmp_path / "pdf", **{"forms.md": "Something else."})
    with pytest.raises(ToolError, match="has changed since the run began, so it is not used"):
        methods(source).read_skill("pdf", "forms.md")


def test_an_unknown_skill_is_answered_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="did you mean 'pdf'"):
        methods(read_skills(make(tmp_path / "pdf"))).read_skill("pfd")


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (make(tmp_path / "pdf") / "logo.png").write_bytes(b"\x89PNG\xff")
    with pytest.raises(ToolError, match="is no text"):
        methods(read_skills(tmp_path / "pdf")).read_skill("pdf", "logo.png")


def test_python_refuses_folders_without_skills(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"The skills can't be used: .* is no skill"):
        read_skills(tmp_path)
    with pytest.raises(UsageError, match="name at least one folder"):
        read_skills()


async def test_a_model_is_told_names_and_descriptions_and_not_the_bodies(tmp_path: Path) -> None:  # A-01
    def answer(request: ChatRequest) -> Say:
        return Say(text="Done.")

    with ModelServer(answer) as server:
        model = ServerModel(url=server.url, name="m")
        agent = ModelAgent("a", model=model, instructions="Work.", tools=[read_skills(make(tmp_path / "pdf"))])
        async with Engine(MemoryJournal()) as engine:
            await engine.run(Team("t", members=[agent]), "go")
        sent = repr(server.requests[0])
    assert "read it with read_skill" in sent
    assert "- pdf: Fill forms." in sent
    assert "Body." not in sent


MANIFEST = """\
agents: {a: {model: scripted:replies.yaml, expert: {skills: [skills]}}}
teams: {t: {members: [a]}}
"""
REPLIES = """\
rules:
  - {match: "# tool read_skill", reply: Read.}
  - {tool: {name: read_skill, args: {skill: pdf, file: forms.md}}}
"""


async def test_a_run_resumes_from_every_event_although_the_skill_changed_and_says_so(tmp_path: Path) -> None:
    # A-01 D-01
    make(tmp_path / "skills" / "pdf", **FORMS)
    (tmp_path / "team.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    journal = MemoryJournal()
    async with Engine(journal) as engine:
        assert (await engine.run(load_team(tmp_path / "team.yaml"), "go", run_id="r")).output == "Read."
    make(tmp_path / "skills" / "pdf", "no skill any more", **{"forms.md": "Something else."})
    events = await journal.read("r")
    read = next(at for at, event in enumerate(events, 1) if event.kind == "agent.returned" and "tool-" in event.key)
    for at in range(1, len(events)):
        copy = await cut(journal, at)
        async with Engine(copy) as engine:
            again = await engine.resume("r")
            recorded = str(await copy.read("r"))
        assert again.output == "Read."
        assert ("has changed since the run began" in recorded) == (at < read)


def test_a_manifest_with_a_folder_that_is_no_skill_is_refused_with_its_line(tmp_path: Path) -> None:  # A-01
    (tmp_path / "empty").mkdir()
    text = "agents:\n  a: {model: local, tools: [{skills: {folder: [empty]}}]}\nteams: {t: {members: [a]}}\n"
    problem = only_problem(tmp_path, text)
    assert (problem.line, problem.message) == (
        2,
        "agent 'a': 'empty' is no skill and has none in it: a skill is a folder with a file SKILL.md.",
    )


def test_the_record_of_a_manifest_pins_each_file(tmp_path: Path) -> None:  # A-01 D-01
    make(tmp_path / "skills" / "pdf", **FORMS)
    (tmp_path / "team.yaml").write_text(MANIFEST, encoding="utf-8")
    (tmp_path / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    source = load_team(tmp_path / "team.yaml").source
    (tool,) = source.manifest.agents["a"].tools
    assert not isinstance(tool, str)
    pinned = (tool.model_extra or {})["skills"]["pinned"]
    assert [(one["name"], one["folder"], list(one["files"])) for one in pinned] == [
        ("pdf", "skills/pdf", ["SKILL.md", "forms.md"])
    ]


def test_skills_outside_the_manifest_have_to_be_allowed(tmp_path: Path) -> None:  # A-01
    make(tmp_path / "elsewhere" / "pdf")
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "team.yaml").write_text(MANIFEST.replace("[skills]", "[../elsewhere]"), encoding="utf-8")
    (inner / "replies.yaml").write_text(REPLIES, encoding="utf-8")
    with pytest.raises(UsageError, match="--allow-root"):
        load_team(inner / "team.yaml")
    assert load_team(inner / "team.yaml", allow_roots=[tmp_path / "elsewhere"]).name == "t"
