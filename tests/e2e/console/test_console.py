"""The console in a real browser: find, open, edit, decide, undo, erase; keys, languages, accessibility, hostile text."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from memsvc.client import Memsvc
from memsvc.domain.api_keys import ApiKeyRole
from memsvc.engine.admin.api_keys import NewApiKey
from memsvc.server.http.application import CONSOLE
from memsvc.v1 import admin_service_pb2 as admin_pb
from tests.e2e.access.support import ASKING, WithKey, make_key
from tests.e2e.test_webhooks import settings
from tests.support.rpc import TIMEOUT
from tests.support.server_process import FAST, HTTP, ServerProcess, Stubs
from tests.support.until import until
from tests.support.webhook_receiver import Answer, receiving

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
VIEWS = (
    "overview", "memories", "search", "review", "sessions", "context", "checkpoints", "files", "maintenance", "live",
    "admin",
)  # fmt: skip
HOSTILE = (
    '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>',
    '"><svg onload=window.hacked=1>',
    "javascript:window.hacked=1",
    "${window.hacked=1}{{window.hacked=1}}",
)
MOST_BYTES = 300_000
expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser of this machine."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no browser: install Debian's chromium to test the console")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A service without keys, on this machine."""
    with ServerProcess(tmp_path_factory.mktemp("console") / "data", FAST | HTTP) as server:
        yield server


@pytest.fixture
def memory(service: ServerProcess, user: str) -> Iterator[Memsvc]:
    """A client of a new user."""
    with Memsvc(service.bound, user_id=user) as client:
        yield client


@pytest.fixture
def page(browser: Browser, service: ServerProcess, user: str) -> Iterator[Page]:
    """The console of the test's user, which must not complain of anything."""
    context = browser.new_context(base_url=service.url, locale="en-GB", viewport={"width": 1280, "height": 900})
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda told: complaints.append(told.text) if _is_complaint(told) else None)
    page.on("request", lambda asked: None if asked.url.startswith(service.url) else complaints.append(asked.url))
    page.goto("/")
    page.get_by_label("User").fill(user)
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".tile").first).to_be_visible()
    yield page
    context.close()
    assert complaints == []


def _is_complaint(told: ConsoleMessage) -> bool:
    """Return whether a line is an error; the browser also writes one for each answer of the API that is an error."""
    return told.type == "error" and "status of 4" not in told.text


def shown(page: Page, view: str) -> None:
    """Show a view."""
    page.locator("nav").get_by_role("link", name=view, exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text(view)


@pytest.mark.parametrize(
    ("content", "query", "better"),
    [
        ("The spare key hangs behind the flowerpot.", "where is the spare key", "The spare key hangs in the shed."),
        ("备用钥匙挂在花盆后面。", "备用钥匙在哪里", "备用钥匙挂在棚子里。"),
    ],
)
def test_a_memory_is_found_opened_edited_and_rolled_back(
    page: Page, memory: Memsvc, content: str, query: str, better: str
) -> None:
    """By a search that explains itself; the change is a revision with its difference, and is undone."""
    memory.create(content)
    shown(page, "Search")
    page.get_by_label("Query").fill(query)
    page.keyboard.press("Enter")
    hit = page.locator(".hits li").first
    expect(hit).to_contain_text(content)
    expect(hit.locator("table")).to_contain_text("dense")
    hit.get_by_role("link").first.click()
    expect(page.locator("article .content")).to_have_text(content)

    page.get_by_role("button", name="Edit").click()
    page.get_by_label("Content").fill(better)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("article .content")).to_have_text(better)
    expect(page.locator(".revisions ins").first).to_be_visible()
    assert better == next(memory.list()).content

    oldest = page.locator(".revisions li").last
    oldest.get_by_role("button", name="Roll back").click()
    sure = oldest.get_by_role("group", name="Roll back")
    expect(sure).to_be_visible()
    assert better == next(memory.list()).content
    sure.get_by_role("button", name="Roll back").click()
    expect(page.locator("article .content")).to_have_text(content)
    assert content == next(memory.list()).content


