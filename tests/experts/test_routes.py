"""Templates of experts, and teams that are formed from them, over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from teamwright.journal import MemoryJournal
from tests.kit.server import serving
from tests.kit.terminal import write_team

pytestmark = pytest.mark.experts


async def test_templates_are_listed_searched_and_read(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        client = server.client("read")
        listed = (await client.get("/api/experts")).json()
        assert {"name", "description", "capabilities", "color", "avatar"} <= set(listed[0])
        found = (await client.get("/api/experts", params={"search": "security"})).json()
        assert found[0]["name"] == "security_reviewer"
        whole = (await client.get("/api/experts/analyst")).json()
        assert whole["instructions"]
        assert "file" not in whole
        missing = await client.get("/api/experts/nobody")
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown_name")


SOLO = """\
agents: {a: {model: usual}}
models: {usual: scripted:replies.yaml}
teams: {solo: {members: [a]}}
"""
VERDICT = {"criteria": [{"id": one, "passed": True, "reason": "yes"} for one in ("task", "grounded")], "feedback": ""}
ROLES = {"roles": [{"name": "editor", "template": "editor"}, {"name": "cook", "instructions": "Cook ${HOME}."}]}
REPLIES = [
    {"agent": "ask-roles", "reply": json.dumps(ROLES)},
    {"agent": "reviewer", "match": "criteri", "json": VERDICT},
    {"agent": "editor", "reply": "Edited."},
    {"agent": "*", "reply": "Done."},
]


def write_solo(folder: Path) -> Path:
    write_team(folder / "solo", SOLO, json.dumps({"rules": REPLIES}))
    (folder / "solo" / "experts").mkdir()
    (folder / "solo" / "experts" / "baker.yaml").write_text('description: Bakes.\navatar: "B"\n', encoding="utf-8")
    return folder


async def test_a_team_is_drafted_by_names_words_or_a_model_edited_and_started(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path, [write_solo(tmp_path / "teams")]) as server:
        client = server.client("run")
        assert (await client.get("/api/teams")).json()[0]["models"] == ["scripted:replies.yaml"]

        async def draft(task: str, **more: Any) -> dict[str, Any]:
            answer = await client.post("/api/experts/drafts", json={"team": "solo", "task": task, **more})
            assert answer.status_code == 200, answer.text
            return answer.json()

        named = await draft("@team:editor,baker Write of bread.")
        assert ([one["name"] for one in named["roles"]], named["lead"]) == (["editor", "baker"], "editor")
        by_words = await draft("Review the security of our login.")
        assert "security_reviewer" in [one["name"] for one in by_words["roles"]]
        assert (await client.get("/api/runs")).json() == []
        by_model = await draft("Plan a dinner.", by="model")
        assert [one["name"] for one in by_model["roles"]] == ["editor", "cook"]
        edited = named | {"roles": [*named["roles"], {"name": "taster", "task": "Taste ${HOME}."}], "lead": "baker"}
        body = {"formed": edited, "task": "1) Write of bread ${HOME}. 2) Taste it."}
        forecast = await client.post("/api/runs/forecast", json=body)
        assert forecast.status_code == 200, forecast.text
        started = await client.post("/api/runs", json=body)
        assert started.status_code == 201, started.text
        run_id = started.json()["run_id"]
        await server.state.engine.runs.wait(run_id)
        assert (await client.get(f"/api/runs/{run_id}")).json()["output"] == "Done."
        asked = (await client.get(f"/api/runs/{run_id}/request")).json()
        assert [one["name"] for one in asked["members"]] == ["editor", "baker", "taster"]
        assert asked["members"][1]["avatar"] == "B"
        assert "${HOME}" in asked["task"]


async def test_a_draft_that_can_not_be_used_says_why_and_names_no_model_or_path(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"roles": []}, "roles"),
        ({"roles": [{"name": "a"}, {"name": "a"}]}, "two roles are called 'a'"),
        ({"roles": [{"name": "a"}], "lead": "b"}, "the lead 'b'"),
        ({"roles": [{"name": "not a name!"}]}, "name"),
        ({"roles": [{"name": "a"}], "model": "openai:gpt-4o"}, "openai:gpt-4o"),
        ({"roles": [{"name": "a"}], "team": "nowhere"}, "nowhere"),
        ({"roles": [{"name": "torn", "template": "torn"}]}, "torn.yaml"),
    ]
    folder = write_solo(tmp_path / "teams")
    (folder / "solo" / "experts" / "torn.yaml").write_text("descripton: x\n", encoding="utf-8")
    async with serving(MemoryJournal(), tmp_path, [folder]) as server:
        client = server.client("run")
        assert "torn" not in [one["name"] for one in (await client.get("/api/experts?team=solo")).json()]
        for draft, text in wrong:
            answer = await client.post("/api/runs", json={"formed": {"team": "solo", **draft}, "task": "Go"})
            assert answer.status_code in (400, 404), answer.text
            assert text in answer.json()["error"]["fields"]["formed"], (draft, answer.text)
            assert str(folder) not in answer.text
        reader = await server.client("answer").post("/api/experts/drafts", json={"team": "solo", "task": "Go"})
        assert reader.status_code == 403


async def test_what_is_wrong_with_a_role_of_a_draft_is_said_of_its_field(tmp_path: Path) -> None:
    wrong: list[tuple[list[dict[str, str]], dict[str, str]]] = [
        ([{"name": "a"}, {"name": "bad name !"}], {"formed.roles.1.name": "is no name of an expert"}),
        ([{"name": "a"}, {"name": ""}], {"formed.roles.1.name": "is no name of an expert"}),
        ([{"name": "a"}, {"name": "b"}, {"name": "a"}], {"formed.roles.2.name": "two roles are called 'a'"}),
        ([{"name": "a", "tools": "x"}, {"name": "!"}], {"formed.roles.1.name": "is no name of an expert"}),
    ]
    async with serving(MemoryJournal(), tmp_path, [write_solo(tmp_path / "teams")]) as server:
        for roles, expected in wrong:
            body = {"formed": {"team": "solo", "roles": roles}, "task": "Go"}
            answer = await server.client("run").post("/api/runs/forecast", json=body)
            assert answer.status_code == 400
            fields = answer.json()["error"]["fields"]
            assert all(text in fields[name] for name, text in expected.items()), fields


async def test_the_texts_of_a_template_are_saved_in_the_folder_of_a_team_by_admins(tmp_path: Path) -> None:
    folder = write_solo(tmp_path / "teams") / "solo" / "experts"
    (folder / "baker.yaml").write_text("description: Bakes.\nmax_tokens: 900\npersona: Old ${HOME}\n", encoding="utf-8")
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        admin = server.client("admin")
        assert "experts" in (await admin.get("/api/operations")).json()["parts"]

        async def save(name: str, **texts: Any) -> dict[str, Any]:
            answer = await admin.put(f"/api/experts/{name}", json={"team": "solo", **texts})
            assert answer.status_code == 200, answer.text
            return answer.json()

        baker = await save("baker", description="Bakes: bread.", instructions="1. Knead\n2. Wait\n", color="#112233")
        assert (baker["description"], baker["max_tokens"], baker["persona"]) == ("Bakes: bread.", 900, "Old ${HOME}")
        assert "file" not in baker
        assert "color" not in await save("baker", persona="Older ${HOME}", color="")
        text = (folder / "baker.yaml").read_text(encoding="utf-8")
        assert "instructions: |" in text
        assert "color" not in text
        edited = await save("editor", persona="You are brief.")
        assert (edited["built_in"], edited["persona"]) == (False, "You are brief.")
        assert edited["instructions"] == (await admin.get("/api/experts/editor")).json()["instructions"]
        assert (await save("brewer", description="Brews.", capabilities=["beer"]))["capabilities"] == ["beer"]
        listed = (await admin.get("/api/experts?team=solo")).json()
        assert {one["name"] for one in listed if not one["built_in"]} == {"baker", "editor", "brewer"}
        assert sorted(one.name for one in folder.iterdir()) == ["baker.yaml", "brewer.yaml", "editor.yaml"]
        refused = await server.client("run").put("/api/experts/baker", json={"team": "solo", "persona": "x"})
        assert refused.status_code == 403


async def test_what_can_not_be_saved_of_a_template_is_said_beside_its_field(tmp_path: Path) -> None:
    folder = write_solo(tmp_path / "teams") / "solo" / "experts"
    before = (folder / "baker.yaml").read_text(encoding="utf-8")
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        admin = server.client("admin")
        cases: list[tuple[str, dict[str, Any], int, str, str]] = [
            ("baker", {"color": "red"}, 400, "color", "'red' is no colour: write it as '#' and six"),
            ("baker", {"persona": "My key is ${OPENAI_API_KEY}."}, 400, "persona", "can't read 'OPENAI_API_KEY'"),
            ("baker", {"capabilities": ["${HOME}"]}, 400, "capabilities", "can't read 'HOME'"),
            ("not a name", {"persona": "x"}, 400, "name", "not a name"),
            ("a%3Fb", {"persona": "x"}, 400, "name", "'a?b'"),
            ("a/b", {"persona": "x"}, 400, "name", "'a/b'"),
            ("..%2F..%2Fetc", {"persona": "x"}, 400, "name", "'../../etc'"),
            ("baker", {"team": "nowhere"}, 404, "team", "nowhere"),
            ("baker", {"function": "os:system"}, 422, "function", "is not a field here"),
            ("baker", {"persona": "It was [redacted]"}, 400, "persona", "mask of a secret"),
        ]
        for name, texts, status, field, words in cases:
            answer = await admin.put(f"/api/experts/{name}", json={"team": "solo", **texts})
            assert answer.status_code == status, answer.text
            assert words in answer.json()["error"]["fields"][field], answer.text
            assert str(tmp_path) not in answer.text
        (folder / "torn.yaml").write_text("descripton: x\n", encoding="utf-8")
        torn = await admin.put("/api/experts/torn", json={"team": "solo", "persona": "x"})
        assert (torn.status_code, str(tmp_path) in torn.text) == (400, False)
        assert "descripton" in torn.json()["error"]["message"]
        assert (folder / "baker.yaml").read_text(encoding="utf-8") == before


async def test_a_new_template_takes_the_place_of_none(tmp_path: Path) -> None:
    folder = write_solo(tmp_path / "teams") / "solo" / "experts"
    (folder / "torn.yaml").write_text("descripton: x\n", encoding="utf-8")
    async with serving(MemoryJournal(), tmp_path, [tmp_path / "teams"]) as server:
        admin = server.client("admin")

        async def create(name: str) -> tuple[int, dict[str, Any]]:
            answer = await admin.post("/api/experts", json={"team": "solo", "name": name, "persona": f"I am {name}."})
            return answer.status_code, answer.json()

        status, made = await create("brewer")
        assert (status, made["name"], made["persona"]) == (201, "brewer", "I am brewer.")
        before = {one.name: one.read_text(encoding="utf-8") for one in folder.iterdir()}
        for name, words in {
            "brewer": "There is a template 'brewer' already",
            "torn": "There is a template 'torn' already",
            "analyst": "There is a built-in template 'analyst' already",
        }.items():
            status, refused = await create(name)
            assert (status, refused["error"]["code"]) == (409, "template_exists")
            assert words in refused["error"]["fields"]["name"]
        messages: set[str] = set()
        for name in ("a?b", "a/b", "../../etc", ""):
            status, refused = await create(name)
            assert status == 400, refused
            messages.add(refused["error"]["fields"]["name"].replace(repr(name), "NAME"))
        assert len(messages) == 1
        assert {one.name: one.read_text(encoding="utf-8") for one in folder.iterdir()} == before


async def test_a_folder_of_templates_elsewhere_is_not_written(tmp_path: Path) -> None:
    teams = write_solo(tmp_path / "teams")
    (teams / "solo" / "experts" / "baker.yaml").unlink()
    (teams / "solo" / "experts").rmdir()
    (tmp_path / "elsewhere").mkdir()
    (teams / "solo" / "experts").symlink_to(tmp_path / "elsewhere")
    async with serving(MemoryJournal(), tmp_path, [teams]) as server:
        answer = await server.client("admin").put("/api/experts/baker", json={"team": "solo", "persona": "x"})
        assert answer.status_code == 400
        assert "link to another place" in answer.json()["error"]["message"]
    assert list((tmp_path / "elsewhere").iterdir()) == []
