"""What can be known of settings before anything starts: the files that they name.

`forewarn config check` looks with these eyes, and so does `serve`, which meets the
same faults one by one.
"""

import ssl
from collections.abc import Callable, Iterator

from forewarn.admin.tokens import TokenFileError
from forewarn.problems import Problem
from forewarn.service import components, secret_files
from forewarn.service.settings import Settings, SettingsError, problem
from forewarn.service.tls import certificate_of
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


def _looks(settings: Settings) -> Iterator[Callable[[], object]]:
    yield lambda: secret_files.read_tokens_of(settings)
    yield lambda: secret_files.read_proxy_secret(settings)
    yield lambda: certificate_of(settings)
    yield lambda: _check_store(settings)
    yield from components.driver_looks(settings)
    for number, webhook in enumerate(settings.webhook, start=1):
        yield lambda number=number: secret_files.read_keys_of(settings, number)
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