def test_a_memory_is_deleted_and_restored(page: Page, memory: Memsvc) -> None:
    """After one more click; a deleted memory can be opened from the list of deleted ones."""
    memory.create("The ladder is in the garage.")
    shown(page, "Memories")
    page.get_by_role("link", name="ladder").click()
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("group", name="Delete").get_by_role("button", name="Delete").click()
    expect(page.locator("article .badge").first).to_have_text("deleted")
    assert [] == list(memory.list())
    page.get_by_role("button", name="Restore").click()
    expect(page.locator("article .badge").first).to_have_text("active")


def test_a_memory_is_created_and_what_is_wrong_is_named(page: Page, memory: Memsvc) -> None:
    """The same content twice is refused with the reason of the API."""
    shown(page, "Memories")
    for is_first in (True, False):
        page.get_by_role("button", name="Create").click()
        page.get_by_label("Content").fill("The kettle is red.")
        page.get_by_role("button", name="Save").click()
        if is_first:
            expect(page.get_by_role("link", name="kettle")).to_be_visible()
        else:
            expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("MEMORY_EXISTS")
    assert 1 == len(list(memory.list()))


def test_a_conflict_is_resolved(page: Page, memory: Memsvc) -> None:
    """With its question and the difference; the older memory is superseded then."""
    older = memory.create("My favourite colour is blue.").memory.id
    memory.create("My favourite colour is green.")
    shown(page, "Review")
    card = page.locator(".cards li").first
    expect(card.locator("strong")).to_contain_text("?")
    expect(card.locator("del")).to_contain_text("blue")
    card.get_by_role("button", name="Newer holds").click()
    expect(page.get_by_text("Done. confirmed")).to_be_visible()
    assert "SUPERSEDED" in str(memory.get(older))


def test_a_checkpoint_shows_what_changed_and_takes_it_back(page: Page, memory: Memsvc) -> None:
    """A preview changes nothing, the question says how much changes, and the checkpoint that undoes it is named."""
    first = memory.create("The gate is green.").memory
    shown(page, "Checkpoints")
    page.get_by_label("Name").fill("before")
    page.get_by_role("button", name="Create").click()
    expect(page.locator(".cards li")).to_contain_text("before")
    memory.update(first.id, content="The gate is white.")
    page.get_by_role("button", name="Differences since then").click()
    expect(page.locator(".cards ins")).to_contain_text("white")
    page.get_by_role("button", name="Preview roll back").click()
    expect(page.get_by_text("Would change 1")).to_be_visible()
    assert "The gate is white." == memory.get(first.id).content
    page.get_by_role("button", name="Roll back", exact=True).click()
    sure = page.get_by_role("group", name="Roll back: change 1, delete 0, restore 0?")
    expect(sure).to_be_visible()
    assert "The gate is white." == memory.get(first.id).content
    sure.get_by_role("button", name="Roll back").click()
    expect(page.get_by_text("Undo with checkpoint")).to_be_visible()
    assert "The gate is green." == memory.get(first.id).content


def test_a_context_shows_its_sections(page: Page, memory: Memsvc) -> None:
    """The text as an agent gets it, and where its tokens went."""
    memory.create("Always answer in French.", layer="CORE")
    memory.create("The boat is called Marit.")
    shown(page, "Context")
    page.get_by_label("Query").fill("what is the boat called")
    page.get_by_role("button", name="Build").click()
    expect(page.locator("pre")).to_contain_text("Always answer in French.")
    expect(page.locator("pre")).to_contain_text("Marit")
    expect(page.locator(".bars dt").first).to_contain_text("core")


def test_sessions_with_their_messages(page: Page, service: ServerProcess, user: str) -> None:
    """A session is opened from the list."""
    with Memsvc(service.bound, user_id=user, session_id="talk") as client:
        client.create_session()
        client.append_messages([{"role": "USER", "content": "Where is my hat?"}])
    shown(page, "Sessions")
    page.get_by_role("link", name="talk").click()
    expect(page.locator(".talk")).to_contain_text("Where is my hat?")


def test_names_with_spaces_are_typed(page: Page, service: ServerProcess) -> None:
    """Blanks at the ends are left out."""
    with Memsvc(service.bound, user_id="Jane Doe", project_id="my garden") as client:
        client.create("The beans are in the shed.")
    for label, name in (("User", " Jane Doe "), ("Project", "my garden")):
        page.get_by_label(label).fill("")
        page.get_by_label(label).press_sequentially(name)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_label("User")).to_have_value("Jane Doe")
    shown(page, "Memories")
    expect(page.get_by_role("link", name="The beans are in the shed.")).to_be_visible()


