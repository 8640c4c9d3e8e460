"""The player of faults for one simulated server.

It decides which fault hits the next request of a VM. There is no randomness: the same
requests get the same faults. Each VM has its own position in a playbook, so the requests
of one VM never change the faults of another. It is used on the event loop of the server.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from forewarn.instants import SECOND, Micros
from forewarn.metadata.http import Request, Response
from forewarn.metadata.interceptor import Pace, Plan
from forewarn.problems import Problem, did_you_mean, quoted
from forewarn.protocol.errors import NotFoundError, RefusedError
from forewarn.sim.faults import bodies, syntax
from forewarn.sim.faults.fault import Fault, FaultFileError, Playbook, Where

RULES_MAX = 1_000
"""Maximum number of playbooks, because each request checks them in order."""

ENDED_KEPT = 20
"""Number of playbooks from which the player removes ended ones from the list."""

SERVED_MAX = 1_000
"""Maximum number of request kinds (VM and query) with stored documents. A program has one
or two."""

_WHOLE = 1 << 62
"""More bytes than any answer, so that the cut is in its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan(Plan):
    """A plan with its fault."""

    fault: Fault
    is_new: bool = False
    """Whether this is the first hit of the fault in this step."""


@dataclass(slots=True)
class _Position:
    """The position of one VM in a playbook."""

    began: Micros
    """The start of the current step."""
    step: int = 0
    played: int = 0
    """Number of hits of the current step."""
    skips: bool = False
    """Whether the next request is not hit, for a fault that hits every other
    request."""


@dataclass(slots=True)
class Rule:
    """A playbook with the positions of VMs."""

    name: str
    playbook: Playbook
    since: Micros
    spared: set[str] = field(default_factory=set[str])
    """VMs for which the playbook was cleared."""
    positions: dict[str, _Position] = field(default_factory=dict[str, _Position])
    played: int = 0
    """Number of hits so far."""

    @property
    def steps(self) -> list[str]:
        """Return the playbook's faults in their syntax."""
        return [syntax.words(step) for step in self.playbook.steps]

    @property
    def has_ended(self) -> bool:
        """Return whether every VM that the playbook names has had its last step."""
        last, vms = len(self.playbook.steps), self.playbook.vms
        return (
            bool(vms)
            and not self.playbook.loops
            and all(
                vm in self.positions and self.positions[vm].step == last for vm in vms
            )
        )

    def applies_to(self, vm: str) -> bool:
        """Return whether the playbook applies to a VM."""
        vms = self.playbook.vms
        return vm not in self.spared and (not vms or vm in vms)

    def next_fault(
        self, vm: str, request: Request | None, now: Micros
    ) -> tuple[Fault, bool] | None:
        """Return the fault that hits a request, and whether it is its first hit."""
        position = self.positions.get(vm)
        if position is None:
            position = self.positions[vm] = _Position(began=self.since)
        fault = self._current_step(position, now)
        if fault is None or now < position.began + fault.after:
            return None
        if not fault.fits(request):
            return None
        if position.skips:
            position.skips = False
            return None
        position.skips = fault.flapping
        position.played += 1
        is_first = position.played == 1
        if fault.times is not None and position.played >= fault.times:
            _begin_next_step(position, now)
        self.played += fault.kind != "ok"
        return fault, is_first

    def _current_step(self, position: _Position, now: Micros) -> Fault | None:
        """Return the current step, after skipping ended ones."""
        steps = self.playbook.steps
        for _ in range(len(steps) + 1):
            if position.step == len(steps):
                if not self.playbook.loops:
                    return None
                position.step = 0
            fault = steps[position.step]
            if fault.lasts is None:
                return fault
            end = position.began + fault.after + fault.lasts
            if now < end:
                return fault
            _begin_next_step(position, end)
        # The clock jumped over complete rounds: restart the playbook.
        position.began, position.step = now, 0
        return steps[0] if self.playbook.loops else None


def _begin_next_step(position: _Position, now: Micros) -> None:
    position.step += 1
    position.began = now
    position.played = 0
    position.skips = False


