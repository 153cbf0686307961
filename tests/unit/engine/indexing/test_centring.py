"""Centring spreads out what an embedder crowds together, and brings texts of the same meaning in two scripts together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memsvc.bootstrap.app import running
from memsvc.domain.clock import Deadline
from memsvc.domain.index_entries import ANY_SCRIPT, VectorManifest, View, content_of, manifest_of
from memsvc.domain.scope import Scope
from memsvc.domain.search import Mode, SearchQuery
from memsvc.domain.write_requests import Draft, WriteOptions
from memsvc.engine.indexing.vector_entries import MeanAccumulator, Means
from memsvc.settings import load_settings
from memsvc.text.analysis import Script
from tests.support.http_stub import Endpoint
from tests.support.openai_embeddings_stub import DIMENSION
from tests.support.sqlite_store import SQLITE
from tests.support.until import PATIENCE_SECONDS, until

HAN, ENGLISH, RUSSIAN = "天气很好", "The weather is fine.", "Погода хорошая."


def vector(*values: float) -> Any:
    return np.array(values, dtype=np.float32)


def unit(*values: float) -> Any:
    return vector(*values) / np.linalg.norm(values)


def test_passages_are_centred_by_their_own_script_and_have_unit_length() -> None:
    """normalise(v - mean), row by row, by view and script; other scripts by the overall mean."""
    means = Means({View.CHUNK: {ANY_SCRIPT: vector(0, 0), "latin": vector(1, 1), "han": vector(0, 4)}})

    moved = means.centre_passages(
        np.stack([vector(3, 1), vector(3, 4), vector(3, 4)]), [View.CHUNK] * 3, [ENGLISH, HAN, RUSSIAN]
    )

    np.testing.assert_allclose([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]], moved, rtol=1e-6)


def test_a_query_is_centred_by_the_script_of_its_text() -> None:
    """A vector without a text is centred by the nearest mean."""
    means = Means({View.CHUNK: {ANY_SCRIPT: vector(-1, 0), "latin": vector(1, 0), "han": vector(0, 4)}})

    centred = [means.centre_query(vector(3, 4), text, View.CHUNK).tolist() for text in (HAN, ENGLISH, "")]

    np.testing.assert_allclose([[1.0, 0.0], unit(2, 4), [1.0, 0.0]], centred, rtol=1e-6)


@pytest.mark.parametrize("means", [Means({}), Means({View.CHUNK: {}})])
def test_without_a_mean_vectors_are_only_scaled(means: Means) -> None:
    """No mean: the direction stays."""
    np.testing.assert_allclose([0.6, 0.8], means.centre_query(vector(3, 4), ENGLISH, View.CHUNK), rtol=1e-6)
    np.testing.assert_allclose([[0.6, 0.8]], means.centre_passages(vector(3, 4)[None], [View.CHUNK], [HAN]), rtol=1e-6)


def test_the_mean_itself_stays_zero() -> None:
    """A vector that equals the mean has no direction, and does not become NaN."""
    means = Means({View.CHUNK: {ANY_SCRIPT: vector(1, 2)}})

    np.testing.assert_array_equal([0.0, 0.0], means.centre_query(vector(1, 2), ENGLISH, View.CHUNK))


def test_a_script_has_its_own_mean_once_it_has_enough_passages() -> None:
    """Until then that of its neutral sentences, or, for a script without any, that of all passages."""
    accumulator = MeanAccumulator([View.CHUNK], 2)
    for text, value, count in ((ENGLISH, vector(1, 0), 4), (HAN, vector(0, 1), 1), (RUSSIAN, vector(1, 1), 1)):
        for _ in range(count):
            accumulator.add(View.CHUNK, text, value)
    seeds = {ANY_SCRIPT: vector(9, 9), Script.LATIN: vector(8, 8), Script.HAN: vector(7, 7)}

    means = accumulator.means(seeds, minimum=4, unseeded_minimum=2)[View.CHUNK]
    with_russian = accumulator.means(seeds, minimum=9, unseeded_minimum=1)[View.CHUNK]

    assert {script: mean.tolist() for script, mean in means.items()} == {
        ANY_SCRIPT: pytest.approx([5 / 6, 2 / 6]),
        Script.LATIN: [1.0, 0.0],
        Script.HAN: [7.0, 7.0],
    }
    assert with_russian[Script.LATIN].tolist() == [8.0, 8.0]
    assert with_russian[Script.CYRILLIC].tolist() == [1.0, 1.0]


def test_a_manifest_of_an_earlier_version_is_read_with_its_single_mean() -> None:
    """It answers until its generation is rebuilt, and says that this is due."""
    manifest = VectorManifest(1, "m", 2, 0, means={View.CHUNK: {ANY_SCRIPT: (1.0, 2.0), "han": (3.0, 4.0)}})
    earlier = content_of(manifest) | {"means": {"CHUNK": [1.0, 2.0], "WINDOW": []}}

    read = manifest_of(earlier)

    assert manifest_of(content_of(manifest)) == manifest
    assert manifest.is_centred_by_script
    assert read.means == {View.CHUNK: {ANY_SCRIPT: (1.0, 2.0)}, View.WINDOW: {}}
    assert not read.is_centred_by_script


def test_a_generation_of_an_earlier_version_is_rebuilt_without_embedding_anything_again(
    tmp_path: Path, endpoint: Endpoint
) -> None:
    """It is searched by its single mean until then."""
    scope, manifest_file = Scope("ada"), tmp_path / "vectors" / "manifest.json"
    told = {"base_url": endpoint.url, "model": "m", "dimensions": DIMENSION}
    settings = load_settings(
        data_dir=tmp_path,
        metadata=SQLITE,
        lexical={"backend": "in-memory"},
        embedder={"backend": "openai", "options": told},
        indexing={"upkeep_seconds": 0.05},
    )
    with running(settings) as application:
        for content in (ENGLISH, HAN, RUSSIAN):
            written = application.memory_creator.create(scope, Draft(content=content), WriteOptions())
            application.indexer.when_reached(written.position).result(PATIENCE_SECONDS)
    manifest = json.loads(manifest_file.read_text(encoding="utf-8"))
    manifest["means"] = {view: of_view[ANY_SCRIPT] for view, of_view in manifest["means"].items()}
    manifest_file.write_text(json.dumps(manifest), encoding="utf-8")
    endpoint.asked.clear()

    with running(settings) as application:
        found = [hit.memory.content for hit in application.search.search(SearchQuery(scope, HAN), Deadline()).hits]
        until(lambda: Script.HAN in json.loads(manifest_file.read_text(encoding="utf-8"))["means"]["CHUNK"])
        again = application.search.search(SearchQuery(scope, HAN, mode=Mode.SEMANTIC), Deadline()).hits

    assert found[0] == again[0].memory.content == HAN
    assert json.loads(manifest_file.read_text(encoding="utf-8"))["generation"] == manifest["generation"] + 1
    assert [asked["input"] for asked in endpoint.asked] == [[HAN]]