def test_long_lists_are_shown_page_by_page(page: Page, service: ServerProcess, user: str) -> None:
    """To the last message, session, quarantined memory, reminder, difference and revision."""
    more = page.get_by_role("button", name="More", exact=True)
    with Memsvc(service.bound, user_id=user, session_id="talk") as client:
        client.create_session()
        for start in (0, 60):
            client.append_messages([{"role": "USER", "content": f"Word {start + place}."} for place in range(60)])
    shown(page, "Sessions")
    page.get_by_role("link", name="talk").click()
    for count in (50, 100, 120):
        expect(page.locator(".talk li")).to_have_count(count)
        more.click() if count < 120 else expect(more).to_be_hidden()

    with Memsvc(service.bound, user_id=user) as client:
        client.create_checkpoint("before")
        tomorrow = datetime.now(UTC).date() + timedelta(days=1)
        client.create_many([{"content": f"Pay bill {number}.", "reminder": {"date": tomorrow}} for number in range(55)])
        one = client.create("Revision 0.").memory
        for number in range(1, 55):
            client.update(one.id, content=f"Revision {number}.")
    shown(page, "Checkpoints")
    page.get_by_role("button", name="Differences since then").click()
    expect(page.locator(".cards li li")).to_have_count(50)
    more.click()
    expect(page.locator(".cards li li")).to_have_count(56)
    shown(page, "Review")
    expect(page.locator(".cards li")).to_have_count(50)
    more.click()
    expect(page.locator(".cards li")).to_have_count(55)
    page.goto(f"/#/memory/{one.id}")
    expect(page.locator(".revisions li")).to_have_count(50)
    more.click()
    expect(page.locator(".revisions li")).to_have_count(55)


def test_changes_are_shown_as_they_happen(page: Page, memory: Memsvc) -> None:
    """A write by another client appears without a reload."""
    shown(page, "Live")
    expect(page.get_by_text("Watching for changes")).to_be_visible()
    memory.create("The train leaves at nine.")
    expect(page.locator(".feed li").first).to_contain_text("The train leaves at nine.")


def test_maintenance_export_and_erasure_with_a_receipt(page: Page, memory: Memsvc, user: str) -> None:
    """A dry run of maintenance, a run that asks first, the export, and the receipt of an erasure."""
    memory.create("Nothing of this is kept.")
    shown(page, "Maintenance")
    page.get_by_role("button", name="Dry run").click()
    expect(page.get_by_text("Changes: 0")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_text("Dry run Changes: 0")).to_be_visible()
    page.get_by_role("group", name="Run").get_by_role("button", name="Run").click()
    expect(page.get_by_text("Done. Changes: 0")).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export the user").click()
    assert "Nothing of this is kept." in Path(download.value.path()).read_text(encoding="utf-8")
    erase = page.get_by_role("button", name="Erase the user")
    expect(erase).to_be_disabled()
    page.get_by_role("button", name="What would be erased").click()
    expect(page.get_by_role("heading", name="What would be erased")).to_be_visible()
    assert 1 == len(list(memory.list()))
    page.get_by_label("Type the user id").fill(user)
    erase.click()
    expect(page.get_by_text("Nothing of the user is left.")).to_be_visible()
    assert [] == list(memory.list())