class Player:
    """The faults of one simulated server."""

    def __init__(
        self, *, now: Callable[[], Micros], vms: Collection[str] | None = None
    ) -> None:
        """Start without faults; `now` returns the model time.

        If `vms` is given, faults can only name these VMs. It may change.
        """
        self._now = now
        self._vms = vms
        self._rules: list[Rule] = []
        self._named = 0
        self._served: dict[tuple[str, str], list[Response]] = {}
        """The latest documents of each VM and query, the current one last."""
        self._stuck: dict[tuple[str, str], Response] = {}
        self.played: Counter[tuple[str, str]] = Counter()
        """Number of hits by VM and kind of fault."""

    @property
    def is_idle(self) -> bool:
        """Return whether there are no faults."""
        return not self._rules

    # Setting

    def set(self, vm: str, faults: str | Fault | Playbook) -> str:
        """Replace the faults of a VM; empty: of all VMs. Return the name of the playbook.

        `faults` is a line such as `500 x2` or `500, timeout, ok`. A single fault without a
        count or a duration lasts until it is cleared. Raises FaultError, and
        NotFoundError for an unknown VM; then the faults do not change.
        """
        if isinstance(faults, str):
            faults = syntax.parse_playbook(faults)
        if isinstance(faults, Fault):
            faults = Playbook(steps=(faults,))
        self.clear(vm)
        return self.play(replace(faults, vms=(vm,) if vm else ()))

    def play(self, playbook: Playbook | Sequence[str], *, loops: bool = False) -> str:
        """Add a playbook after the existing ones; return its name.

        A list of lines is a playbook for every VM. If several playbooks match a request,
        the first one is used. Raises the errors of `set`.
        """
        if not isinstance(playbook, Playbook):
            lines = [playbook] if isinstance(playbook, str) else playbook
            playbook = syntax.playbook(lines, loops=loops)
        self._check(playbook.vms)
        if len(self._rules) >= ENDED_KEPT:
            self._rules = [rule for rule in self._rules if not rule.has_ended]
        if len(self._rules) >= RULES_MAX:
            raise RefusedError(
                f"there are already {RULES_MAX} playbooks", hint="Clear some of them."
            )
        self._named += 1
        name = f"fault-{self._named}"
        self._rules.append(Rule(name=name, playbook=playbook, since=self._now()))
        return name

    def play_file(self, playbooks: Iterable[Playbook]) -> None:
        """Add the playbooks of a file after the existing ones.

        Raises FaultFileError with the place of each unknown VM; then nothing is added.
        Raises RefusedError like `play`.
        """
        playbooks = tuple(playbooks)
        problems = [
            Problem(
                file=playbook.file, line=playbook.line, key="fault.vm", message=wrong
            )
            for playbook in playbooks
            for vm in playbook.vms
            if (wrong := self._missing(vm))
        ]
        if problems:
            raise FaultFileError(problems)
        for playbook in playbooks:
            self.play(playbook)

    def clear(self, vm: str = "") -> None:
        """Clear the faults of a VM; empty: of all VMs. Raises NotFoundError."""
        if not vm:
            self._rules = []
            self._stuck.clear()
            return
        self._check([vm])
        for rule in self._rules:
            rule.spared.add(vm)
        self._rules = [
            rule
            for rule in self._rules
            if not (rule.playbook.vms and rule.spared.issuperset(rule.playbook.vms))
        ]
        for key in [key for key in self._stuck if key[0] == vm]:
            del self._stuck[key]

    def listing(self) -> tuple[Rule, ...]:
        """Return the playbooks, in the order in which they are checked."""
        return tuple(self._rules)

    def counts(self, vm: str = "") -> dict[str, int]:
        """Return the number of hits by kind, for a VM; empty: for all VMs."""
        hits: Counter[str] = Counter()
        for (name, kind), times in self.played.items():
            if not vm or name == vm:
                hits[kind] += times
        return dict(hits)

    # Playing

    def connect(self, vm: str) -> Fault | None:
        """Return the fault of a new connection, which can only be `refuse`."""
        hit = self._next_fault(vm, None) if self._rules else None
        return None if hit is None else hit[0]

    def take(self, vm: str, request: Request) -> FaultPlan | None:
        """Return the plan for a request, or None."""
        hit = self._next_fault(vm, request) if self._rules and vm else None
        return None if hit is None else _plan(*hit)

    def answer(
        self,
        vm: str,
        request: Request,
        plan: FaultPlan | None,
        genuine: Response | None,
    ) -> Response | None:
        """Return the answer to send; see `Interceptor.answer`."""
        known: Sequence[Response] = ()
        if (
            genuine is not None
            and genuine.status == 200  # noqa: PLR2004
            and request.method == "GET"
            and Where.EVENTS.has(request.path)
        ):
            known = [*self._served.get((vm, request.query), ())] if plan else ()
            self._remember((vm, request.query), genuine)
        if plan is None:
            return genuine
        fault = plan.fault
        match fault.kind:
            case "timeout" | "refuse":
                return None
            case "delay" | "slow" | "reset":
                return genuine
            case "stale":
                earlier = self._served.get((vm, request.query), [])[:-1]
                return bodies.faulty(fault, genuine, earlier=earlier)
            case "stuck":
                key = (vm, request.query)
                if known and (plan.is_new or key not in self._stuck):
                    self._stuck[key] = known[-1]
                stuck = self._stuck.get(key)
                return bodies.faulty(fault, genuine, earlier=[stuck] if stuck else ())
            case _:
                return bodies.faulty(fault, genuine)

    def _remember(self, key: tuple[str, str], document: Response) -> None:
        """Store a genuine document, unless it equals the last one."""
        if key not in self._served and len(self._served) >= SERVED_MAX:
            del self._served[next(iter(self._served))]
        known = self._served.setdefault(key, [])
        if not known or known[-1].payload != document.payload:
            known.append(document)
            del known[: -syntax.BACK_MAX - 1]

    def _next_fault(
        self, vm: str, request: Request | None
    ) -> tuple[Fault, bool] | None:
        now = self._now()
        for rule in self._rules:
            if not rule.applies_to(vm):
                continue
            hit = rule.next_fault(vm, request, now)
            if hit is not None:
                fault, _ = hit
                if fault.kind == "ok":
                    return None
                self.played[vm, fault.kind] += 1
                return hit
        return None

    def _check(self, vms: Iterable[str]) -> None:
        for vm in vms:
            if wrong := self._missing(vm):
                raise NotFoundError(wrong, hint="Use the name of a VM in the fleet.")

    def _missing(self, vm: str) -> str:
        """Return the message for an unknown VM; empty: the VM exists."""
        known = self._vms
        if known is None or vm in known:
            return ""
        return f"VM {quoted(vm)} does not exist{did_you_mean(vm, known)}"


def _plan(fault: Fault, is_new: bool) -> FaultPlan:  # noqa: FBT001
    cuts = {"refuse": 0, "reset": _WHOLE if fault.size is None else fault.size}
    pace = None
    if fault.kind == "slow":
        assert fault.size, "slow has a size"
        pace = Pace(size=fault.size, seconds=fault.pause / SECOND)
    return FaultPlan(
        fault=fault,
        is_new=is_new,
        arrives=fault.arrives,
        in_full=fault.needs_document,
        delay_seconds=fault.delay / SECOND,
        pace=pace,
        cut_after=cuts.get(fault.kind),
    )
