"""The certificate of the operator API, reloaded when its files change.

A renewal replaces two files, one after the other, and restarts nothing. If certificate
and key do not match, an error is logged and the previous pair stays in use.
"""

import asyncio
import logging
import ssl
from pathlib import Path

from forewarn.service.settings import Settings, SettingsError, problem

logger = logging.getLogger("forewarn.admin")

LOOK_SECONDS = 2.0
"""Time between two checks of the files, which are two calls of stat."""


def authorities(settings: Settings, where: str, file: str) -> ssl.SSLContext:
    """Return how certificates are checked with those of a file; empty: the system's.

    `where` is the table of the setting `ca_file`. Raises SettingsError.
    """
    try:
        return ssl.create_default_context(cafile=file or None)
    except OSError as error:
        message = f"{file} cannot be used: {error.strerror}"
        raise problem(settings, f"{where}.ca_file", message) from error


class Certificate:
    """A certificate and its key, as the TLS context of new connections."""

    def __init__(self, settings: Settings) -> None:
        """Read the files that `settings` names; raises SettingsError."""
        self._settings = settings
        self._certificate = settings.admin.tls_certificate
        self._key = settings.admin.tls_key
        self._seen = self._states()
        self.context = self._read()

    def renew(self) -> None:
        """Reload the files if they changed, and log the result."""
        states = self._states()
        if states == self._seen:
            return
        self._seen = states
        try:
            self.context = self._read()
        except SettingsError as error:
            # No traceback: the problem is in the files.
            logger.error(  # noqa: TRY400
                "cannot use the new certificate; the previous one stays in use: %s",
                error.message,
            )
        else:
            logger.info("reloaded the certificate %s", self._certificate)

    async def keep(self) -> None:
        """Check the files periodically until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.renew()

    def _states(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return values that change when a file is replaced or written."""
        return tuple(_state(Path(path)) for path in (self._certificate, self._key))

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            # Without `password`, OpenSSL would ask for one at the terminal.
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except (OSError, ValueError) as error:
            reason = error.strerror or str(error) if isinstance(error, OSError) else ""
            raise problem(
                self._settings,
                "admin.tls_certificate",
                f"{self._certificate} with the key {self._key} cannot be used: "
                f"{reason or 'the key is encrypted'}",
            ) from error
        return context


def certificate_of(settings: Settings) -> Certificate | None:
    """Return the certificate of the operator API; None if it uses plain HTTP."""
    return Certificate(settings) if settings.admin.tls_certificate else None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
