"""Check the files that settings name, before anything starts.

`forewarn config check` reports all problems at once. `serve` runs the same checks and
stops at the first problem.
"""

import shlex
import shutil
from collections.abc import Callable, Iterator

from forewarn.admin.tokens import TokenFileError
from forewarn.problems import Problem
from forewarn.service import driver_kinds, secret_files
from forewarn.service.checks.questions import authorization
from forewarn.service.settings import Settings, SettingsError, problem
from forewarn.service.settings_model import CheckSettings
from forewarn.service.tls import authorities, certificate_of
from forewarn.store import kinds
from forewarn.store.open import check_url, place_of
from forewarn.store.port import Reader, Store, StoreError


def check(settings: Settings) -> None:
    """Check everything that `serve` reads before it opens the store.

    Raises SettingsError with all problems. It opens, creates and runs nothing.
    """
    problems: list[Problem] = []
    for look in _looks(settings):
        try:
            look()
        except SettingsError as error:
            problems += error.problems
        except TokenFileError as error:
            origin = settings.origins.get("admin.token_file", "default")
            problems += (
                Problem(file=origin, line=0, key="admin.token_file", message=line)
                for line in error.message.splitlines()
            )
    if problems:
        raise SettingsError(tuple(problems))


def _looks(settings: Settings) -> Iterator[Callable[[], object]]:
    yield lambda: secret_files.read_tokens_of(settings)
    yield lambda: secret_files.read_proxy_secret(settings)
    yield lambda: certificate_of(settings)
    yield lambda: authorities(settings, "cluster", settings.cluster.ca_file)
    yield lambda: _check_store(settings)
    yield from driver_kinds.kind_of(settings).checks_of(settings)
    for number, webhook in enumerate(settings.webhook, start=1):
        yield lambda number=number: secret_files.read_secrets_of(settings, number)
        if webhook.ca_file:
            yield lambda number=number: authorities(
                settings, f"webhook.{number}", settings.webhook[number - 1].ca_file
            )
    yield lambda: _check_inventory(settings)
    for check in settings.check:
        yield lambda check=check: _check_check(settings, check)


def _check_store(settings: Settings) -> None:
    try:
        check_url(settings.store.url)
    except ValueError as error:
        raise problem(settings, "store.url", str(error)) from error


def _check_inventory(settings: Settings) -> None:
    """Check that the program of the inventory exists; it is not run."""
    inventory = settings.inventory
    if inventory.program and shutil.which(inventory.program[0]) is None:
        message = f"there is no program {inventory.program[0]}"
        raise problem(settings, "inventory.program", message)
    if inventory.libvirt:
        driver_kinds.check_module(settings)


def _check_check(settings: Settings, check: CheckSettings) -> None:
    """Check the files and the program of a check; its question is not asked."""
    where = f"check.{check.name}"
    if check.authorization_file:
        try:
            authorization(check.authorization_file)
        except ValueError as error:
            raise problem(
                settings, f"{where}.authorization_file", str(error)
            ) from error
    if check.ca_file:
        authorities(settings, where, check.ca_file)
    if check.program and shutil.which(check.program[0]) is None:
        message = f"there is no program {check.program[0]}"
        raise problem(settings, f"{where}.program", message)


def refuse_empty_store(settings: Settings, store: Store) -> None:
    """Raise StoreError if `store` has no record, but the driver's memory has calls.

    Such a store was lost, truncated or named by mistake. A service that accepted it
    would not know any VM, while programs of an earlier service may still be running.
    Call this before the driver is opened, so that a refused start changes nothing. A
    store in memory is always empty at the start and is accepted.
    """
    place, kind = place_of(settings.store.url), driver_kinds.kind_of(settings)
    if not place or not store.read(_is_empty):
        return
    memory = kind.memory_of(settings)
    if memory is None or not kind.has_calls(memory):
        return
    old, new = shlex.quote(str(memory)), shlex.quote(f"{memory}.old")
    raise StoreError(
        f"the store {place} is empty, but the {settings.driver.kind} driver's memory"
        f" {memory} has calls of an earlier store",
        hint=f"Restore a backup of the store to {place}. If you want to start with an"
        f" empty store, check that no call is still running, then run: mv {old} {new}",
    )


def _is_empty(reader: Reader) -> bool:
    """Return whether a store has no history, operation or fleet.

    Every store that a service has used has one of them: a call needs an operation,
    and a VM needs a host.
    """
    return not (
        reader.select(kinds.ALL_AUDIT, limit=1)
        or reader.select(kinds.ALL_OPERATIONS, limit=1)
        or reader.select(kinds.ALL_HOSTS, limit=1)
        or reader.select(kinds.ALL_SCOPES, limit=1)
        or reader.select(kinds.ALL_TENANTS, limit=1)
    )
