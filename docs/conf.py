"""The configuration of the documentation site: Sphinx with MyST Markdown and the theme Furo."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).resolve().parent
_PROJECT = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = _PROJECT["name"]
release = version = _PROJECT["version"]
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns: list[str] = []
myst_heading_anchors = 4
"""Headings to this level are targets of links; a link to any other target fails the build."""
nitpicky = True
# Blocks of console and JSON may hold "…", which stands for anything.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"memsvc {release}"
html_copy_source = False
html_show_sphinx = False
html_extra_path = ["llms.txt"]


def setup(app: Sphinx) -> None:
    """Put the Markdown of each page next to its HTML, where llms.txt links to it."""
    app.connect("build-finished", _copy_sources)


def _copy_sources(app: Sphinx, failure: Exception | None) -> None:
    if failure is None and app.builder.format == "html":
        for page in app.env.found_docs:
            source, target = DOCS / f"{page}.md", Path(app.outdir, f"{page}.md")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
