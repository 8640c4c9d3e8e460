"""`store check`, `backup`, `restored` and `copy`: commands without a service."""

import contextlib
import json
from pathlib import Path

from forewarn.cli.command_table import Call, CommandError, Exit
from forewarn.cli.progress import bar
from forewarn.cli.settings import settings_of
from forewarn.cli.stopping import patience
from forewarn.store import backup as backups
from forewarn.store import check as checks
from forewarn.store import copy as copies
from forewarn.store import open as opening
from forewarn.store import restored as restoring
from forewarn.store.port import StoreError
from forewarn.store.postgres.url import place_of
from forewarn.store.snapshot import Source


def check(call: Call) -> int:
    """Check a store, and print every violation."""
    named = call.text("file")
    source = _named(named) if named else _source_of_settings(call)
    if isinstance(source, Path):
        _require_file(source)
    place = _place(source)
    try:
        violations = checks.check(source)
    except StoreError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    if call.flag("json"):
        print(json.dumps({"file": place, "violations": violations}, indent=2))
    else:
        for violation in violations:
            print(violation)
        ending = "" if len(violations) == 1 else "s"
        print(f"{place}: {len(violations) or 'no'} violation{ending}")
    return Exit.FAILED if violations else Exit.DONE


def backup(call: Call) -> int:
    """Copy the store in the settings to a file."""
    source, target = _source_of_settings(call), Path(call.text("file"))
    if isinstance(source, Path):
        try:
            size = backups.backup(source, target)
        except StoreError as error:
            raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    else:
        _copied(source, target)
        size = target.stat().st_size
    if call.flag("json"):
        result = {"file": str(target), "of": _place(source), "bytes": size}
        print(json.dumps(result, indent=2))
    else:
        print(f"{target} is a complete copy of {_place(source)}, {size} bytes")
    return Exit.DONE


def restored(call: Call) -> int:
    """Begin a restored store above all that was served from the lost one."""
    named = call.text("file")
    source = _named(named) if named else _source_of_settings(call)
    if isinstance(source, Path):
        _require_file(source)
    url = f"sqlite:///{source}" if isinstance(source, Path) else source
    try:
        with contextlib.closing(opening.open_store(url)) as store:
            views = restoring.note(store)
    except StoreError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error
    if call.flag("json"):
        print(json.dumps({"file": _place(source), "views": views}, indent=2))
    else:
        print(
            f"{_place(source)} begins above all that was served: {views:,} views. "
            "Relays follow it after the start of the service"
        )
    return Exit.DONE


def copy(call: Call) -> int:
    """Copy a store to an empty one."""
    source, target = _named(call.text("from")), _named(call.text("to"))
    if isinstance(source, Path):
        _require_file(source)
    tables = _copied(source, target)
    rows = sum(table.rows for table in tables)
    if call.flag("json"):
        result = {
            "from": _place(source),
            "to": _place(target),
            "rows": rows,
            "tables": {
                table.name: {"rows": table.rows, "digest": table.digest}
                for table in tables
            },
        }
        print(json.dumps(result, indent=2))
    else:
        print(f"{_place(target)} is a verified copy of {_place(source)}, {rows:,} rows")
    return Exit.DONE


def _copied(source: Source, target: Source) -> tuple[copies.TableCopy, ...]:
    so_far = {"part": "waiting", "done": 0, "of": 0}

    def tell(part: str, done: int, of: int) -> None:
        so_far.update(part=part, done=done, of=of)

    try:
        with patience("copying the store", lambda: bar(so_far)):
            return copies.copy(source, target, tell)
    except StoreError as error:
        raise CommandError(Exit.FAILED, error.message, hint=error.hint) from error


def _named(text: str) -> Source:
    """Return the store that a word names: by the path of its file, or by its URL."""
    if "://" not in text:
        return Path(text)
    try:
        opening.check_url(text)
    except ValueError as error:
        raise CommandError(Exit.USAGE, str(error)) from error
    source = opening.source_of(text)
    if source is None:
        raise CommandError(
            Exit.USAGE,
            f"a store in memory ({text}) belongs to its process alone",
            hint="Name a file, sqlite:///PATH or postgresql://…",
        )
    return source


def _require_file(file: Path) -> None:
    if file.is_dir():
        raise CommandError(Exit.USAGE, f"{file} is a directory; name a file in it")
    if not file.is_file():
        raise CommandError(Exit.USAGE, f"there is no file {file}")


def _place(source: Source) -> str:
    """Return the name of a store in messages."""
    return str(source) if isinstance(source, Path) else place_of(source)


def _source_of_settings(call: Call) -> Source:
    settings = settings_of(call)
    source = opening.source_of(settings.store.url)
    if source is None:
        origin = settings.origins.get("store.url", "default")
        raise CommandError(
            Exit.USAGE,
            f"the store in these settings is not a file or a database ({origin})",
            hint="Use --config with a file whose [store] url is sqlite:///PATH or"
            " postgresql://….",
        )
    return source
