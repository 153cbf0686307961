"""What can go wrong with who may do what."""

from __future__ import annotations

from datetime import datetime

from memsvc.domain.errors import MemsvcError


class ApiKeyRequiredError(MemsvcError):
    """A call came without a key, and the service asks for one."""

    reason = "API_KEY_REQUIRED"

    def __init__(self) -> None:
        super().__init__(
            "This service asks for an API key: send the metadata 'authorization: Bearer KEY', or set MEMSVC_API_KEY. "
            "`memsvc keys create` makes keys."
        )


class ApiKeyInvalidError(MemsvcError):
    """What was sent as a key is none, or none that is in force."""

    reason = "API_KEY_INVALID"

    def __init__(self) -> None:
        super().__init__("The API key is not one of this service, or was revoked; ask for another one.")


class ApiKeyExpiredError(MemsvcError):
    """The key was good until a while ago."""

    reason = "API_KEY_EXPIRED"

    def __init__(self, key_id: str, expire_time: datetime | None) -> None:
        until = "" if expire_time is None else expire_time.isoformat()
        super().__init__(
            f"The API key {key_id!r} was good until {until}; ask for another one.", key_id=key_id, expire_time=until
        )


class PermissionDeniedError(MemsvcError):
    """The caller is known, and may not do this."""

    reason = "PERMISSION_DENIED"

    def __init__(self, message: str, *, key_id: str = "", needed: str = "") -> None:
        super().__init__(message, key_id=key_id, needed=needed)


class ApiKeyNotFoundError(MemsvcError):
    """No key has the id."""

    reason = "API_KEY_NOT_FOUND"

    def __init__(self, key_id: str) -> None:
        super().__init__(f"No API key has the id {key_id!r}; ListApiKeys tells those there are.", key_id=key_id)