def test_memories_are_imported_from_a_file(page: Page, memory: Memsvc, tmp_path: Path) -> None:
    """Lines that are wrong are named, the others are stored."""
    lines = tmp_path / "notes.jsonl"
    written = ('{"content": "One."}', "", '{"content": ""}', "{", "[5]", '{"contnet": "x"}', '{"content": "Two."}')
    lines.write_text("\n".join(written), encoding="utf-8")
    shown(page, "Maintenance")
    page.locator("input[type=file]").set_input_files(lines)
    expect(page.get_by_text("2 stored, 4 refused.")).to_be_visible()
    refused = page.locator("main ul.warnings li").all_inner_texts()
    assert ["Line 3", "Line 4", "Line 5", "Line 6"] == [one.partition(":")[0] for one in refused]
    assert "contnet" in refused[3]
    assert {"One.", "Two."} == {one.content for one in memory.list()}


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_memories_are_text(page: Page, memory: Memsvc, text: str) -> None:
    """In lists, hits, opened, in differences and contexts: nothing of it runs."""
    one = memory.create(f"Beware {text}", title=text, tags=["x"], speaker=text[:100]).memory
    memory.update(one.id, content=f"Beware twice {text}")
    for path in ("memories", f"memory/{one.id}", "live", "overview"):
        page.goto(f"/#/{path}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    shown(page, "Search")
    page.get_by_label("Query").fill("beware")
    page.keyboard.press("Enter")
    expect(page.locator(".hits li").first).to_contain_text("Beware twice")
    shown(page, "Context")
    page.get_by_label("Query").fill("beware")
    page.get_by_role("button", name="Build").click()
    expect(page.locator("pre")).to_contain_text("Beware twice")
    assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_is_accessible(page: Page, memory: Memsvc, theme: str) -> None:
    """No rule of WCAG 2 A and AA that axe can check is broken, in both themes, with something on every page."""
    memory.create("My favourite colour is blue.", tags=["colour"])
    memory.create("My favourite colour is green.")
    page.emulate_media(color_scheme=theme)
    for view in VIEWS:
        page.goto(f"/#/{view}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_load_state("networkidle") if view != "live" else None
        _check(page, view)
    page.goto("/#/memories")
    page.get_by_role("link", name="green").click()
    page.get_by_role("button", name="Edit").click()
    _check(page, "memory")


def _check(page: Page, view: str) -> None:
    tags = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
    broken = Axe().run(page, options=tags).response["violations"]
    found = [(one["id"], [node["html"][:200] for node in one["nodes"]][:3]) for one in broken]
    assert found == [], view


def test_it_is_used_by_keyboard_alone(page: Page, memory: Memsvc) -> None:
    """The first stop skips the navigation; a slash goes to the search; Escape closes a dialog."""
    memory.create("The oars are under the boat.")
    page.goto("/#/memories")
    expect(page.get_by_role("link", name="oars")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_label("Query")).to_be_focused()
    page.keyboard.type("oars")
    page.keyboard.press("Enter")
    expect(page.locator(".hits li").first).to_contain_text("oars")
    page.locator(".hits a").first.focus()
    page.keyboard.press("Enter")
    edit = page.get_by_role("button", name="Edit")
    edit.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_every_status_is_listed(page: Page, memory: Memsvc) -> None:
    """Active memories at first; "any" includes those of the other statuses."""
    memory.create("The gate is locked.")
    memory.archive(memory.create("The old gate.").memory.id)
    memory.delete(memory.create("The wrong gate.").memory.id)
    memory.create("The doubtful gate.", status="QUARANTINED")
    shown(page, "Memories")
    status = page.get_by_label("Status")
    expect(status).to_have_value("ACTIVE")
    expect(page.locator("main tbody tr")).to_have_count(1)
    status.select_option("")
    expect(page.locator("main tbody tr")).to_have_count(4)
    for one in ("archived", "deleted", "quarantined"):
        status.select_option(label=one)
        expect(page.locator("main tbody tr")).to_have_count(1)
        expect(page.locator("main tbody .badge")).to_have_text(one)


def test_a_change_far_down_in_a_long_text_is_shown(page: Page, memory: Memsvc) -> None:
    """Between the words before and after it, all of which are shown; a text that is all new has no common words."""
    start, end = "word " * 2500, " more" * 2500
    one = memory.create(f"{start}old{end}").memory
    memory.update(one.id, content=f"{start}new{end}")
    memory.update(one.id, content=" ".join(f"other{number}" for number in range(2500)))
    page.goto(f"/#/memory/{one.id}")
    revisions = page.locator(".revisions li")
    expect(revisions.nth(1).locator("del")).to_have_text("old")
    expect(revisions.nth(1).locator("ins")).to_have_text("new")
    expect(revisions.nth(1).locator(".difference")).to_contain_text(f"newold{end}")
    expect(revisions.first.locator("ins")).to_contain_text("other2499")


def test_a_text_is_cut_between_characters(page: Page, memory: Memsvc) -> None:
    """Not in the middle of an emoji, of which some are several code points."""
    for place, emoji in enumerate(("😀", "👩\u200d👧", "e\u0301")):
        memory.create(f"{place}{'a' * 157}{emoji * 3} and more")
    shown(page, "Memories")
    links = page.locator("main tbody a")
    expect(links).to_have_count(3)
    assert {f"{place}{'a' * 157}…" for place in range(3)} == set(links.all_inner_texts())


def test_an_address_with_a_percent_sign_that_is_no_escape(page: Page) -> None:
    """It is taken as it is written, and the page says that there is no such memory."""
    for path in ("memory/%", "memory/%E0%A4%A"):
        page.goto("about:blank")
        page.goto(f"/#/{path}")
        expect(page.get_by_role("alert")).to_contain_text("INVALID_REQUEST")


def test_an_export_is_not_imported_as_memories(page: Page, memory: Memsvc, tmp_path: Path) -> None:
    """Its lines are records of another form: what imports it is named."""
    memory.create("One.")
    shown(page, "Maintenance")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export the user").click()
    download.value.save_as(tmp_path / "export.jsonl")
    page.locator("input[type=file]").set_input_files(tmp_path / "export.jsonl")
    expect(page.get_by_role("alert")).to_contain_text("memsvc import-user")


def test_a_service_that_does_not_answer_is_named(browser: Browser, service: ServerProcess) -> None:
    """Instead of the browser's words for it."""
    context = browser.new_context(base_url=service.url, locale="en-GB")
    page = context.new_page()
    page.goto("/")
    page.get_by_label("User").fill("ann")
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".tile").first).to_be_visible()
    page.route("**/memsvc.v1.*/*", lambda route: route.abort())
    shown(page, "Memories")
    expect(page.get_by_role("alert")).to_contain_text("The service does not answer.")
    page.unroute("**/memsvc.v1.*/*")
    page.route("**/memsvc.v1.*/*", lambda route: route.fulfill(body=b"\0\0\0\0\2{}"))
    shown(page, "Maintenance")
    page.get_by_role("button", name="Export the user").click()
    expect(page.get_by_role("alert")).to_contain_text("The response ended early.")
    context.close()


