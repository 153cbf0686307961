"""Failed calls as one exception with code, reason, metadata and violations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2 as details
from google.rpc.status_pb2 import Status

DOMAIN = "memsvc"
INTERRUPTED = frozenset({grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED})
"""Codes of calls that may succeed when they are repeated. CANCELLED, if not by this client, is that of a call that
arrives while gRPC stops in the service, or that is longer under way than its grace."""
REASON_PREFIX = "ERROR_REASON_"
_DETAILS_KEY = "grpc-status-details-bin"


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a request broke: the field's path, and what would be right."""

    field: str
    description: str


class MemsvcCallError(Exception):
    """A call failed.

    Attributes:
        code: The gRPC status code.
        reason: The finer reason, a name of ErrorReason without its prefix, such as "MEMORY_NOT_FOUND"; empty when the
            service did not say, as when it cannot be reached.
        message: What went wrong, in English.
        violations: All rules that the request broke, when the code is INVALID_ARGUMENT.
        metadata: What ErrorReason promises for the reason, such as the present revision.
        retry_seconds: How long to wait before another try, when the service said so.
    """

    def __init__(
        self,
        code: grpc.StatusCode,
        message: str,
        *,
        reason: str = "",
        violations: tuple[Violation, ...] = (),
        metadata: Mapping[str, str] | None = None,
        retry_seconds: float | None = None,
    ) -> None:
        """Hold what is known of the failure."""
        super().__init__(code, message, reason)
        self.code = code
        self.message = message
        self.reason = reason
        self.violations = violations
        self.metadata = dict(metadata or {})
        self.retry_seconds = retry_seconds

    def __str__(self) -> str:
        """Return everything in one line."""
        broken = "; ".join(f"{violation.field}: {violation.description}" for violation in self.violations)
        return f"{self.reason or self.code.name}: {self.message}{f' ({broken})' if broken else ''}"

    @classmethod
    def from_rpc(cls, error: grpc.aio.AioRpcError) -> MemsvcCallError:
        """Decode what the service sent along with the status code."""
        trailers = error.trailing_metadata()
        packed = next((value for key, value in trailers or () if key == _DETAILS_KEY), b"")
        return cls.from_status(error.code(), error.details() or error.code().name, packed)

    @classmethod
    def from_item(cls, status: Status) -> MemsvcCallError:
        """Return the failure of one item of a batch, whose code is not 0."""
        code = next((one for one in grpc.StatusCode if one.value[0] == status.code), grpc.StatusCode.UNKNOWN)
        return cls.from_status(code, status.message, status.SerializeToString())

    @classmethod
    def from_status(cls, code: grpc.StatusCode, message: str, packed: str | bytes) -> MemsvcCallError:
        """Decode a serialized google.rpc.Status; one that cannot be read counts as none."""
        try:
            status = Status.FromString(packed if isinstance(packed, bytes) else packed.encode())
        except DecodeError:
            status = Status()
        info, broken, retry = details.ErrorInfo(), details.BadRequest(), details.RetryInfo()
        for part in status.details:
            for known in (info, broken, retry):
                if part.Is(known.DESCRIPTOR):
                    part.Unpack(known)
        told = info.domain == DOMAIN
        return cls(
            code,
            message,
            reason=info.reason.removeprefix(REASON_PREFIX) if told else "",
            violations=tuple(Violation(each.field, each.description) for each in broken.field_violations),
            metadata=info.metadata if told else None,
            retry_seconds=retry.retry_delay.ToTimedelta().total_seconds() if retry.HasField("retry_delay") else None,
        )
