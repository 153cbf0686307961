"""Settings of files."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from memsvc.domain.files import fault_of_template
from memsvc.settings.part import SettingsGroup


def _checked(template: str) -> str:
    if fault := fault_of_template(template):
        message = f"{template!r} {fault}"
        raise ValueError(message)
    return template


UrlTemplate = Annotated[str, AfterValidator(_checked)]
"""Where a file is reached, with places in braces."""


class FileSettings(SettingsGroup):
    """What files may be like, and how they travel."""

    max_bytes: int = Field(default=1024 * 1024 * 1024, ge=1)
    """How large a file may be."""
    media_types: tuple[str, ...] = ()
    """Which media types may be uploaded, such as ["image/*", "application/pdf"]. Empty: all."""
    extensions: tuple[str, ...] = ()
    """Which endings a file's name may have, without the dot and in lower case, such as ["png", "pdf"]. Empty: all."""
    temp_hours: float = Field(default=24.0, ge=0)
    """How long files of the category temp live that say nothing else. 0: for good."""
    cache_hours: float = Field(default=24.0 * 7, ge=0)
    """Likewise those of the category cache."""
    sweep_minutes: float = Field(default=60.0, ge=0)
    """How often expired files, and bytes that no file uses any more, are removed. 0: by CheckIntegrity alone."""
    max_streams: int = Field(default=64, ge=1)
    """Uploads and downloads at a time; further ones are answered RESOURCE_EXHAUSTED."""
    threads: int = Field(default=4, ge=1)
    """Threads that read and write their bytes."""
    download_url: UrlTemplate = ""
    """Where you serve files, such as "https://files.example.com/{category}/{id}/download", for ResolveFileRefs to tell.
    Places: category, id, name, sha256, user_id, project_id, tenant_id. Empty: no URLs."""
    preview_url: UrlTemplate = ""
    """Likewise where you serve previews."""
