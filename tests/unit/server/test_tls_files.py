"""Files of a certificate that cannot be used are named one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import trustme

from memsvc.server.tls import CertificateError, Certificates, TlsFiles


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    """Write files that can be used."""
    authority, leaf = trustme.CA(), trustme.CA().issue_cert("localhost")
    found = TlsFiles(tmp_path / "cert.pem", tmp_path / "key.pem", tmp_path / "clients.pem")
    leaf.cert_chain_pems[0].write_to_path(found.certificate)
    leaf.private_key_pem.write_to_path(found.key)
    authority.cert_pem.write_to_path(tmp_path / "clients.pem")
    Certificates(found)
    return found


@pytest.mark.parametrize("setting", ["certificate", "key", "client_ca"])
@pytest.mark.parametrize("content", ["garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_the_file_without_pem_is_named(files: TlsFiles, setting: str, content: str) -> None:
    """By its setting and its path, and no other one is."""
    path: Path = getattr(files, setting)
    path.write_text(content)

    with pytest.raises(CertificateError) as refused:
        Certificates(files)

    what = "private key in PEM without a password" if setting == "key" else "certificate in PEM"
    assert str(refused.value) == f"The file server.tls.{setting} {str(path)!r} holds no {what}."


def test_a_key_of_another_certificate_is_named(files: TlsFiles, tmp_path: Path) -> None:
    """With the certificate."""
    other = tmp_path / "other.pem"
    trustme.CA().issue_cert("localhost").private_key_pem.write_to_path(other)

    with pytest.raises(CertificateError, match=r"other\.pem' is not the key of server\.tls\.certificate '.*cert\.pem'"):
        Certificates(replace(files, key=other))
