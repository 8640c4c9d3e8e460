"""Random walks that the model of a campaign and a service take together.

A step is asked of both. What one refuses the other must refuse, and what is stored after
it must be the same in the model's words: the record of the campaign with its counts and
timers, each host, the order, cordons and the brake. Some steps end in a crash at a
checkpoint. The hosts have random names, so that the order of the campaign is not theirs.
"""

from collections.abc import Iterator

from forewarn.instants import MINUTE, Micros
from forewarn.protocol.errors import RefusedError as WorldRefusedError
from tests.search.campaigns.model import Model
from tests.search.campaigns.settings import HOSTS, Setting
from tests.search.campaigns.side import Side
from tests.search.campaigns.state import Label, RefusedError, State, told
from tests.search.campaigns.transactions import (
    CRASH,
    TICK,
    is_over,
    labels,
    settled,
    ticked,
    transact,
)
from tests.support.worlds import CrashError

CRASH_SHARE = 0.15
RESTART_SHARE = 0.05
WEIGHTS = {"tick": 4, "approve": 3, "done": 3, "resume": 3, "restore host": 3}
"""How much likelier than others a step is."""


class Twin(Side):
    """The model and a service, side by side."""

    def __init__(self, setting: Setting, seed: int) -> None:
        super().__init__(Model(setting), seed)
        self.state: State = self.model.first()
        self.trace: list[str] = []
        self.crashes = self.refusals = 0
        self.until: Micros = 0
        with self.recorded():
            self.start()
        self.follow()
        self.compare()

    def walk(self, length: int) -> None:
        """Take so many steps at random, or until the campaign has ended."""
        for _ in range(length):
            if is_over(self.state.course, self.state):
                return
            if self.random.random() < RESTART_SHARE:
                self.restart()
            choice = [TICK, *labels(self.model, self.state)]
            weights = [WEIGHTS.get(label.what, 1) for label in choice]
            label = self.random.choices(choice, weights)[0]
            is_short = label != TICK or self.model.setting.tick == MINUTE
            self.take(label, crash=is_short and self.random.random() < CRASH_SHARE)

    def take(self, label: Label, *, crash: bool = False) -> None:
        """Take a step in both, and compare."""
        self.trace.append(str(label))
        refused = self._in_world(label, crash=crash)
        try:
            if label == TICK:
                self.state = ticked(self.model, self.state)
            else:
                self.state = transact(self.model, self.state, label)
        except RefusedError:
            assert refused, f"only the model refuses: {self.trace}"
            self.refusals += 1
        else:
            assert not refused, f"only the service refuses: {self.trace}"
        self.follow()
        with self.recorded():
            self.world.advance(max(0, self.until - self.world.now))
        self.follow()
        self.compare()

    def _in_world(self, label: Label, *, crash: bool) -> bool:
        """Take a step in the service; return whether it refused."""
        world = self.world
        if crash:
            place = self.random.choice(("committed", "published", "called"))
            last = world.passed[place] + self.random.choice((1, 1, 2, 3))
            world.crash_at = lambda at, count: (at, count) == (place, last)
        with self.recorded():
            try:
                if label == TICK:
                    self.until = world.now + self.model.setting.tick
                    world.advance(self.model.setting.tick)
                else:
                    self.act(label)
                    world.settle()
            except WorldRefusedError:
                return True
            except CrashError:
                self.crashes += 1
                self.looks.append(None)
                self.trace[-1] += " (crash)"
                world.restart()
            finally:
                world.crash_at = lambda _place, _count: False
        return False

    def restart(self) -> None:
        """Start the service again: it announces nothing that it did not before (K8)."""
        before = self.state
        self.trace.append(str(CRASH))
        with self.recorded():
            self.looks.append(None)
            self.world.restart()
            self.world.settle()
        self.follow()
        self.compare()
        if not self.model.setting.unavailable:
            assert _told(before) == _told(self.state), f"K8: {self.trace}"

    def follow(self) -> None:
        """Take in the model what the service did by itself, in its order."""
        for label in self.looks:
            if label is None:
                self.state = self.model.restarted(self.state)
            else:
                self.state = transact(self.model, self.state, label)
        self.looks = []

    def compare(self) -> None:
        """Compare the stored state; no host may wait that can be announced or start."""
        state = self.state._replace(pending=0)
        actual = self.stored()._replace(hour=state.hour)
        if actual != state:
            raise AssertionError("\n".join([*self.trace, *_differences(actual, state)]))
        quiet = settled(self.model, self.state)
        assert _told(quiet) == _told(state), (
            f"nobody has looked: {told(state)}, {told(quiet)}; {self.trace}"
        )
        self.state = state
        for host in range(HOSTS):
            is_free = self.model.may_have(state, host)
            assert is_free == self.may_have(host), f"K5: h{host}, {self.trace}"


def _told(state: State) -> list[int]:
    return [item.how for item in state.items]


def _differences(seen: State, said: State) -> Iterator[str]:
    for name, real, expected in zip(State._fields, seen, said, strict=True):
        if real != expected:
            yield f"{name}: the service has {real}, the model {expected}"
