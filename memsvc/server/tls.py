"""TLS and mTLS with certificates that are reloaded when their files change."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from memsvc.domain.errors import ReportedError

MISMATCH = "KEY_VALUES_MISMATCH"


class CertificateError(ReportedError):
    """The files of the certificate are unusable; the message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM.

    Attributes:
        client_ca: The CA of client certificates; None: clients need none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def paths(self) -> Sequence[Path]:
        """Return the files that are set."""
        return [path for path in (self.certificate, self.key, self.client_ca) if path is not None]


class Certificates:
    """Certificate that is read at the start, and again at a handshake when its files have changed."""

    def __init__(self, files: TlsFiles) -> None:
        """Read the files.

        Raises:
            CertificateError: A file cannot be read, or is no PEM.
        """
        self._files = files
        self._log = structlog.get_logger("memsvc.tls")
        self._protocols: Sequence[str] = ()
        self._failure = ""
        self._stamps = self._file_stamps()
        self._configuration, self._current = self._read()

    def credentials(self) -> grpc.ServerCredentials:
        """Return the credentials of a server."""
        needs_client = self._files.client_ca is not None
        return grpc.dynamic_ssl_server_credentials(
            self._configuration,
            self.fetch,  # type: ignore[arg-type]  # None is allowed, and means that nothing has changed
            require_client_authentication=needs_client,
        )

    def fetch(self) -> grpc.ServerCertificateConfiguration | None:
        """Return the new configuration when the files have changed, else None. gRPC calls it before each handshake.

        While files are half written, wrong, or changed again as they are read, the last good ones stay in use, with
        one line in the log.
        """
        try:
            stamps = self._file_stamps()
            if stamps == self._stamps:
                return None
            # The next look sees every later change; files that are wrong are not read again until they change.
            self._stamps = stamps
            self._configuration, self._current = self._read()
        except CertificateError as error:
            if str(error) != self._failure:
                self._failure = str(error)
                self._log.warning("certificate was not reloaded", reason=self._failure)
            return None
        self._failure = ""
        self._log.info("certificate reloaded")
        return self._configuration

    def context(self, protocols: Sequence[str]) -> ssl.SSLContext:
        """Return the context of a server that speaks *protocols* (ALPN), the preferred one first.

        Each handshake uses the files that were good when `fetch` was called last.
        """
        self._protocols = protocols
        _, self._current = self._read()
        context = self._current
        # A context in use is not loaded again: between its certificate and its key, a handshake would see both halves.
        context.sni_callback = self._use_current
        return context

    def _use_current(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        connection.context = self._current

    def _file_stamps(self) -> list[tuple[int, int, int]]:
        try:
            found = [path.stat() for path in self._files.paths()]
        except OSError as error:
            raise _unreadable(error) from error
        return [(one.st_mtime_ns, one.st_size, one.st_ino) for one in found]

    def _read(self) -> tuple[grpc.ServerCertificateConfiguration, ssl.SSLContext]:
        """Return the configurations of both servers, which are of one generation of the files."""
        files = self._files
        stamps = self._file_stamps()
        try:
            # Checks that they belong together: gRPC itself would accept any, and fail in every handshake.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            _load_pair(context, files)
            if files.client_ca is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                _load_authority(context, "client_ca", files.client_ca)
            certificate, key, *rest = (path.read_bytes() for path in files.paths())
        except OSError as error:
            raise _unreadable(error) from error
        if self._file_stamps() != stamps:
            message = "The files of server.tls changed while they were read."
            raise CertificateError(message)
        if self._protocols:
            context.set_alpn_protocols(list(self._protocols))
        return grpc.ssl_server_certificate_configuration([(key, certificate)], rest[0] if rest else None), context


def _unreadable(error: OSError) -> CertificateError:
    name = f" {str(error.filename)!r}" if error.filename else ""
    return CertificateError(f"A file{name} of server.tls cannot be read: {error.strerror}.")


def _load_pair(context: ssl.SSLContext, files: TlsFiles) -> None:
    try:
        context.load_cert_chain(files.certificate, files.key, password="")
    except ssl.SSLError as error:
        # OpenSSL does not name the file of the two that it cannot read.
        _load_authority(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "certificate", files.certificate)
        key = f"The file server.tls.key {str(files.key)!r}"
        if error.reason == MISMATCH:
            message = f"{key} is not the key of server.tls.certificate {str(files.certificate)!r}."
        else:
            message = f"{key} holds no private key in PEM without a password."
        raise CertificateError(message) from error


def _load_authority(context: ssl.SSLContext, setting: str, path: Path) -> None:
    try:
        context.load_verify_locations(path)
    except ssl.SSLError as error:
        message = f"The file server.tls.{setting} {str(path)!r} holds no certificate in PEM."
        raise CertificateError(message) from error