def test_a_view_that_cannot_be_loaded_says_so(browser: Browser, service: ServerProcess) -> None:
    """Views are loaded when they are shown; the others go on."""
    context = browser.new_context(base_url=service.url, locale="en-GB")
    page = context.new_page()
    page.route("**/views/admin.js", lambda route: route.abort())
    page.goto("/#/admin")
    expect(page.get_by_role("alert")).to_contain_text("admin.js")

    # Neither is a view, although every object has the second one.
    for unknown in ("nothing", "constructor"):
        page.goto(f"/#/{unknown}")
        expect(page.get_by_role("heading", name="Latency")).to_be_visible()
    context.close()


def test_the_growth_is_counted_page_by_page(page: Page, memory: Memsvc) -> None:
    """Beyond the largest page; every column of every table has a name."""
    for start in range(0, 1_100, 100):
        memory.create_many([{"content": f"memory {number}"} for number in range(start, start + 100)])
    page.reload()
    expect(page.get_by_role("img", name="New memories of the last 30 days: 1100")).to_be_visible()
    expect(page.get_by_role("columnheader", name="Method", exact=True)).to_be_visible()
    assert all(one.strip() for one in page.locator("th").all_inner_texts())


def test_a_file_is_downloaded(page: Page, memory: Memsvc) -> None:
    """With its name and all its bytes, which are more than one message of the API."""
    content = bytes(range(256)) * 10_000
    memory.upload_file(content, name="picture 图.png", media_type="text/html")
    shown(page, "Files")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download picture 图.png").click()
    assert "picture 图.png" == download.value.suggested_filename
    assert content == Path(download.value.path()).read_bytes()


def test_the_live_view_comes_back_after_a_lost_connection(browser: Browser, tmp_path: Path) -> None:
    """It says that the connection is lost, and shows every change, also one from before it was back."""
    data = tmp_path / "data"
    with ServerProcess(data, FAST | HTTP) as server, Memsvc(server.bound, user_id="ann") as client:
        context = browser.new_context(base_url=server.url, locale="en-GB")
        page = context.new_page()
        page.goto("/")
        page.get_by_label("User").fill("ann")
        page.get_by_role("button", name="Apply").click()
        shown(page, "Live")
        state = page.locator("main [data-state]")
        expect(state).to_have_text("Watching for changes…")
        client.create("Before.")
        expect(page.locator(".feed li")).to_have_count(1)
        url = server.url
    expect(state).to_contain_text("The connection is lost")
    address = url.removeprefix("http://")
    with (
        ServerProcess(data, FAST | {"MEMSVC_HTTP__ADDRESS": ""}) as hidden,
        Memsvc(hidden.bound, user_id="ann") as client,
    ):
        client.create("While it was away.")
    with ServerProcess(data, FAST | {"MEMSVC_HTTP__ADDRESS": address}) as server:
        expect(state).to_have_text("Watching for changes…")
        expect(page.locator(".feed li")).to_have_count(2)
        with Memsvc(server.bound, user_id="ann") as client:
            client.create("Afterwards.")
        expect(page.locator(".feed li")).to_have_count(3)
        expect(page.locator(".feed li").nth(1)).to_contain_text("While it was away.")
        context.close()


