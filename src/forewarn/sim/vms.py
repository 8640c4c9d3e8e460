"""Add and remove VMs of a simulated fleet, as changes of its file.

The current fleet is written as a fleet file, a VM is added or removed, and the file is
applied as an operator would apply it. So the reader of fleet files finds all problems.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Work
from forewarn.fleet import export
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import Vm, VmState
from forewarn.fleet.validators import name_fault
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.sim import fleets
from forewarn.store import kinds
from forewarn.store.port import Reader, every


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVm:
    """A VM to add. Defaults are chosen for empty values."""

    name: str
    host: str = ""
    """Empty: a new host."""
    scope: str = ""
    """Empty: the scope of the first VM, or a standalone scope in an empty fleet."""
    standalone: bool = False
    """Use a separate scope, and ignore `scope`."""
    fault_domain: int | None = None
    """None: the fault domain with the fewest VMs of the scope."""
    spot: bool = False


def in_order(reader: Reader) -> list[Vm]:
    """Return every VM, including deleted ones, in natural order: web_2 before web_10."""
    return sorted(every(reader, kinds.ALL_VMS), key=_counted)


def named(reader: Reader, names: Iterable[str]) -> list[Vm]:
    """Return the VMs with some names that exist, in natural order."""
    vms = (reader.get(Vm, name) for name in {*names})
    return sorted((vm for vm in vms if vm is not None), key=_counted)


def _counted(vm: Vm) -> list[tuple[int, str]]:
    return fleets.counted(vm.name)


def fleet_now(reader: Reader) -> str:
    """Return the current fleet as a fleet file."""
    return fleets.write(_tables(reader))


def listeners(reader: Reader) -> Mapping[str, str]:
    """Return every VM, in order, with the listener in its fleet file."""
    return {vm.name: vm.listen for vm in in_order(reader)}


def add(work: Work, new: NewVm) -> None:
    """Add a VM; raises RefusedError and BadRequestError."""
    if wrong := name_fault(new.name):
        raise BadRequestError(wrong, hint="Choose another name.")
    known = work.tx.get(Vm, new.name)
    if known is not None:
        if known.state is not VmState.DELETED:
            raise RefusedError(
                f"VM {new.name!r} already exists", hint="Choose another name."
            )
        # A deleted VM does not come back: remove it, then add a new VM of this name.
        _apply(work, _tables(work.tx))
    try:
        _apply(work, _with(_tables(work.tx), new))
    except FleetFileError as error:
        # The file was generated, so its line numbers would mean nothing to the caller.
        sentences = dict.fromkeys(problem.message for problem in error.problems)
        raise BadRequestError(
            "; ".join(sentences),
            hint="Run `forewarn fleet show --all` to list hosts and scopes.",
        ) from error


def remove(work: Work, name: str) -> None:
    """Remove a VM; raises NotFoundError and RefusedError."""
    if work.tx.get(Vm, name) is None:
        raise NotFoundError(
            f"VM {name!r} does not exist", hint="Run `forewarn sim vm` to list the VMs."
        )
    tables = _tables(work.tx)
    # A deleted VM is no longer in the file.
    tables["vm"].pop(name, None)
    _apply(work, tables)


def _apply(work: Work, tables: fleets.Tables) -> None:
    fleet_changes.apply(work, read_fleet(fleets.write(tables), name="the fleet"))


def _with(tables: fleets.Tables, new: NewVm) -> fleets.Tables:
    scope = "" if new.standalone else new.scope or _usual_scope(tables)
    host = new.host or f"{new.name}-host"
    if not new.host:
        tables["host"].setdefault(host, {"name": host})
    entry: dict[str, object] = {"name": new.name, "host": host}
    if scope:
        entry["scope"] = scope
        entry["fault_domain"] = (
            _emptiest(tables, scope) if new.fault_domain is None else new.fault_domain
        )
    if new.spot:
        entry["spot"] = True
    tables["vm"][new.name] = entry
    return tables


def _tables(reader: Reader) -> fleets.Tables:
    text = export.export_fleet(
        every(reader, kinds.ALL_TENANTS),
        every(reader, kinds.ALL_SCOPES),
        every(reader, kinds.ALL_HOSTS),
        every(reader, kinds.ALL_VMS),
    )
    return fleets.read(text)


def _usual_scope(tables: fleets.Tables) -> str:
    scopes = (str(entry.get("scope", "")) for entry in tables["vm"].values())
    return next(filter(None, scopes), "")


def _emptiest(tables: fleets.Tables, scope: str) -> int:
    counts: Counter[int] = Counter(
        int(entry.get("fault_domain", 0))
        for entry in tables["vm"].values()
        if entry.get("scope") == scope
    )
    return min(range(fleets.FAULT_DOMAINS), key=lambda domain: (counts[domain], domain))
