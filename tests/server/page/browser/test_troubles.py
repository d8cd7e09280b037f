"""Troubles, and readers without a mouse: what the page says where the server fails, and where the focus goes."""

from __future__ import annotations

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

from playwright.sync_api import Page, expect
from typing_extensions import override

from tests.server.page.browser.kit import PageServer


def test_an_error_of_the_server_is_said_with_a_way_on(server: PageServer, page: Page) -> None:
    page.route("**/api/teams", lambda route: route.fulfill(status=500, body="no JSON at all"))
    server.open(page, "new")
    expect(page.get_by_role("alert")).to_contain_text("Internal Server Error")
    page.unroute("**/api/teams")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("radio", name="talk")).to_be_attached()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_a_list_that_is_no_longer_followed_says_so(server: PageServer, page: Page) -> None:
    server.open(page)
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.route("**/api/inbox", lambda route: route.abort())
    expect(page.get_by_role("alert")).to_contain_text("The server can’t be reached.")
    page.unroute("**/api/inbox")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("alert")).to_be_hidden()


def test_what_is_opened_while_the_server_is_away_says_so_and_comes_when_it_is_back(
    own_server: PageServer, own_page: Page
) -> None:
    own_server.sign_in(own_page)
    own_server.kill()
    expect(own_page.get_by_text("No connection")).to_be_visible()
    own_page.keyboard.press("n")  # it was never loaded
    expect(own_page.get_by_role("alert")).to_contain_text("The server can’t be reached.")
    own_server.start()
    gallery = own_page.get_by_role("group", name="Who does it?")
    expect(gallery).to_contain_text("Three who talk")
    assert gallery.evaluate("one => getComputedStyle(one).borderTopWidth") == "0px"  # its styles have come, too
    expect(own_page.get_by_text("No connection")).to_be_hidden()
    own_page.get_by_label("What should be done?").fill("@talk about water")
    expect(own_page.get_by_role("region", name="Forecast")).to_contain_text("Never more than")
    own_page.route("**/api/**", lambda route: route.abort())
    own_page.get_by_label("What should be done?").fill("@talk about ice")
    expect(own_page.get_by_role("alert")).to_contain_text("The server can’t be reached.")
    expect(own_page.get_by_text("No connection")).to_be_visible()
    own_page.unroute("**/api/**")
    expect(own_page.get_by_role("region", name="Forecast")).to_contain_text("Never more than")


def test_a_run_that_can_not_be_read_is_not_an_empty_one(server: PageServer, page: Page) -> None:
    run_id = server.start_run(page, "talk")
    server.open(page)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    page.route("**/page-events*", lambda route: route.abort())
    page.route_web_socket("**/socket*", lambda socket: socket.close())
    server.open(page, "runs", run_id)
    expect(page.get_by_role("heading", name="The run can’t be read now")).to_be_visible()


def test_a_fork_that_is_refused_says_so_beside_the_field(server: PageServer, page: Page) -> None:
    server.show_run(page, "talk", view="travel")
    page.get_by_role("button", name="Change task or limits").click()
    page.get_by_label("Limit of tokens").fill("-1")
    page.get_by_role("button", name="Fork", exact=True).click()
    expect(page.get_by_label("Limit of tokens")).to_have_accessible_description("must be at least 0, and -1 is not")


def test_a_session_that_ends_in_the_middle_of_a_run_asks_to_sign_in(server: PageServer, page: Page) -> None:
    run_id = server.show_run(page, "busy", view="steer")
    page.get_by_role("textbox", name="Message").fill("Be quick.")
    server.sign_out(page)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("heading", name="Please sign in")).to_be_visible()
    server.open(page, "runs", run_id)
    expect(page.get_by_role("heading", name="Please sign in")).to_be_visible()


def test_an_intervention_that_fails_keeps_what_was_written(server: PageServer, page: Page) -> None:
    server.show_run(page, "busy", view="steer")
    page.route(
        "**/messages", lambda route: route.fulfill(status=500, json={"error": {"code": "x", "message": "Oh no."}})
    )
    page.get_by_role("textbox", name="Message").fill("Be quick.")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("alert")).to_contain_text("Oh no.")
    expect(page.get_by_role("textbox", name="Message")).to_have_value("Be quick.")
    expect(page.get_by_role("button", name="Send")).to_be_focused()


