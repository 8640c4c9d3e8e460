"""The secrets of a service: tokens and keys, each in a file that the settings name.

The service reads all secrets before it starts anything. Errors and warnings about such
a file never contain any of its content.
"""

import stat
from collections.abc import Iterator
from pathlib import Path

from forewarn.admin.tokens import Tokens, read_tokens
from forewarn.service.array_tables import is_private
from forewarn.service.options import is_web, socket_path
from forewarn.service.settings import Settings, problem
from forewarn.service.webhooks.signing import WebhookSecrets, read_keys
from forewarn.settings.files import read_file
from forewarn.store.open import path_of

SECRET_BYTES_MAX = 4096
"""Maximum size of a secret's file: it has one line, or two with two keys."""


def read_tokens_of(settings: Settings) -> Tokens | None:
    """Return the operators' tokens; None if every user of this machine is an operator.

    Raises TokenFileError.
    """
    file = settings.admin.token_file
    return read_tokens(Path(file)) if file else None


def read_proxy_secret(settings: Settings) -> bytes:
    """Return the metadata proxy's secret, empty if none is set; raises SettingsError."""
    file, key = settings.metadata.signed_secret_file, "metadata.signed_secret_file"
    if not file:
        return b""
    secret = _read(settings, key, file)
    if not secret:
        raise problem(settings, key, f"{file} is empty")
    return secret


def read_webhook_secrets(settings: Settings) -> dict[str, WebhookSecrets]:
    """Return the secrets of each [[webhook]] by its name; raises SettingsError."""
    return {
        webhook.name: read_secrets_of(settings, number)
        for number, webhook in enumerate(settings.webhook, start=1)
    }


def read_secrets_of(settings: Settings, number: int) -> WebhookSecrets:
    """Return the secrets of one [[webhook]], counted from 1; raises SettingsError."""
    return WebhookSecrets(
        url=_url_of(settings, number), keys=_keys_of(settings, number)
    )


def _url_of(settings: Settings, number: int) -> str:
    """Return the URL of a [[webhook]]; no error quotes its file."""
    webhook = settings.webhook[number - 1]
    if not webhook.url_file:
        return webhook.url
    key, file = f"webhook.{number}.url_file", webhook.url_file
    first = _read(settings, key, file).decode("ascii", "replace").partition("\n")[0]
    url = first.strip()
    if not is_web(url):
        message = f"the first line of {file} must be a URL such as https://…"
        raise problem(settings, key, message)
    if not (webhook.insecure or is_private(url)):
        message = f"the URL in {file} must be https (insecure = true allows http)"
        raise problem(settings, key, message)
    return url


def _keys_of(settings: Settings, number: int) -> tuple[bytes, ...]:
    file = settings.webhook[number - 1].secret_file
    if not file:
        return ()
    key = f"webhook.{number}.secret_file"
    secret = _read(settings, key, file)
    try:
        return read_keys(secret.decode("ascii", "replace"))
    except ValueError as error:
        raise problem(settings, key, f"{file} {error}") from None


def authenticates(settings: Settings) -> bool:
    """Return whether callers of the operator API must authenticate."""
    return bool(settings.admin.token_file or socket_path(settings.admin.listen))


def open_doors(settings: Settings) -> Iterator[str]:
    """Yield a warning if every program on this machine is an operator."""
    if not authenticates(settings):
        yield (
            f"the operator API at {settings.admin.listen} needs no token: every user "
            "and program on this machine is an operator. Write the output of "
            "`openssl rand -hex 32` to a file and set [admin] token_file to its name"
        )


def open_files(settings: Settings) -> Iterator[str]:
    """Yield a warning for each secret that all users of this machine can read.

    The store counts as a secret: it has the history of all tenants and the list of
    tokens.
    """
    named = {
        "store.url": str(path_of(settings.store.url) or ""),
        "admin.token_file": settings.admin.token_file,
        "admin.tls_key": settings.admin.tls_key,
        "metadata.signed_secret_file": settings.metadata.signed_secret_file,
        **{
            f"secret_file of webhook {webhook.name}": webhook.secret_file
            for webhook in settings.webhook
        },
        **{
            f"url_file of webhook {webhook.name}": webhook.url_file
            for webhook in settings.webhook
        },
        **{
            f"authorization_file of check {check.name}": check.authorization_file
            for check in settings.check
        },
    }
    for secret, file in named.items():
        try:
            is_open = bool(file) and Path(file).stat().st_mode & stat.S_IROTH
        except OSError:
            # The code that reads the file reports that it is missing.
            continue
        if is_open:
            yield (
                f"{file} ({secret}) can be read by all users of this machine: "
                "set its mode to 600, or to 640 with the service's group"
            )


def _read(settings: Settings, key: str, file: str) -> bytes:
    """Return the content of a secret's file, without surrounding whitespace."""
    try:
        return read_file(Path(file), bytes_max=SECRET_BYTES_MAX).strip()
    except OSError as error:
        raise problem(
            settings, key, f"{file} cannot be read: {error.strerror}"
        ) from error
