"""Blobs in any file system that fsspec knows: a local folder by default, S3-compatible storage by its URL."""

from memsvc_backends.fsspec_blobs.store import BLOBS, FsspecSettings

__all__ = ["BLOBS", "FsspecSettings"]
