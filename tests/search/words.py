"""A trace for a person: what happened, and where everything stood then."""

from tests.search.model import Model
from tests.search.state import DOWN, STATES, Label, State, bits
from tests.search.steps import Step

OF_SCOPE = frozenset({"enable", "disable"})
OF_HOST = frozenset({"fail host", "restore host"})
OF_VM = frozenset({"fail vm", "restore vm"})
OF_GROUP = frozenset({"order", "cancel all"})


def tell(model: Model, step: Step) -> str:
    """Return a step, and what is open after it."""
    return f"{told(model, step.label):<44} {standing(model, step.after)}"


def told(model: Model, label: Label) -> str:
    """Return a label in words."""
    what, first, second = label
    if first < 0:
        return what
    if what in OF_SCOPE:
        return f"{what} {model.setting.scopes[first].name}"
    if what in OF_HOST:
        return f"{what} h{first}"
    if what in OF_VM:
        return f"{what} v{first}"
    if what in OF_GROUP:
        names = (model.slots[slot].name for slot in model.group[first])
        return f"{what} {', '.join(names)}"
    if what == "approve":
        who = model.setting.scopes[first].name
        return f"a VM of {who} approves {model.slots[second].name}"
    left = f", down: {[f'v{vm}' for vm in bits(second)]}" if second > 0 else ""
    return f"{what} {model.slots[first].name}{left}"


def standing(model: Model, state: State) -> str:
    """Return where the open operations stand, and what is down."""
    parts = [
        f"{model.slots[slot].name} {STATES[op.state].value}"
        for slot, op in enumerate(state.ops)
        if op is not None
    ]
    parts += [f"v{n} down" for n, vm in enumerate(state.vms) if vm.how == DOWN]
    if state.unpublished:
        parts.append("not published yet")
    return "; ".join(parts)
