"""Entry point of the fastembed embedder; fastembed is imported when an embedder is opened."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from memsvc.ports.models import Embedder
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.fastembed.settings import FastembedSettings


@contextmanager
def _open(settings: FastembedSettings, context: BackendContext) -> Iterator[Embedder]:
    # Else ONNX Runtime 1.32, which fastembed imports, reports its use to its maker.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    try:
        import fastembed  # noqa: F401, PLC0415 - an extra, and seconds to import
    except ModuleNotFoundError as error:
        message = "The embedder 'fastembed' needs a package that is not installed: pip install memsvc[fastembed]"
        raise ModuleNotFoundError(message, name=error.name) from error
    from memsvc_backends.fastembed.embedder import FastembedEmbedder, load_model  # noqa: PLC0415

    embedder = FastembedEmbedder(load_model(settings, context.directory), settings)
    try:
        yield embedder
    finally:
        embedder.close()


FASTEMBED: BackendSpec[Embedder] = BackendSpec(FastembedSettings, _open)