def test_administrators_manage_keys_quotas_and_dead_letters(browser: Browser, tmp_path: Path) -> None:
    """The secret of a key is shown once; a key of another role is shown nothing of it."""
    data = tmp_path / "data"
    admin = make_key(data, NewApiKey("root", ApiKeyRole.ADMIN))
    reader = make_key(data, NewApiKey("ada", user_ids=("ada",)))
    with receiving() as receiver:
        receiver.answer = lambda _path, _user: Answer(400)
        endpoint = {"all": {"url": f"{receiver.url}/"}}
        with ServerProcess(data, ASKING | HTTP | settings(**endpoint)) as server:
            context = browser.new_context(base_url=server.url, locale="en-GB", viewport={"width": 1280, "height": 900})
            page = context.new_page()
            page.goto("/")

            def enter(key: str) -> None:
                page.get_by_label("User", exact=True).fill("ada")
                page.locator("input[name=key]").fill(key)
                page.get_by_role("button", name="Apply").click()
                expect(page.locator(".tile").first).to_be_visible()

            enter(reader.text)
            expect(page.locator("nav").get_by_role("link", name="Memories")).to_be_visible()
            expect(page.locator("nav").get_by_role("link", name="Administration")).to_have_count(0)
            page.goto("/#/admin")
            expect(page.locator("main")).to_contain_text("needs an admin key")
            page.goto("/#/overview")
            enter(admin.text)
            shown(page, "Administration")

            form = page.get_by_role("form", name="New key")
            form.get_by_label("Name").fill("for ada")
            form.get_by_label("Users").fill("ada, bob")
            form.get_by_label("Days valid").fill("7")
            form.get_by_role("button", name="Create").click()
            secret = page.locator(".secret code").inner_text()
            assert secret.startswith("memsvc_")
            with Memsvc(server.bound, user_id="ada", api_key=secret) as client:
                until(lambda: client.create(f"A change {len(receiver.requests)}.") and receiver.requests)
            page.locator(".secret").get_by_role("button", name="Close").click()
            row = page.get_by_role("row").filter(has_text="for ada")
            expect(row).to_contain_text("ada, bob")
            assert secret not in page.content()
            row.get_by_role("button", name="Revoke").click()
            row.get_by_role("group").get_by_role("button", name="Revoke").click()
            expect(row).to_have_count(0)
            page.get_by_label("Also ended keys").check()
            expect(row).to_contain_text("revoked")

            form = page.get_by_role("form", name="Quotas")
            form.get_by_label("ID").fill("acme")
            form.get_by_label("Memories").fill("100")
            form.get_by_role("button", name="Set").click()
            expect(page.get_by_role("row").filter(has_text="acme")).to_contain_text("0 of 100")

            page.reload()
            letters = page.get_by_role("region", name="Webhooks: dead letters")
            expect(letters.get_by_role("row").nth(1)).to_contain_text("400")
            _check(page, "admin")
            receiver.answer = lambda _path, _user: Answer()
            letters.get_by_role("button", name="Retry").first.click()
            expect(page.get_by_text("1 are sent again.")).to_be_visible()
            until(lambda: receiver.of(accepted=True))
            receiver.answer = lambda _path, _user: Answer(400)
            with Memsvc(server.bound, user_id="ada", api_key=reader.text) as client:
                client.create("One more.")
                with server.channel() as channel:
                    until(lambda: _letters(channel, admin.text))
            page.reload()
            drop = page.get_by_role("button", name="Drop all of all")
            drop.click()
            page.get_by_role("group").get_by_role("button", name="Drop all of all").click()
            expect(page.get_by_text("were dropped.")).to_be_visible()
            with server.channel() as channel:
                assert not _letters(channel, admin.text)
            context.close()


