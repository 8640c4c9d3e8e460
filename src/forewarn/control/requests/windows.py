"""Set and clear the maintenance windows of scopes.

The windows are part of the scope, so a fleet file and a tenant set the same value, and the
merge of the next file keeps a tenant's windows unless the file changes its own.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Scope
from forewarn.fleet.window_fields import WINDOWS_MAX, line_of, window_of
from forewarn.fleet.windows import Window
from forewarn.protocol.errors import RefusedError
from forewarn.store.records import AuditKind, Facts


def windows_of(lines: Sequence[str]) -> tuple[Window, ...]:
    """Return the windows of some lines; raises RefusedError."""
    if len(lines) > WINDOWS_MAX:
        raise RefusedError(
            f"a scope has at most {WINDOWS_MAX} windows, not {len(lines)}",
            hint="Use one window for several days.",
        )
    windows: list[Window] = []
    for line in lines:
        try:
            windows.append(window_of(line))
        except ValueError as error:
            raise RefusedError(
                f"{line!r} is not a window: {error}",
                hint="Write it like 'sat,sun 02:00 4h Europe/Berlin'.",
            ) from error
    return tuple(windows)


def set_windows(work: Work, name: str, windows: tuple[Window, ...]) -> Scope:
    """Set the windows of a scope, and check the operations that wait for them.

    If the scope has these windows, nothing happens.
    """
    scope = work.scope(name)
    if windows == scope.maintenance_window:
        return scope
    text = "; ".join(map(line_of, windows))
    return _save(work, scope, windows, AuditKind.WINDOW_SET, text)


def clear_windows(work: Work, name: str) -> Scope:
    """Remove the windows of a scope; raises RefusedError if it has none."""
    scope = work.scope(name)
    if not scope.maintenance_window:
        raise RefusedError(
            f"scope {name} has no maintenance window",
            hint=f"Run `forewarn window show {name}` to see its windows.",
        )
    return _save(work, scope, (), AuditKind.WINDOW_CLEARED, "")


def _save(
    work: Work, scope: Scope, windows: tuple[Window, ...], kind: AuditKind, told: str
) -> Scope:
    work.lock_scopes([scope.name])
    work.note(kind, (f"scope:{scope.name}", f"tenant:{scope.tenant}"), Facts(text=told))
    work.free_window(scope.name)
    return work.tx.replace(scope, replace(scope, maintenance_window=windows))
