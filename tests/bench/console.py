"""The console in a browser: the first view of one that was just started, and a search until its hits are shown."""

from __future__ import annotations

import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from memsvc.server.http.application import CONSOLE
from tests.bench import requests as asking
from tests.bench.http import free_port
from tests.bench.results import Row, Sample, at_most
from tests.bench.seed import fill, settled, vector_dimension
from tests.bench.server import running_server
from tests.bench.settings import Plan
from tests.bench.synthetic_corpus import Corpus

PART = "Console"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ROUNDS, SEARCHES = 5, 30
MOST_FIRST_MS, MOST_SEARCH_MS, MOST_BYTES = 1_000.0, 150.0, 300_000.0


async def measure_console(plan: Plan, told: Callable[[str, int], Callable[[], None]]) -> list[Row]:
    """Measure with a browser of this machine; without one only the size of the page."""
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    rows = [_size()]
    if browser is None:
        return rows
    size = plan.sizes[0]
    at = f"{size:,}".replace(",", " ")
    step = told(f"{at}: console", ROUNDS)
    with TemporaryDirectory(prefix="memsvc-bench-") as folder:
        address = f"127.0.0.1:{free_port()}"
        async with running_server(Path(folder) / "data", {**plan.server, "http.address": address}) as server:
            corpus = Corpus(users=1, lines=size, dimension=await vector_dimension(server))
            await fill(server, [asking.import_messages(user, corpus.lines(user)) for user in corpus.users])
            await settled(server)
            questions = [one.text for one in corpus.questions(SEARCHES, purpose="console")]
            first, searches = await _browse(browser, f"http://{address}", corpus.users[0], questions, step)
    median = statistics.median(first) * 1000.0
    sample = Sample.of(searches)
    return [
        *rows,
        Row(PART, f"{at}: first view in a new browser", median, "ms", targets=(at_most(median, MOST_FIRST_MS, "1 s"),)),
        Row(
            PART,
            f"{at}: search by text, from the key to the hits",
            sample.p50,
            "ms",
            sample,
            targets=(at_most(sample.p50, MOST_SEARCH_MS, "150 ms"),),
        ),
    ]


def _size() -> Row:
    kinds = {".html", ".js", ".css", ".svg"}
    size = float(sum(path.stat().st_size for path in CONSOLE.rglob("*") if path.suffix in kinds))
    return Row(PART, "all files of the page", size, "bytes", targets=(at_most(size, MOST_BYTES, "300 kB"),))


async def _browse(
    browser: str, url: str, user: str, questions: list[str], step: Callable[[], None]
) -> tuple[list[float], list[float]]:
    from playwright.async_api import async_playwright  # noqa: PLC0415 - only where there is a browser

    first, searches = [], []
    async with async_playwright() as playwright:
        for number in range(ROUNDS):
            opened = await playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = await opened.new_page()
            began = time.perf_counter()
            await page.goto(url)
            await page.wait_for_selector("h1")
            first.append(time.perf_counter() - began)
            await page.fill("input[name=user]", user)
            await page.click("button[type=submit]")
            await page.goto(f"{url}/#/search")
            for question in questions[number::ROUNDS]:
                await page.fill("main input[type=search]", question)
                # Until the hits of this question are there: the browser itself looks, so that no polling adds to it.
                searches.append(await page.evaluate(_SEARCH) / 1000.0)
            await opened.close()
            step()
    return first, searches


_SEARCH = """
() => new Promise((resolve) => {
  const began = performance.now();
  let isLoading = false;
  const seen = new MutationObserver(() => {
    // While a search is under way its state is said beside that of the hits shown before, if there are any.
    const states = document.querySelectorAll("main p[role=status]").length;
    const hits = document.querySelector(".hits li");
    if (states > 1 || (states === 1 && !hits)) {
      isLoading = true;
    } else if (isLoading && hits) {
      seen.disconnect();
      resolve(performance.now() - began);
    }
  });
  seen.observe(document.querySelector("main"), { childList: true, subtree: true });
  document.querySelector("main form").requestSubmit();
})
"""
