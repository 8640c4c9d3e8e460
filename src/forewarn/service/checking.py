"""What can be known of settings before anything starts: the files that they name.

`forewarn config check` looks with these eyes, and so does `serve`, which meets the
same faults one by one.
"""

import ssl
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from forewarn.admin.tokens import TokenFileError
from forewarn.problems import Problem
from forewarn.service import parts
from forewarn.service.settings import Settings, SettingsError, problem
from forewarn.service.webhooks.deliveries import read_secret_of
from forewarn.store.open import check_url


def check(settings: Settings) -> None:
    """Look at everything that `serve` reads before it opens the store.

    Raises SettingsError with all that is wrong. Nothing is opened, made or run.
    """
    found: list[Problem] = []
    for look in _looks(settings):
        try:
            look()
        except SettingsError as error:
            found += error.problems
        except TokenFileError as error:
            origin = settings.origins.get("admin.token_file", "default")
            found += (
                Problem(file=origin, line=0, key="admin.token_file", message=each)
                for each in error.message.splitlines()
            )
    if found:
        raise SettingsError(tuple(found))


def open_files(settings: Settings) -> Iterator[str]:
    """Yield a warning for each secret that everybody on this machine may read."""
    named = {
        "admin.token_file": settings.admin.token_file,
        "metadata.signed_secret_file": settings.metadata.signed_secret_file,
        **{
            f"secret_file of webhook {webhook.name}": webhook.secret_file
            for webhook in settings.webhook
        },
    }
    for what, file in named.items():
        try:
            is_open = bool(file) and Path(file).stat().st_mode & stat.S_IROTH
        except OSError:
            # Whoever needs it says that it is not there.
            continue
        if is_open:
            yield (
                f"{file} ({what}) can be read by everybody on this machine: "
                "chmod it to 600, or to 640 with the service's group"
            )


def _looks(settings: Settings) -> Iterator[Callable[[], object]]:
    yield lambda: parts.read_tokens_of(settings)
    yield lambda: parts.read_secret(settings)
    yield lambda: _check_store(settings)
    yield from parts.driver_looks(settings)
    for number, webhook in enumerate(settings.webhook, start=1):
        yield lambda number=number: read_secret_of(settings, number)
        if webhook.ca_file:
            yield lambda number=number: _check_authorities(settings, number)


def _check_store(settings: Settings) -> None:
    try:
        check_url(settings.store.url)
    except ValueError as error:
        raise problem(settings, "store.url", str(error)) from error


def _check_authorities(settings: Settings, number: int) -> None:
    file = settings.webhook[number - 1].ca_file
    try:
        ssl.create_default_context(cafile=file)
    except OSError as error:
        message = f"{file} cannot be used: {error.strerror}"
        raise problem(settings, f"webhook.{number}.ca_file", message) from error
