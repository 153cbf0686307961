"""What files may be like, by the settings."""

from __future__ import annotations

from datetime import timedelta

from memsvc.domain.files import FileCategory, folded
from memsvc.engine.files.upload import FileRules
from memsvc.settings import Settings


def file_rules(settings: Settings) -> FileRules:
    """Return the rules."""
    chosen = settings.files
    hours = {FileCategory.TEMP: chosen.temp_hours, FileCategory.CACHE: chosen.cache_hours}
    lifetimes = {category: timedelta(hours=value) for category, value in hours.items() if value}
    extensions = tuple(folded(one).removeprefix(".") for one in chosen.extensions)
    return FileRules(chosen.max_bytes, chosen.media_types, extensions, lifetimes)
