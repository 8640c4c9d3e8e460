"""Certificates for servers on loopback, made by openssl for one test."""

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None,
    reason="openssl, which makes certificates, is not here",
)


class Certificate(NamedTuple):
    """A certificate that signs itself, for 127.0.0.1 and localhost."""

    certificate: Path
    key: Path

    def server(self) -> ssl.SSLContext:
        """Return what a server shows it with."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def certificate_in(directory: Path, *addresses: str) -> Certificate:
    """Make one, which is also for some other addresses."""
    names = [
        "DNS:localhost",
        *(f"IP:{address}" for address in ("127.0.0.1", *addresses)),
    ]
    certificate = Certificate(directory / "certificate.pem", directory / "key.pem")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-keyout", str(certificate.key), "-out", str(certificate.certificate)),
            *("-subj", "/CN=localhost"),
            *("-addext", f"subjectAltName={','.join(names)}"),
        ],
        check=True,
        capture_output=True,
        timeout=120,
    )
    return certificate
