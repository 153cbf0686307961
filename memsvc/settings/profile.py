"""Profiles: one word that chooses the store and the indexes, where they are not chosen one by one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

_ADDRESSES = ("url", "urls")
_OF_ONE_SERVER = (*_ADDRESSES, "api_key", "ca_file", "cert_file", "key_file", "prefix")
"""Options of a server that need be said for one of its two indexes only."""
MISSING_URL = (
    "metadata.options.url: the profile {profile!r} keeps the store in PostgreSQL; set "
    "MEMSVC_METADATA__OPTIONS__URL=postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
)


class Profile(StrEnum):
    """Profile: the set of backends that hold the data."""

    EMBEDDED = "embedded"
    """In the data directory of one process, with nothing else to install."""
    CLUSTER = "cluster"
    """In PostgreSQL and Qdrant, which several processes share."""
    POSTGRES = "postgres"
    """In PostgreSQL alone, which several processes share."""


BACKENDS: Mapping[Profile, Mapping[str, str]] = {
    Profile.EMBEDDED: {"metadata": "sql", "vectors": "qdrant-edge", "lexical": "tantivy"},
    Profile.CLUSTER: {"metadata": "sql", "vectors": "qdrant", "lexical": "qdrant-sparse"},
    Profile.POSTGRES: {"metadata": "sql", "vectors": "pgvector", "lexical": "pg-fulltext"},
}
"""What each profile chooses for each port."""


class ProfileDefaults(PydanticBaseSettingsSource):
    """The last source of settings: what the profile chooses where no other source does."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        """Return nothing: all is said at once."""
        del field
        return None, field_name, False

    def __call__(self) -> dict[str, Any]:
        """Return the backends of the profile, and the options that follow from others."""
        known: Mapping[str, Any] = self.current_state
        try:
            profile = Profile(known.get("profile", Profile.EMBEDDED))
        except ValueError:
            return {}
        chosen = {port: _backend(known, port) or backend for port, backend in BACKENDS[profile].items()}
        found: dict[str, Any] = {port: {"backend": backend} for port, backend in chosen.items()}
        if chosen["lexical"] == "qdrant-sparse" and chosen["vectors"] == "qdrant":
            options = _options(known, "vectors")
            own = _options(known, "lexical")
            others = () if any(name in own for name in _ADDRESSES) else _ADDRESSES
            taken = (name for name in _OF_ONE_SERVER if name not in _ADDRESSES or name in others)
            found["lexical"]["options"] = {name: options[name] for name in taken if name in options}
        # A choice that was made whole, as in tests, is left alone.
        return {port: choice for port, choice in found.items() if isinstance(known.get(port, {}), dict)}


def lacks_database(profile: Profile, metadata_backend: str, options: Mapping[str, Any]) -> bool:
    """Return whether a profile that needs PostgreSQL was chosen, and no database named."""
    return profile is not Profile.EMBEDDED and metadata_backend == "sql" and not options.get("url")


def _backend(known: Mapping[str, Any], port: str) -> str:
    choice = known.get(port)
    return str(choice.get("backend") or "") if isinstance(choice, dict) else ""


def _options(known: Mapping[str, Any], port: str) -> Mapping[str, Any]:
    choice = known.get(port)
    options = choice.get("options") if isinstance(choice, dict) else None
    return options if isinstance(options, dict) else {}
