from __future__ import annotations

from pathlib import Path

import pytest

from teamwright.journal import MemoryJournal
from teamwright.server.credentials import Visitor
from teamwright.server.routes import page
from tests.kit.server import serving


@pytest.fixture
def static(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "static"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<!doctype html><title>page</title>")
    (folder / "assets" / "a.js").write_text("1")
    (tmp_path / "secret.txt").write_text("hidden")
    monkeypatch.setattr(page, "static_folder", lambda: folder)
    return folder


@pytest.mark.usefixtures("static")
async def test_the_files_of_the_page_need_no_token(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        nobody = server.client(None)
        for address in ("/", "/runs/one", "/?code=x"):
            assert "<title>page" in (await nobody.get(address)).text
        script = await nobody.get("/assets/a.js")
        assert (script.text, script.headers["Cache-Control"]) == ("1", page.HASHED)
        assert script.headers["Content-Type"].startswith("text/javascript")


@pytest.mark.usefixtures("static")
@pytest.mark.parametrize("path", ["/../secret.txt", "/%2e%2e/secret.txt", "/assets/..%2f..%2fsecret.txt", "/a.js"])
async def test_no_path_leaves_the_folder(tmp_path: Path, path: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client(None).get(path)
    assert (answer.status_code, "hidden" in answer.text) == (404, False)


async def test_without_a_page_the_server_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "static_folder", lambda: tmp_path / "nothing")
    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client(None).get("/")
    assert (answer.status_code, answer.text) == (200, page.NOT_BUILT)


async def test_a_session_ends_when_its_browser_says_so(tmp_path: Path) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        code = server.state.sessions.new_code(Visitor("ann", "read"))
        browser = server.client(None)
        begun = await browser.post("/api/session", json={"code": code})
        assert "Set-Cookie" not in begun.headers
        browser.headers["Authorization"] = f"Bearer {begun.json()['session']}"
        assert (await browser.get("/api/session")).json() == {"name": "ann", "role": "read"}
        assert (await browser.delete("/api/session")).status_code == 200
        assert (await browser.get("/api/session")).status_code == 401


@pytest.mark.usefixtures("static")
@pytest.mark.parametrize("path", ["/a%00b", "/" + "x" * 5000, "/a%00.js", "/%ff%fe", "/" + "a/" * 3000])
async def test_a_name_that_no_file_can_have_is_an_address_of_the_page(tmp_path: Path, path: str) -> None:
    async with serving(MemoryJournal(), tmp_path) as server:
        answer = await server.client(None).get(path)
    assert answer.status_code in (200, 404)
