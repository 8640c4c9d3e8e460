"""The world's side of a walk: each step as operators, VMs and drivers take it."""

import random
from collections.abc import Callable, Generator
from contextlib import contextmanager

from forewarn.control.requests import (
    again,
    due_steps,
    enabling,
    failures,
    followups,
    outcome,
    verbs,
)
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.batch import Step
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Verdict
from forewarn.instants import DAY, MINUTE, Micros
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.notes import Said
from forewarn.protocol.operations import Operation, Verb
from forewarn.store.memory import MemoryStore
from tests.search.clocks import CLOCK_LABELS
from tests.search.hand import HandDriver
from tests.search.model import Model
from tests.search.settings import Setting
from tests.search.state import GONE, Label, bits
from tests.support.worlds import CrashError, World

NEVER = 1000 * DAY
RESTARTED = ""
"""Among those whom the service looks at: here it crashed and began again."""


class KeptStore(MemoryStore):
    """A store in memory that outlives the service, as a file would."""

    def close(self) -> None:
        pass


def fleet_text(setting: Setting) -> str:
    """Return the fleet file of a small world."""
    lines = [f'[[tenant]]\nname = "{scope.tenant}"' for scope in setting.scopes]
    lines += [f'[[host]]\nname = "h{host}"' for host in range(setting.hosts)]
    for scope in setting.scopes:
        lines.append(
            f'[[scope]]\nname = "{scope.name}"\ntenant = "{scope.tenant}"\n'
            'kind = "availability-set"'
            + ('\nterminate_notice = "5m"' if scope.terminate else "")
        )
    lines += [
        f'[[vm]]\nname = "{vm.name}"\nhost = "h{vm.host}"\n'
        f'scope = "{setting.scopes[vm.scope].name}"\nfault_domain = {vm.fault_domain}'
        for vm in setting.vms
    ]
    return "\n".join(lines) + "\n"


def policy_of(setting: Setting) -> Policy:
    """Return the policy of a small world: a tick is a minute."""
    notice = setting.notice * MINUTE
    return Policy(
        freeze_notice=notice,
        reboot_notice=notice,
        redeploy_notice=notice,
        terminate_notice=notice,
        recovery=setting.recovery * MINUTE,
        hold_max=setting.hold * MINUTE if setting.hold else NEVER,
        disable_after=NEVER,
        driver_timeout=NEVER,
        driver_attempts=setting.attempts,
        retry_delay=MINUTE,
        retention=NEVER,
    )


