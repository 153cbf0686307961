"""Entry points of the backends; the client's package is imported when a backend is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memsvc.ports.models import Embedder, LanguageModel
from memsvc.ports.plugin import BackendContext, BackendSpec
from memsvc_backends.openai.settings import OpenAiEmbedderSettings, OpenAiLanguageModelSettings

PACKAGE = "openai"


@contextmanager
def _needing_the_package() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != PACKAGE:
            raise
        message = "The backend 'openai' needs a package that is not installed: pip install memsvc[openai]"
        raise ModuleNotFoundError(message, name=error.name) from error


@contextmanager
def _open_language_model(settings: OpenAiLanguageModelSettings, context: BackendContext) -> Iterator[LanguageModel]:
    """Make the client; nothing is asked yet, so a service starts although the endpoint is down."""
    with _needing_the_package():
        from memsvc_backends.openai.client import open_client  # noqa: PLC0415 - an extra, and a second to import
        from memsvc_backends.openai.language_model import OpenAiLanguageModel  # noqa: PLC0415
    with open_client(settings, retries=settings.retries) as client:
        yield OpenAiLanguageModel(client, settings, context.faults)


@contextmanager
def _open_embedder(settings: OpenAiEmbedderSettings, context: BackendContext) -> Iterator[Embedder]:
    """Make the client; the endpoint is asked only when the length of its vectors is neither set nor known."""
    with _needing_the_package():
        from memsvc_backends.openai.embedder import open_embedder  # noqa: PLC0415 - an extra, and a second to import
    with open_embedder(settings, context.directory, faults=context.faults) as embedder:
        yield embedder


LANGUAGE_MODEL: BackendSpec[LanguageModel] = BackendSpec(OpenAiLanguageModelSettings, _open_language_model)
EMBEDDER: BackendSpec[Embedder] = BackendSpec(OpenAiEmbedderSettings, _open_embedder)