def _letters(channel: Any, key: str) -> Any:
    """Return the dead letters."""
    stubs = Stubs(WithKey(channel, f"Bearer {key}"))  # type: ignore[arg-type]  # it is as good as a channel
    return list(stubs.admin.ListDeadLetters(admin_pb.ListDeadLettersRequest(), timeout=TIMEOUT).dead_letters)


def test_it_speaks_chinese(browser: Browser, service: ServerProcess, user: str) -> None:
    """By the language of the browser, and by a button; the choice is kept."""
    context = browser.new_context(base_url=service.url, locale="zh-CN")
    page = context.new_page()
    page.goto("/")
    page.get_by_label("用户").fill(user)
    page.get_by_role("button", name="应用").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("概览")
    assert "zh-CN" == page.locator("html").get_attribute("lang")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    context.close()


def test_it_fits_a_narrow_screen(page: Page, memory: Memsvc) -> None:
    """Nothing but tables and the navigation is wider than a phone."""
    memory.create("x" * 3000)
    page.set_viewport_size({"width": 360, "height": 700})
    for view in ("memories", "search", "review"):
        page.goto(f"/#/{view}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        width: Any = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 362, view
    page.goto("/#/search")
    page.get_by_label("Query").fill("x")
    page.keyboard.press("Enter")
    expect(page.locator(".hits .bars dd").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 362


def test_a_key_is_asked_for(browser: Browser, tmp_path: Path) -> None:
    """Without one the console says so; with one it works; the key is in no address and gone with the tab."""
    data = tmp_path / "data"
    key = make_key(data, NewApiKey("ada", user_ids=("ada",))).text
    with ServerProcess(data, ASKING | HTTP) as server:
        context = browser.new_context(base_url=server.url, locale="en-GB")
        page = context.new_page()
        page.goto("/")
        page.get_by_label("User").fill("ada")
        page.get_by_role("button", name="Apply").click()
        expect(page.get_by_role("alert").first).to_contain_text("needs an API key")
        for wrong, reason in (
            (f"{key[:-1]}-", "not one of this service"),
            (f"{key}钥匙", "characters that no key has"),
        ):
            page.get_by_label("API key").fill(wrong)
            page.get_by_role("button", name="Apply").click()
            expect(page.get_by_role("alert").first).to_contain_text(reason)
            page.goto("/#/admin")
            expect(page.get_by_role("alert").first).to_contain_text(reason)
            page.goto("/#/overview")
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Apply").click()
        expect(page.locator(".tile").first).to_be_visible()
        assert key not in page.url
        assert key not in str(page.evaluate("JSON.stringify(localStorage)"))
        context.close()


def test_only_pages_are_served(service: ServerProcess) -> None:
    """What is not a file of the page, such as a module of Python, is not found; an unchanged page is not sent again."""
    assert {".html", ".js", ".css", ".svg", ""} == {path.suffix for path in CONSOLE.rglob("*") if path.is_file()}
    for path in ("/__init__.py", "/views", "/vendor/", "/..%2f__init__.py"):
        assert 404 == httpx.get(service.url + path).status_code
    tag = httpx.get(f"{service.url}/app.js").headers["etag"]
    assert 304 == httpx.get(f"{service.url}/app.js", headers={"if-none-match": tag}).status_code


def test_pages_are_small_and_guarded(service: ServerProcess) -> None:
    """Everything together is less than 300 kB; no inline script may run, and no other origin is asked."""
    files = [path for path in CONSOLE.rglob("*") if path.is_file() and path.suffix in {".js", ".css", ".html", ".svg"}]
    assert sum(path.stat().st_size for path in files) < MOST_BYTES
    for path in files:
        answer = httpx.get(f"{service.url}/{path.relative_to(CONSOLE)}")
        assert 200 == answer.status_code, path
        assert "no-cache" == answer.headers["cache-control"]
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    assert 404 == httpx.get(f"{service.url}/../../pyproject.toml").status_code
    assert 404 == httpx.get(f"{service.url}/%2e%2e/options.py").status_code
    assert {"LICENSE-htm", "LICENSE-preact"} <= {path.name for path in (CONSOLE / "vendor").iterdir()}