def test_the_focus_comes_back_after_a_dialog_and_stays_after_an_action(server: PageServer, page: Page) -> None:
    server.show_run(page, "busy", view="steer")
    stop = page.get_by_role("button", name="Stop", exact=True)
    stop.press("Enter")
    page.get_by_role("dialog").get_by_role("button", name="Cancel").press("Enter")
    expect(stop).to_be_focused()
    page.get_by_role("textbox", name="Message").focus()
    page.keyboard.press("m")
    page.get_by_role("textbox", name="Message").fill("Be quick.")
    page.get_by_role("button", name="Send").press("Enter")
    expect(page.get_by_role("region", name="What people did")).to_contain_text("Be quick.")
    expect(page.get_by_role("button", name="Send")).to_be_focused()


def test_a_run_is_started_with_the_keyboard_alone_and_the_window_is_named_after_it(
    server: PageServer, page: Page
) -> None:
    server.open(page)
    expect(page).to_have_title("Runs · Teamwright")
    page.get_by_role("link", name="New run").wait_for()  # it needs a role, which comes with the session
    page.keyboard.press("n")
    expect(page.get_by_label("What should be done?")).to_be_focused()
    page.keyboard.type("@ta")
    expect(page.get_by_role("option", name="@talk")).to_be_visible()
    page.keyboard.press("Enter")
    page.keyboard.type("about water")
    page.keyboard.press("Control+Enter")  # before the forecast: nothing begins
    expect(page.get_by_role("region", name="Forecast")).to_contain_text("Never more than")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("feed")).to_contain_text("at less on a mountain")
    expect(page).to_have_title("talk · Conversation · Teamwright")
    page.keyboard.press("2")
    expect(page).to_have_title(re.compile("^talk · Plan"))


class Neighbour(BaseHTTPRequestHandler):
    """Another program of this machine, which serves a page and keeps what browsers send to it."""

    received: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.received.append(str(self.headers))
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><title>neighbour</title>")

    @override
    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


STEAL = """async (address) => {
  const got = {stored: JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie])}
  const tries = {plain: {}, blind: {mode: 'no-cors'}, guess: {headers: {Authorization: 'Bearer tws_guess'}}}
  for (const [name, more] of Object.entries(tries)) {
    const options = {credentials: 'include', ...more}
    got[name] = await fetch(address + '/api/session', options).then((one) => one.text(), () => 'failed')
  }
  got.written = await fetch(address + '/api/runs', {method: 'POST', credentials: 'include', mode: 'no-cors',
    body: '{"team": "talk", "task": "x"}'}).then((one) => one.text(), () => 'failed')
  got.socket = await new Promise((resolve) => {
    const socket = new WebSocket(address.replace('http', 'ws') + '/api/socket', ['teamwright'])
    socket.onmessage = () => resolve('open')
    socket.onclose = () => resolve('closed')
  })
  const frame = document.body.appendChild(document.createElement('iframe'))
  got.frame = await new Promise((resolve) => {
    frame.onload = () => { try { resolve(frame.contentWindow.localStorage.length) } catch { resolve('closed') } }
    frame.src = address
  })
  return got
}"""


def test_another_program_on_this_machine_gets_nothing_of_a_session(server: PageServer, page: Page) -> None:
    server.open(page)
    page.get_by_role("heading", name="Runs", exact=True).wait_for()
    session = str(page.evaluate("localStorage.getItem('teamwright.session')"))
    assert session.startswith("tws_")
    Neighbour.received.clear()
    neighbour = ThreadingHTTPServer(("127.0.0.1", 0), Neighbour)
    threading.Thread(target=neighbour.serve_forever, daemon=True).start()
    try:
        visited = page.context.new_page()  # the same browser, with all that it keeps
        visited.goto(f"http://127.0.0.1:{neighbour.server_port}/")
        before = len(server.runs())
        got = visited.evaluate(STEAL, server.url)
    finally:
        neighbour.shutdown()
        neighbour.server_close()
    assert session not in json.dumps([Neighbour.received, got])
    assert "Cookie" not in "".join(Neighbour.received)
    assert {name: got[name] for name in ("plain", "guess", "socket", "frame")} == {
        "plain": "failed", "guess": "failed", "socket": "closed", "frame": "closed",
    }  # fmt: skip
    assert "owner" not in json.dumps(got)
    assert len(server.runs()) == before
