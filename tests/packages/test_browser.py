"""The TypeScript package in a browser: bundled without Node.js modules, it calls the service over HTTP."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from tests.packages.language_builds import BUILD_SECONDS, Build, run
from tests.support.server_process import ServerProcess

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
PAGE = """
import { connect } from "memsvc";

globalThis.remember = async (url) => {
  const memory = connect(url, { userId: "browser" });
  const watch = await memory.watch();
  await memory.create("The ferry leaves at noon.");
  for await (const { change } of watch) {
    const { hits } = await memory.search("When does the boat leave?");
    const text = await memory.context("boat").text();
    return [change.memory.content, hits[0].memory.content, text.includes("ferry")];
  }
};
"""

pytestmark = [pytest.mark.xdist_group("package in typescript"), pytest.mark.timeout(BUILD_SECONDS + 300)]


@pytest.fixture(scope="module")
def bundle(build_of: Callable[[str], Build], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page's script with the package in it; a Node.js module in it is an error of the bundler."""
    package = build_of("typescript").package
    entry, bundle = package / "page.js", tmp_path_factory.mktemp("bundle") / "page.js"
    entry.write_text(PAGE, encoding="utf-8")
    options = ["--bundle", "--platform=browser", "--format=iife", f"--outfile={bundle}"]
    done = run([str(package / "node_modules" / ".bin" / "esbuild"), entry.name, *options], package)
    entry.unlink()
    assert done.returncode == 0, done.stderr
    return bundle


def test_the_entry_for_browsers_has_no_module_of_node(bundle: Path) -> None:
    """It can be bundled, and the transport of Node.js is not in it."""
    text = bundle.read_text(encoding="utf-8")

    assert "Http2SessionManager" not in text
    assert "MEMSVC_API_KEY" not in text
    assert re.findall(r"""["']node:\w+["']|require\(""", text) == []


def test_a_page_writes_searches_builds_a_context_and_watches(bundle: Path, server: ServerProcess) -> None:
    """In the browser, at the address of the service."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        pytest.skip("no browser: install Debian's chromium to test the package in a page")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        page = browser.new_context(bypass_csp=True).new_page()
        page.goto(server.url)
        page.add_script_tag(path=bundle)
        result = page.evaluate("url => remember(url)", server.url)
        browser.close()

    assert result == ["The ferry leaves at noon.", "The ferry leaves at noon.", True]
