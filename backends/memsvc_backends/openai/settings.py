"""Options of the backends with OpenAI's protocol."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr, model_validator

from memsvc.ports.plugin import BackendSettings


class EndpointSettings(BackendSettings):
    """Address and credentials of an endpoint."""

    base_url: str = Field(
        default="https://api.openai.com/v1",
        pattern="^https?://",
        json_schema_extra={"form": "must begin with http:// or https://"},
    )
    """The endpoint, up to and without "/chat/completions" or "/embeddings"."""
    model: str = Field(min_length=1)
    """The name of the model at the endpoint."""
    api_key: SecretStr = SecretStr("")
    """The key. Empty: none is sent, as local endpoints want it."""
    api_key_file: Path | None = None
    """A file that holds the key, such as a mounted secret; it is read before each request, so that a new key is used at
    once. Instead of api_key."""
    timeout_seconds: float = Field(default=20.0, gt=0, le=86_400)
    """How long one try may take."""

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        if self.api_key.get_secret_value() and self.api_key_file is not None:
            message = "give api_key or api_key_file, not both"
            raise ValueError(message)
        return self


class JsonOutput(StrEnum):
    """Way to ask an endpoint for JSON of a schema."""

    SCHEMA = "schema"
    """By a JSON schema that the answer must follow: OpenAI, vLLM, Ollama, LM Studio."""
    OBJECT = "object"
    """By asking for any JSON object and telling the schema in words: older endpoints."""


class OpenAiLanguageModelSettings(EndpointSettings):
    """Settings of the language model."""

    retries: int = Field(default=2, ge=0, le=10)
    """How often to try again after an answer that may be better the next time: no connection, 408, 409, 429, 5xx."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """How much chance is in the answers."""
    json_output: JsonOutput = JsonOutput.SCHEMA
    """How the endpoint is asked for JSON: schema or object."""


class VectorEncoding(StrEnum):
    """Encoding of vectors in transit."""

    BASE64 = "base64"
    """As little-endian 32-bit floats, a third of the size."""
    FLOAT = "float"
    """As numbers in JSON, for endpoints that know nothing else."""


class OpenAiEmbedderSettings(EndpointSettings):
    """Settings of the embedding model."""

    dimensions: int = Field(default=0, ge=0, le=65_536)
    """How long its vectors are. 0: what the endpoint gives, which is asked once and remembered in the data
    directory."""
    send_dimensions: bool = False
    """Whether to ask the endpoint for vectors of `dimensions`, which models that can shorten theirs understand."""
    space: str = Field(default="", max_length=200)
    """The name of the vector space. Vectors of another name are computed again. Empty: "openai/", the model and the
    length of its vectors, with a mark when options are set that change the vectors of passages. To be set when only the
    name of the model changes."""
    passage_prefix: str = ""
    """Put before what is to be found, such as "passage: " for models of the E5 family."""
    query_prefix: str = ""
    """Put before what is searched with, such as "query: "."""
    passage_input_type: str = ""
    """Sent as input_type with what is to be found, such as "passage", "document" or "search_document". Empty: not
    sent."""
    query_input_type: str = ""
    """Likewise with what is searched with, such as "query" or "search_query"."""
    encoding: VectorEncoding = VectorEncoding.BASE64
    """How vectors travel: base64 or float."""
    batch_items: int = Field(default=64, ge=1, le=2048)
    """Texts in a request, at most."""
    batch_chars: int = Field(default=100_000, ge=1)
    """Characters in a request, at most; a single text may have more."""
    text_chars: int = Field(default=8_000, ge=64)
    """Where a text is cut off. One that the endpoint refuses all the same is cut in half until it takes it."""
    concurrency: int = Field(default=4, ge=1, le=64)
    """Requests for passages under way at a time; queries do not wait for them."""
    retries: int = Field(default=4, ge=0, le=20)
    """How often to try again after no connection, no answer in time, 408, 409, 425, 429 or 5xx, with growing pauses or
    those that Retry-After asks for."""
    patience_seconds: float = Field(default=10.0, gt=0, le=300)
    """How long after the first try of passages another one may begin. The indexer comes back later by itself."""
    query_patience_seconds: float = Field(default=2.0, gt=0, le=60)
    """How long a search waits for the vector of its query, over all tries, before words alone answer."""
    requests_per_minute: float = Field(default=0.0, ge=0)
    """How many requests to send in a minute at most. 0: no limit."""
    tokens_per_minute: float = Field(default=0.0, ge=0)
    """How many tokens, as memsvc estimates them, to send in a minute at most. 0: no limit."""

    @model_validator(mode="after")
    def _knows_what_it_sends(self) -> Self:
        if self.send_dimensions and not self.dimensions:
            message = "send_dimensions needs dimensions"
            raise ValueError(message)
        return self
