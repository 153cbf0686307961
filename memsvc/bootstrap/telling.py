"""What a backend says of itself beyond its name: the model, and how long its vectors are."""

from __future__ import annotations

from typing import Any

EMBEDDERS = ("embedder", "previous_embedder")
MODELS = ("language_model",)
PROBE = "Does the model answer?"


def describe_backend(port: str, backend: Any) -> str:
    """Return what is worth knowing of an open backend; an embedder has embedded something, so that it is known to work.

    Raises:
        BackendUnavailableError: It does not embed; the message says why and what to look at.
    """
    if port in EMBEDDERS:
        return f"{backend.model}, {len(backend.embed_query(PROBE))} dimensions"
    return str(backend.model) if port in MODELS else ""
