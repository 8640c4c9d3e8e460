"""The certificate of the operator API, read again when its files change.

Whoever renews a certificate replaces two files, not at the same instant, and restarts
nothing. A pair that does not fit is logged, and the pair before it stays in use.
"""

import asyncio
import logging
import ssl
from pathlib import Path

from forewarn.service.settings import Settings, SettingsError, problem

logger = logging.getLogger("forewarn.admin")

LOOK_SECONDS = 2.0
"""Between two looks at the files: two calls of stat."""


class Certificate:
    """A certificate and its key, as a context for each new connection."""

    def __init__(self, settings: Settings) -> None:
        """Read the files that `settings` names; raises SettingsError."""
        self._settings = settings
        self._certificate = settings.admin.tls_certificate
        self._key = settings.admin.tls_key
        self._seen = self._look()
        self.context = self._read()

    def renew(self) -> None:
        """Read the files again if they changed; log it, also if they do not fit."""
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.context = self._read()
        except SettingsError as error:
            # Whose fault it is does not need the place in this program.
            logger.error(  # noqa: TRY400
                "the new certificate is not used, the one before it stays: %s",
                error.message,
            )
        else:
            logger.info("the certificate %s was read again", self._certificate)

    async def keep(self) -> None:
        """Look at the files until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.renew()

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return what changes when a file is replaced or written."""
        return tuple(_state(Path(each)) for each in (self._certificate, self._key))

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            # An encrypted key would ask for its password at the terminal.
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
    """Return the certificate of the operator API; None: it speaks plain HTTP."""
    return Certificate(settings) if settings.admin.tls_certificate else None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _state(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
