"""Failed calls as one exception with code, reason, metadata and violations; and errors of arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from types import NoneType, UnionType
from typing import Any, Literal, Union, Unpack, get_args, get_origin, get_type_hints, is_typeddict

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
_LACKS_METHOD = (
    "The service lacks this method: it is older than this client, or the address is that of another service. Upgrade "
    "the service, or correct the address."
)


@dataclass(frozen=True, slots=True)
class Violation:
    """One rule that a request broke: the field's path, and what would be right."""

    field: str
    description: str


class TlsFault(StrEnum):
    """Reason for which a connection that was made cannot be used."""

    PLAIN_SERVICE = "PLAIN_SERVICE"
    """The client speaks TLS and the service does not."""
    UNVERIFIED = "UNVERIFIED"
    """The certificate of the service, or that of the client, is not accepted."""
    PLAIN_CLIENT = "PLAIN_CLIENT"
    """The service closed the connection at once, as one that speaks TLS does if the client does not."""


def tls_fault(message: str) -> TlsFault | None:
    """Return the fault of TLS that a message of gRPC is about, which has no codes for it."""
    if "WRONG_VERSION_NUMBER" in message:
        return TlsFault.PLAIN_SERVICE
    if "handshake failed" in message:
        return TlsFault.UNVERIFIED
    is_closed = "failed to connect" in message and "Socket closed" in message
    return TlsFault.PLAIN_CLIENT if is_closed else None


_TLS_ADVICE = {
    TlsFault.PLAIN_SERVICE: "The service does not speak TLS: leave out tls.",
    TlsFault.UNVERIFIED: (
        "TLS failed. tls=Tls(ca) names the authority of the service's certificate, which must be valid and name the "
        "host; certificate and key identify the client."
    ),
    TlsFault.PLAIN_CLIENT: (
        "The service closed the connection. If it needs TLS, name the authority of its certificate: tls=Tls(ca)."
    ),
}


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
        return f"{self.reason or self.code.name}: {broken or self.message}"

    @classmethod
    def from_rpc(cls, error: grpc.aio.AioRpcError) -> MemsvcCallError:
        """Decode what the service sent along with the status code."""
        trailers = error.trailing_metadata()
        packed = next((value for key, value in trailers or () if key == _DETAILS_KEY), b"")
        message = error.details() or error.code().name
        if error.code() is grpc.StatusCode.UNIMPLEMENTED and not packed:
            # The service's own refusals have details; this one is from gRPC, or a proxy.
            return cls(error.code(), f"{_LACKS_METHOD} ({message})")
        fault = None if packed or error.code() is not grpc.StatusCode.UNAVAILABLE else tls_fault(message)
        return cls.from_status(error.code(), f"{_TLS_ADVICE[fault]} ({message})" if fault else message, packed)

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


# Errors that name the argument of a method that no message can hold, and the type that it should have.


_INT32 = 2**31


class NamedArguments:
    """Base of classes whose methods name an argument of the wrong type in their errors.

    Arguments are compared with the annotations only after a message has refused them: calls that succeed cost nothing.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Wrap the public methods, and the constructor, that the class itself defines."""
        super().__init_subclass__(**kwargs)
        for name, member in list(vars(cls).items()):
            if inspect.isfunction(member) and (not name.startswith("_") or name == "__init__"):
                setattr(cls, name, _wrapped(member))


