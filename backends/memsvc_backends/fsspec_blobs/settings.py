"""The options of the blob store."""

from __future__ import annotations

from typing import Any

from pydantic import Field, SecretStr

from memsvc.ports.plugin import BackendSettings


class FsspecSettings(BackendSettings):
    """Where blobs are kept."""

    url: str = ""
    """Empty: a folder in the data directory. Else a URL that fsspec knows, such as file:///srv/blobs or
    s3://bucket/prefix, which needs memsvc[s3]. It must belong to this metadata store alone: what no file of it uses is
    swept away."""
    options: dict[str, Any] = Field(default_factory=dict)
    """What fsspec's file system of that sort is made with, such as endpoint_url for an S3-compatible server."""
    secrets: dict[str, SecretStr] = Field(default_factory=dict)
    """Likewise, but never shown: `key` and `secret` for S3. Without them AWS's own variables and files count."""
