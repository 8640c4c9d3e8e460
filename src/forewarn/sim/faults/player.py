"""Plays faults for one stage: which one befalls the next request of which VM.

There is no chance in it: the same requests meet the same faults. Each VM goes
through a playbook by itself, so what one does never changes what another meets.
It is used on the stage's loop.
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
from forewarn.sim.faults.errors import FaultFileError
from forewarn.sim.faults.fault import Fault, Playbook, Where

RULES_MAX = 1_000
"""Playbooks at once: each request asks them in turn."""

OVER_KEPT = 20
"""Playbooks at which those that are over are let go; until then they are listed."""

SERVED_MAX = 1_000
"""Kinds of request (VM and query) whose documents are remembered; a program sends
one or two."""

_WHOLE = 1 << 62
"""More bytes than an answer has: so the cut is in its middle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan(Plan):
    """A plan, and the fault that it carries out."""

    fault: Fault
    is_new: bool = False
    """It is the first request that this turn of the fault hits."""


@dataclass(slots=True)
class _Position:
    """How far one VM is in a playbook."""

    began: Micros
    """When the turn of the present step came."""
    step: int = 0
    played: int = 0
    """Requests that the present step hit."""
    skips: bool = False
    """Flapping: the next request is answered as ever."""


@dataclass(slots=True)
class Rule:
    """A playbook that is set."""

    name: str
    playbook: Playbook
    since: Micros
    spared: set[str] = field(default_factory=set[str])
    """VMs for which it was cleared."""
    positions: dict[str, _Position] = field(default_factory=dict[str, _Position])
    played: int = 0
    """Requests that it hit so far."""

    @property
    def steps(self) -> list[str]:
        """Return its faults, each as one writes it."""
        return [syntax.words(step) for step in self.playbook.steps]

    @property
    def is_over(self) -> bool:
        """Tell whether every VM that it names has gone through it."""
        ends, vms = len(self.playbook.steps), self.playbook.vms
        return (
            bool(vms)
            and not self.playbook.loops
            and all(
                vm in self.positions and self.positions[vm].step == ends for vm in vms
            )
        )

    def concerns(self, vm: str) -> bool:
        """Tell whether it is for a VM."""
        vms = self.playbook.vms
        return vm not in self.spared and (not vms or vm in vms)

    def meets(
        self, vm: str, request: Request | None, now: Micros
    ) -> tuple[Fault, bool] | None:
        """Return the fault that hits a request, and whether it is its first."""
        position = self.positions.get(vm)
        if position is None:
            position = self.positions[vm] = _Position(began=self.since)
        fault = self._turn(position, now)
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
            _go_on(position, now)
        self.played += fault.kind != "ok"
        return fault, is_first

    def _turn(self, position: _Position, now: Micros) -> Fault | None:
        """Return the step whose turn it is; steps that are over are passed by."""
        steps = self.playbook.steps
        for _ in range(len(steps) + 1):
            if position.step == len(steps):
                if not self.playbook.loops:
                    return None
                position.step = 0
            fault = steps[position.step]
            if fault.lasts is None:
                return fault
            over = position.began + fault.after + fault.lasts
            if now < over:
                return fault
            _go_on(position, over)
        # The clock jumped over whole rounds: which turn it is says nobody.
        position.began, position.step = now, 0
        return steps[0] if self.playbook.loops else None


def _go_on(position: _Position, now: Micros) -> None:
    position.step += 1
    position.began = now
    position.played = 0
    position.skips = False