class Side:
    """A world that takes steps."""

    def __init__(self, model: Model, seed: int) -> None:
        self.model = model
        self.random = random.Random(seed)
        self.driver = HandDriver()
        store = KeptStore()
        self.world = World(
            store=lambda: store,
            driver=self.driver,
            fleet=fleet_text(model.setting),
            policy=policy_of(model.setting),
            seed=seed,
        )
        self.state = model.first()._replace(listening=0)
        """The state of the model."""
        self.operations: dict[str, Operation] = {}
        """The open operations by the names of their slots."""
        self.crashes = 0
        self.until: Micros = 0
        """The end of the last tick, which a crash may have cut short."""
        self.looks: list[tuple[str, bool]] = []
        """The effects of the last step: operations, and whether their timers fired."""

    @contextmanager
    def recorded(self) -> Generator[None]:
        """Record whom the service looks at, and whose timers fire, in their order."""
        looks = self.looks = []
        look, fire = followups._recheck, due_steps._if_unchanged

        def recheck(operation_id: str) -> Step:
            def decide(work: Work) -> object:
                looks.append((operation_id, False))
                return look(operation_id)(work)

            return decide

        def if_unchanged(
            operation: Operation, decide: Callable[[Work, str], object], work: Work
        ) -> None:
            # An operation that an earlier decision has changed waits for its next timer.
            if work.tx.get(Operation, operation.key) == operation:
                looks.append((operation.operation_id, True))
                if decide is again.recheck:
                    looks.append((operation.operation_id, False))
            fire(operation, decide, work)

        followups._recheck, due_steps._if_unchanged = recheck, if_unchanged
        try:
            yield
        finally:
            followups._recheck, due_steps._if_unchanged = look, fire

    def in_world(self, label: Label, *, crash: bool) -> bool | None:
        """Take a step in the world; return whether it crashed; None: it refused."""
        with self.recorded():
            return self._in_world(label, crash=crash)

    def _in_world(self, label: Label, *, crash: bool) -> bool | None:
        if crash:
            place = self.random.choice(("committed", "published", "called"))
            last = self.world.passed[place] + self.random.choice((1, 1, 2, 3))
            self.world.crash_at = lambda at, count: (at, count) == (place, last)
        try:
            self.act(label)
        except RefusedError:
            return None
        except CrashError:
            self.crashes += 1
            self.looks.append((RESTARTED, False))
            self.world.restart()
            return True
        finally:
            self.world.crash_at = lambda _place, _count: False
        return False

    def act(self, label: Label) -> None:
        """Have the world do what the label says; raises RefusedError, CrashError."""
        what, first, second = label
        if what == "tick":
            self.until = self.world.now + MINUTE
            self.world.advance(MINUTE)
        elif what in {"approve", "enable"}:
            self.as_vm(what, first, second)
        elif what in {"done", "failed"}:
            verdict = Verdict.DONE if what == "done" else Verdict.FAILED
            down = self.names(second) if what == "failed" else []
            self.driver.end(self.id_of(first), verdict, down)
            self.world.settle()
        elif what == "lose sight":
            self.driver.forget(self.id_of(first))
            self.world.restart()
        elif what in CLOCK_LABELS:
            self.set_clock(what)
        else:
            self.world.order(self.decision(label))

    def set_clock(self, what: str) -> None:
        """Set the wall clock, while the service runs or is down; or only restart."""
        ahead = what.endswith("forward") - what.endswith("back")
        by = ahead * self.model.setting.clock_step * MINUTE
        self.until += by
        if what.startswith("restart"):
            self.world.clock.step(by)
            self.world.restart()
            self.world.settle()
        else:
            self.world.step_clock(by)

    def as_vm(self, what: str, scope: int, slot: int) -> None:
        """Ask as any VM of a scope that is left; raises RefusedError for a 400."""
        left = [
            vm
            for vm in bits(self.model.members[scope])
            if self.state.vms[vm].how != GONE
        ]
        if not left or (what == "enable" and self.state.listening >> scope & 1):
            raise RefusedError("there is no VM that could ask for it")
        vm = self.world.vm(self.names(1 << self.random.choice(left))[0])
        if what == "enable":
            assert vm.get().status == 200
            return
        # Every VM of a tenant may guess the ids of the others' events.
        operation = self.id_of(slot)
        scope_name = self.model.setting.scopes[scope].name
        events = [e for e in self.world.live_events() if e.operation == operation]
        events.sort(key=lambda event: event.scope != scope_name)
        status = vm.approve(events[0].event_id).status if events else 400
        if status != 200:
            raise RefusedError("the approval was refused")

    def decision(self, label: Label) -> Callable[[Work], object]:
        """Return an order as the operator gives it."""
        what, first, second = label
        host, names = f"h{first}", [vm.name for vm in self.model.setting.vms]
        now = self.world.now
        if what == "order":
            return self.verb(first)
        if what in {"resolve done", "resolve failed"}:
            operation = self.id_of(first)
            down = tuple(self.names(second)) if what == "resolve failed" else ()
            done = what == "resolve done"
            return lambda work: outcome.resolve(work, operation, done=done, down=down)
        if what in {"cancel", "cancel all"}:
            name = self.id_of(first) if what == "cancel" else self.request_of(first)
            return lambda work: verbs.cancel(work, name, note=Said(text=""))
        if what == "disable":
            key = self.model.setting.scopes[first].name
            return lambda work: enabling.disable_if_silent(work, key, silent_since=now)
        return {
            "fail host": lambda work: failures.fail_host(work, host),
            "restore host": lambda work: failures.restore_host(work, host),
            "fail vm": lambda work: failures.fail_vm(work, names[first]),
            "restore vm": lambda work: failures.restore_vm(work, names[first]),
        }[what]

    def verb(self, group: int) -> Callable[[Work], object]:
        """Return the order of a group's operations."""
        slots = [self.model.slots[slot] for slot in self.model.group[group]]
        names = [
            f"h{slot.target}"
            if slot.verb is Verb.MAINTAIN
            else self.model.setting.vms[slot.target].name
            for slot in slots
        ]
        verb, action, wishes = slots[0].verb, slots[0].action, verbs.OrderOptions()
        if verb is Verb.MAINTAIN:
            return lambda work: verbs.maintain(work, names, action, wishes)
        if verb is Verb.TERMINATE:
            return lambda work: verbs.change_vms(work, names, Verb.TERMINATE, wishes)
        return lambda work: verbs.change_vms(work, names, verb, wishes)

    def names(self, vms: int) -> list[str]:
        """Return the names of VMs."""
        return [self.model.setting.vms[vm].name for vm in bits(max(vms, 0))]

    def id_of(self, slot: int) -> str:
        """Return the id of the operation that is open in a slot."""
        return self.operations[self.model.slots[slot].name].operation_id

    def request_of(self, group: int) -> str:
        """Return the id of the request that is open in a group."""
        return next(
            self.operations[name].request
            for slot in self.model.group[group]
            if (name := self.model.slots[slot].name) in self.operations
        )
