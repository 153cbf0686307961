"""TLS and mTLS with certificates that are reloaded when their files change."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import grpc
import structlog

from memsvc.domain.errors import ReportedError


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
        self._stamps = self._file_stamps()
        self._configuration = self._read()

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

        While files are half written, or wrong, the last good ones stay in use, with one line in the log.
        """
        try:
            stamps = self._file_stamps()
            if stamps == self._stamps:
                return None
            self._stamps = stamps
            self._configuration = self._read()
        except CertificateError as error:
            self._log.warning("certificate was not reloaded", reason=str(error))
            return None
        self._log.info("certificate reloaded")
        return self._configuration

    def context(self, protocols: Sequence[str]) -> ssl.SSLContext:
        """Return the context of a server that speaks *protocols* (ALPN), the preferred one first."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.set_alpn_protocols(list(protocols))
        if self._files.client_ca is not None:
            context.verify_mode = ssl.CERT_REQUIRED
        self._load(context)
        return context

    def refresh(self, context: ssl.SSLContext) -> None:
        """Load changed files into a context for further connections. Authorities that are gone stay until a restart."""
        if self.fetch() is not None:
            self._load(context)

    def _load(self, context: ssl.SSLContext) -> None:
        context.load_cert_chain(self._files.certificate, self._files.key, password="")
        if self._files.client_ca is not None:
            context.load_verify_locations(self._files.client_ca)

    def _file_stamps(self) -> list[tuple[int, int, int]]:
        try:
            found = [path.stat() for path in self._files.paths()]
        except OSError as error:
            raise _unreadable(error) from error
        return [(one.st_mtime_ns, one.st_size, one.st_ino) for one in found]

    def _read(self) -> grpc.ServerCertificateConfiguration:
        files = self._files
        try:
            # Checks that they belong together: gRPC itself would accept any, and fail in every handshake.
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files.certificate, files.key, password="")
            if files.client_ca is not None:
                context.load_verify_locations(files.client_ca)
            certificate, key, *rest = (path.read_bytes() for path in files.paths())
        except ssl.SSLError as error:
            names = ", ".join(repr(str(path)) for path in files.paths())
            message = f"The files of server.tls ({names}) are no certificate with its key in PEM: {error.reason}."
            raise CertificateError(message) from error
        except OSError as error:
            raise _unreadable(error) from error
        return grpc.ssl_server_certificate_configuration([(key, certificate)], rest[0] if rest else None)


def _unreadable(error: OSError) -> CertificateError:
    name = f" {str(error.filename)!r}" if error.filename else ""
    return CertificateError(f"A file{name} of server.tls cannot be read: {error.strerror}.")