def _wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return await method(*args, **kwargs)
            except (AttributeError, TypeError, ValueError) as error:
                _raise_named(error, method, args, kwargs)
                raise

        return call
    if inspect.isasyncgenfunction(method):

        @functools.wraps(method)
        async def stream(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
            try:
                async with aclosing(method(*args, **kwargs)) as items:
                    async for item in items:
                        yield item
            except (AttributeError, TypeError, ValueError) as error:
                _raise_named(error, method, args, kwargs)
                raise

        return stream

    @functools.wraps(method)
    def construct(*args: Any, **kwargs: Any) -> Any:
        try:
            return method(*args, **kwargs)
        except (AttributeError, TypeError, ValueError) as error:
            _raise_named(error, method, args, kwargs)
            raise

    return construct


def _raise_named(error: Exception, method: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Raise an error like *error* that names the argument; return if all arguments are as annotated.

    Raises:
        TypeError: An argument is not of its type.
        ValueError: An integer is out of the range of its field, or a text has unpaired surrogates.
    """
    try:
        given = inspect.signature(method).bind(*args, **kwargs).arguments
        hints = get_type_hints(method)
    except (TypeError, NameError):
        return
    for name, hint in list(hints.items()):
        if get_origin(hint) is Unpack:
            hints |= get_type_hints(get_args(hint)[0])
            given |= given.pop(name, {})
    for name, value in given.items():
        if name in hints and (wrong := next(_faults(value, hints[name], name), None)):
            path, hint, found = wrong
            message = f"{path} must be {_form(hint)}, not {type(found).__name__}."
            raise TypeError(message) from error
    if isinstance(error, ValueError):
        _raise_unfit(error, given)


def _raise_unfit(error: ValueError, given: Mapping[str, Any]) -> None:
    is_range, is_text = "out of range" in str(error), isinstance(error, UnicodeError)
    for path, value in _values(given, ""):
        if is_range and isinstance(value, int) and not -_INT32 <= value < _INT32:
            message = f"{path} is out of the range of its field: {value}."
            raise ValueError(message) from error
        if is_text and isinstance(value, str) and any("\ud800" <= sign <= "\udfff" for sign in value):
            message = f"{path} must be valid Unicode, without unpaired surrogates."
            raise ValueError(message) from error


def _values(given: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(given, Mapping):
        for name, value in given.items():
            yield from _values(value, f"{path}.{name}" if path else str(name))
    elif isinstance(given, list | tuple):
        for place, value in enumerate(given):
            yield from _values(value, f"{path}[{place}]")
    else:
        yield path, given


def _faults(value: Any, hint: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """Yield what is not of its type, with its path and the type; annotations of other forms fit everything."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        found = [next(_faults(value, each, path), None) for each in get_args(hint)]
        if all(found):
            # Of a list in a union, such as "list or None", the element is named.
            inner = [each for each in found if each and each[0] != path]
            yield inner[0] if inner else (path, hint, value)
    elif origin is Literal:
        if not isinstance(value, str):
            yield path, hint, value
    elif is_typeddict(hint):
        yield from _faults_of_fields(value, hint, path)
    elif origin is not None and isinstance(origin, type):
        yield from _faults_of_items(value, hint, origin, path)
    elif hint is float:
        if not isinstance(value, int | float):
            yield path, hint, value
    elif isinstance(hint, type) and not _is_instance(value, hint):
        yield path, hint, value


def _faults_of_fields(value: Any, hint: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    if not isinstance(value, Mapping):
        yield path, Mapping, value
        return
    fields = get_type_hints(hint)
    for name, each in value.items():
        if name in fields:
            yield from _faults(each, fields[name], f"{path}.{name}")


def _faults_of_items(value: Any, hint: Any, origin: type, path: str) -> Iterator[tuple[str, Any, Any]]:
    if not _is_instance(value, origin):
        yield path, hint, value
        return
    inner = get_args(hint)
    if isinstance(value, Mapping) and len(inner) > 1:
        for name, each in value.items():
            yield from _faults(each, inner[1], f"{path}.{name}")
    elif isinstance(value, list | tuple) and inner and origin is not tuple:
        for place, each in enumerate(value):
            yield from _faults(each, inner[0], f"{path}[{place}]")


def _is_instance(value: Any, kind: type) -> bool:
    try:
        return isinstance(value, kind)
    except TypeError:  # a protocol that cannot be tested
        return True


def _form(hint: Any) -> str:
    """Return a type as errors name it."""
    origin = get_origin(hint)
    if origin in {Union, UnionType}:
        return " or ".join(_form(each) for each in get_args(hint))
    if origin is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if hint is NoneType:
        return "None"
    if origin is not None:
        return f"{_form(origin)}[{', '.join(_form(each) for each in get_args(hint))}]"
    return str(getattr(hint, "__name__", hint))