class Player:
    """The faults of one stage."""

    def __init__(
        self, *, now: Callable[[], Micros], vms: Collection[str] | None = None
    ) -> None:
        """Play nothing yet; `now` is the model time.

        With `vms`, which may change, only those can be named.
        """
        self._now = now
        self._vms = vms
        self._rules: list[Rule] = []
        self._named = 0
        self._served: dict[tuple[str, str], list[Response]] = {}
        """The last few documents of each VM and query, the present one last."""
        self._stuck: dict[tuple[str, str], Response] = {}
        self.played: Counter[tuple[str, str]] = Counter()
        """How often a VM met a kind of fault."""

    @property
    def is_idle(self) -> bool:
        """Tell whether nothing is set."""
        return not self._rules

    # Setting

    def set(self, vm: str, what: str | Fault | Playbook) -> str:
        """Play this, and nothing else, for a VM; empty: for all. Return its name.

        `what` is a line such as `500 x2` or `500, timeout, ok`: one fault alone lasts
        until it is cleared, if it does not say otherwise. Raises FaultError, and
        NotFoundError for a VM that is not there; then what was set stays.
        """
        if isinstance(what, str):
            what = syntax.parse_playbook(what)
        if isinstance(what, Fault):
            what = Playbook(steps=(what,))
        self.clear(vm)
        return self.play(replace(what, vms=(vm,) if vm else ()))

    def play(self, what: Playbook | Sequence[str], *, loops: bool = False) -> str:
        """Play from now on, after what is set already; return a name for it.

        Lines, as the steps of a playbook, are for every VM. Of several playbooks
        that fit a request, the first that was set has its way. Raises as `set`.
        """
        if not isinstance(what, Playbook):
            lines = [what] if isinstance(what, str) else what
            what = syntax.playbook(lines, loops=loops)
        self._check(what.vms)
        if len(self._rules) >= OVER_KEPT:
            self._rules = [rule for rule in self._rules if not rule.is_over]
        if len(self._rules) >= RULES_MAX:
            raise RefusedError(
                f"{RULES_MAX} playbooks are set already", hint="clear some of them"
            )
        self._named += 1
        name = f"fault-{self._named}"
        self._rules.append(Rule(name=name, playbook=what, since=self._now()))
        return name

    def play_file(self, playbooks: Iterable[Playbook]) -> None:
        """Play what a file says, after what is set already.

        Raises FaultFileError with the place of each VM that is not there; then
        nothing is played. Raises RefusedError as `play`.
        """
        found = tuple(playbooks)
        problems = [
            Problem(file=each.file, line=each.line, key="fault.vm", message=wrong)
            for each in found
            for vm in each.vms
            if (wrong := self._missing(vm))
        ]
        if problems:
            raise FaultFileError(problems)
        for playbook in found:
            self.play(playbook)

    def clear(self, vm: str = "") -> None:
        """Play nothing more for a VM; empty: for all. Raises NotFoundError."""
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
        """Return what is set, in the order in which it is asked."""
        return tuple(self._rules)

    def counts(self, vm: str = "") -> dict[str, int]:
        """Return how often each kind of fault was played; empty: for all VMs."""
        found: Counter[str] = Counter()
        for (name, kind), times in self.played.items():
            if not vm or name == vm:
                found[kind] += times
        return dict(found)

    # Playing

    def connect(self, vm: str) -> Fault | None:
        """Return the fault that a new connection meets: only `refuse` does."""
        found = self._meet(vm, None) if self._rules else None
        return None if found is None else found[0]

    def take(self, vm: str, request: Request) -> FaultPlan | None:
        """Return what befalls a request; None: nothing."""
        found = self._meet(vm, request) if self._rules and vm else None
        return None if found is None else _plan(*found)

    def answer(
        self,
        vm: str,
        request: Request,
        plan: FaultPlan | None,
        genuine: Response | None,
    ) -> Response | None:
        """Return what is sent; see Interceptor.answer."""
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
                return bodies.spoil(fault, genuine, earlier=earlier)
            case "stuck":
                key = (vm, request.query)
                if known and (plan.is_new or key not in self._stuck):
                    self._stuck[key] = known[-1]
                stuck = self._stuck.get(key)
                return bodies.spoil(fault, genuine, earlier=[stuck] if stuck else ())
            case _:
                return bodies.spoil(fault, genuine)

    def _remember(self, key: tuple[str, str], document: Response) -> None:
        """Remember a genuine document; one that is served again is the same."""
        if key not in self._served and len(self._served) >= SERVED_MAX:
            del self._served[next(iter(self._served))]
        known = self._served.setdefault(key, [])
        if not known or known[-1].payload != document.payload:
            known.append(document)
            del known[: -syntax.BACK_MAX - 1]

    def _meet(self, vm: str, request: Request | None) -> tuple[Fault, bool] | None:
        now = self._now()
        for rule in self._rules:
            if not rule.concerns(vm):
                continue
            found = rule.meets(vm, request, now)
            if found is not None:
                if found[0].kind == "ok":
                    return None
                self.played[vm, found[0].kind] += 1
                return found
        return None

    def _check(self, vms: Iterable[str]) -> None:
        for vm in vms:
            if wrong := self._missing(vm):
                raise NotFoundError(wrong, hint="faults name VMs as the fleet does")

    def _missing(self, vm: str) -> str:
        """Return that a VM is not there, as a sentence; empty: it is."""
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
