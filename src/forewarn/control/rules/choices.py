"""Read which choices of tenants count for the VMs of an operation. This module only reads."""

from collections.abc import Sequence

from forewarn.fleet.model import Vm
from forewarn.protocol.operations import Request
from forewarn.store.port import Reader
from forewarn.store.records import Choice, choice_key


def of_request(reader: Reader, request_id: str, vms: Sequence[Vm]) -> list[Choice]:
    """Return the choices that count for these VMs in a request, each once.

    The latest choice counts: that for the VM, or that for its scope.
    """
    request = reader.get(Request, request_id)
    if request is None or not request.has_choices:
        return []
    newest: dict[str, Choice] = {}
    for vm in vms:
        keys = (
            choice_key(request_id, vm.scope),
            choice_key(request_id, vm.scope, vm.name),
        )
        choices = [
            found_choice
            for key in keys
            if (found_choice := reader.get(Choice, key)) is not None
        ]
        # Of two choices of one transaction, that for the VM counts.
        if choices:
            latest = max(choices, key=lambda choice: (choice.at, choice.vm))
            newest[latest.choice_id] = latest
    return list(newest.values())
