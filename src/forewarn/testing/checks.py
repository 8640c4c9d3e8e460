"""Black-box checks: does the endpoint at a URL keep sections 1 to 4?

They ask as a VM would and look at nothing but answers, so they fit any server
that promises the protocol. They are read-only, except those that say that they
approve. Nothing but the standard library and the tables of `protocol` is used.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from forewarn.testing import (
    approval_checks,
    document_checks,
    life_checks,
    request_checks,
)
from forewarn.testing.client import Client
from forewarn.testing.expect import (
    Check,
    CheckFailedError,
    NotCheckableError,
    target,
)

CHECKS: tuple[Check, ...] = (
    *request_checks.CHECKS,
    *document_checks.CHECKS,
    *approval_checks.CHECKS,
)
"""Every check that asks, in the order of the clauses."""

LIFE_CHECKS = life_checks.CHECKS
"""Those that judge what was shown over time: run them last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of a check."""

    check: Check
    passed: bool
    note: str = ""
    """Why it failed, or could not be made; empty if it passed."""
    skipped: bool = False


def checks_of(clause: str) -> tuple[Check, ...]:
    """Return the checks of a clause."""
    return tuple(check for check in CHECKS if check.clause == clause)


def run_checks(
    client: Client, checks: Iterable[Check] = CHECKS, *, approve: bool = False
) -> Iterator[Result]:
    """Run the checks, one after the other; those that approve only if told to.

    A request that has no answer breaks the clause that it asks about, as long as
    there is one to the next plain GET. Raises OSError if the endpoint cannot be
    reached, or does not speak HTTP.
    """
    for check in checks:
        if check.approves and not approve:
            note = "it approves events, which was not asked for"
            yield Result(check=check, passed=False, skipped=True, note=note)
            continue
        try:
            check.run(client)
        except OSError as error:
            # Whoever answers nobody is raised from here.
            client.ask("GET", target())
            note = f"there was no answer to a request: {error}"
            yield Result(check=check, passed=False, note=note)
        except CheckFailedError as failure:
            yield Result(check=check, passed=False, note=str(failure))
        except NotCheckableError as reason:
            yield Result(check=check, passed=False, skipped=True, note=str(reason))
        except (AttributeError, KeyError, LookupError, TypeError) as error:
            # An answer so strange that the check stumbled over it.
            note = f"the answer has not the right form: {error!r}"
            yield Result(check=check, passed=False, note=note)
        else:
            yield Result(check=check, passed=True)
