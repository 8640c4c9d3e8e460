"""Requirements on TLS: authorities, and no version that is broken."""

import ssl

import pytest

from forewarn.agent.wire import connection


def test_versions_before_1_2_are_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    def as_python_3_9(**_: object) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_python_3_9)
    assert connection.trusting().minimum_version is ssl.TLSVersion.TLSv1_2


def test_stricter_system_minimum_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def strict(**_: object) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    assert connection.trusting().minimum_version is ssl.TLSVersion.TLSv1_3


def test_certificate_and_host_name_are_verified() -> None:
    context = connection.trusting()
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    with pytest.raises(OSError, match="No such file"):
        connection.trusting(ca_file="/no/such/file")
