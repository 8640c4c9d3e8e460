"""VMs that join and leave a simulated fleet, as changes of its file.

What is, is written as a fleet file; a VM is put in or taken out; and the file is
applied, as an operator would. So what is wrong is found where all fleets are read.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from forewarn.control.requests import fleet_changes
from forewarn.control.transactions.work import Work
from forewarn.fleet import export
from forewarn.fleet.errors import FleetFileError
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import Vm, VmState
from forewarn.fleet.validators import name_fault
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.sim import fleet_text, fleets
from forewarn.sim.fleet_text import Tables
from forewarn.sim.natural import counted
from forewarn.store import kinds
from forewarn.store.port import Reader, every


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVm:
    """A VM that joins; what is empty is chosen."""

    name: str
    host: str = ""
    """Empty: a new host of its own."""
    scope: str = ""
    """Empty: that of the fleet's first VM, or a standalone one in an empty fleet."""
    standalone: bool = False
    """In a scope of its own, whatever `scope` the others have."""
    fault_domain: int | None = None
    """None: the one with the fewest VMs of the scope."""
    spot: bool = False


def in_order(reader: Reader) -> list[Vm]:
    """Return every VM, also deleted ones, as people count: web_2 before web_10."""
    return sorted(every(reader, kinds.ALL_VMS), key=lambda vm: counted(vm.name))


def fleet_now(reader: Reader) -> str:
    """Return the fleet as it is, as a file has it."""
    return fleet_text.write(_tables(reader))


def listeners(reader: Reader) -> Mapping[str, str]:
    """Return every VM, in order, with the listener that its file names."""
    return {vm.name: vm.listen for vm in in_order(reader)}


def add(work: Work, new: NewVm) -> None:
    """Add a VM; raises RefusedError and BadRequestError."""
    if wrong := name_fault(new.name):
        raise BadRequestError(wrong, hint="choose another name")
    known = work.tx.get(Vm, new.name)
    if known is not None:
        if known.state is not VmState.DELETED:
            raise RefusedError(
                f"there is a vm {new.name!r} already", hint="choose another name"
            )
        # Nobody comes back from the dead: it goes, and another of its name comes.
        _apply(work, _tables(work.tx))
    try:
        _apply(work, _with(_tables(work.tx), new))
    except FleetFileError as error:
        # Nobody wrote that file: what is wrong is told without its lines.
        sentences = dict.fromkeys(each.message for each in error.problems)
        raise BadRequestError(
            "; ".join(sentences),
            hint="`forewarn fleet show --all` lists hosts and scopes",
        ) from error


def remove(work: Work, name: str) -> None:
    """Take a VM out; raises NotFoundError and RefusedError."""
    if work.tx.get(Vm, name) is None:
        raise NotFoundError(
            f"there is no vm {name!r}", hint="`forewarn sim vm` lists them"
        )
    tables = _tables(work.tx)
    # One that was deleted is in no file any more.
    tables["vm"].pop(name, None)
    _apply(work, tables)


def _apply(work: Work, tables: Tables) -> None:
    fleet_changes.apply(work, read_fleet(fleet_text.write(tables), name="the fleet"))


def _with(tables: Tables, new: NewVm) -> Tables:
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


def _tables(reader: Reader) -> Tables:
    text = export.export_fleet(
        every(reader, kinds.ALL_TENANTS),
        every(reader, kinds.ALL_SCOPES),
        every(reader, kinds.ALL_HOSTS),
        every(reader, kinds.ALL_VMS),
    )
    return fleet_text.read(text)


def _usual_scope(tables: Tables) -> str:
    scopes = (str(entry.get("scope", "")) for entry in tables["vm"].values())
    return next(filter(None, scopes), "")


def _emptiest(tables: Tables, scope: str) -> int:
    counts: Counter[int] = Counter(
        int(entry.get("fault_domain", 0))
        for entry in tables["vm"].values()
        if entry.get("scope") == scope
    )
    return min(range(fleets.FAULT_DOMAINS), key=lambda domain: (counts[domain], domain))
