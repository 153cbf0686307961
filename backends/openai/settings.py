"""The options of the OpenAI-compatible language model."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field, SecretStr

from memsvc.ports.backend import BackendSettings


class JsonOutput(StrEnum):
    """How an endpoint is asked for JSON of a shape."""

    SCHEMA = "schema"
    """By a JSON schema that the answer must follow: OpenAI, vLLM, Ollama, LM Studio."""
    OBJECT = "object"
    """By asking for any JSON object and telling the schema in words: older endpoints."""


class OpenAiLanguageModelSettings(BackendSettings):
    """Where the model is, and how to ask it."""

    base_url: str = Field(default="https://api.openai.com/v1", pattern="^https?://")
    """The endpoint, up to and without "/chat/completions"."""
    model: str = Field(min_length=1)
    """The name of the model at the endpoint."""
    api_key: SecretStr = SecretStr("")
    """The key. Empty: none is sent, as local endpoints want it."""
    timeout_seconds: float = Field(default=20.0, gt=0)
    """How long one try may take."""
    retries: int = Field(default=2, ge=0, le=10)
    """How often to try again after an answer that may be better the next time: no connection, 408, 409, 429, 5xx."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    """How much chance is in the answers."""
    json_output: JsonOutput = JsonOutput.SCHEMA
    """How the endpoint is asked for JSON: schema or object."""
