"""Where files are reached, as a template says."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memsvc.domain.files import fault_of_template, url_of
from memsvc.testing import factories

TEMPLATE = "https://files.test/{user_id}/{project_id}/{category}/{id}/{name}?hash={sha256}"


@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20))
def test_a_name_stays_in_its_place(name: str) -> None:
    """Whatever it is, the URL has as many parts, none of them leads elsewhere, and the name can be read again."""
    file = factories.file(name=name)

    parts = urlsplit(url_of(TEMPLATE, file))

    assert (parts.netloc, parts.query) == ("files.test", f"hash={file.sha256}")
    *_, last = parts.path.split("/")
    assert parts.path.count("/") == TEMPLATE.count("/") - 2
    assert unquote(last) == name or {*name} == {"."}
    assert last not in {"", ".", ".."}


def test_no_template_makes_no_url() -> None:
    """It is empty then."""
    assert url_of("", factories.file()) == ""


@pytest.mark.parametrize("template", ["", TEMPLATE, "/api/files/{category}/{id}/preview", "s3://b/{sha256}"])
def test_good_templates(template: str) -> None:
    """They name an id or a hash, or nothing at all."""
    assert fault_of_template(template) == ""


@pytest.mark.parametrize(
    "template",
    ["https://x/", "https://x/{category}", "{id", "{id}{secret}", "{id!r}", "{id:>9}", "{}", "{0}", "{id.x}"],
)
def test_bad_templates(template: str) -> None:
    """They would fail later, tell more than they should, or give all files one URL."""
    assert fault_of_template(template) != ""
