"""A story: a world, its polling VMs, and the reported lines.

The world is made when it is first needed, so that settings can come before it.
Entries are in the order of their times: steps when they are
committed, documents when a VM can read them, calls when the driver gets them.
"""

from collections.abc import Callable
from pathlib import Path

from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.merge import MergePlan
from forewarn.instants import HOUR, Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.service.settings import load_settings
from forewarn.service.settings_model import impacts, policy
from forewarn.sim import fleets
from forewarn.store.port import Store
from forewarn.wording import operators
from tests.support.transcripts import moments
from tests.support.transcripts.audience import Audience
from tests.support.transcripts.chronicle import Chronicle
from tests.support.transcripts.form import TranscriptError
from tests.support.transcripts.hypervisor import ToldDriver
from tests.support.transcripts.names import Names
from tests.support.worlds import START, CrashError, LastingStore, World

ASKS_EVERY = HOUR
"""Time between two requests of a listening VM while nothing changes: its scope stays
enabled."""


class Story:
    """The state of one story, and the ways to continue it."""

    def __init__(
        self,
        *,
        store: Callable[[], Store] | None = None,
        directory: Path | None = None,
    ) -> None:
        """Begin before the beginning.

        `store` opens the store, again after each crash; in `directory` are the fleet
        files that a story names.
        """
        if store is None:
            lasting = LastingStore()
            store = lambda: lasting  # noqa: E731 - a function of one expression
        self.names = Names()
        self.audience = Audience(self.names, self.tell)
        self.is_down = False
        self.directory = directory
        self.tables: fleets.Tables = {}
        self._settings: dict[str, str] = {}
        self._store = store
        self._chronicle = Chronicle(self.names, self.tell)
        self._world: World | None = None
        self._driver: SimulatedDriver | None = None
        self._lines: list[str] = []

    # Telling

    def tell(self, text: str) -> None:
        """Tell that something happens now."""
        now = START if self._world is None else self._world.now
        stamp = f"{moments.told(now)} "
        self.say(stamp + text.replace("\n", f"\n{' ' * len(stamp)}"))

    def say(self, text: str) -> None:
        """Tell something that has no time: an answer."""
        self._lines.append(self.names.said(text))

    def told(self) -> str:
        """Return the lines since the last call."""
        lines, self._lines = self._lines, []
        return "\n".join(lines)

    # The world

    def set(self, name: str, value: str) -> None:
        """Change a setting; only before the world begins."""
        if self._world is not None:
            raise TranscriptError("settings stand at the beginning of a story")
        self._settings[name] = value

    @property
    def world(self) -> World:
        """Return the world, which begins now if it has not."""
        if self._world is None:
            self._world = self._new_world()
            self._world.witness = self._witness
        return self._world

    @property
    def driver(self) -> SimulatedDriver:
        """Return the hypervisor."""
        assert self.world
        assert self._driver is not None
        return self._driver

    def _new_world(self) -> World:
        settings = load_settings(file=None, environ={}, flags=self._settings)
        self._driver = SimulatedDriver(impacts=impacts(settings))
        return World(
            store=self._store,
            driver=ToldDriver(self._driver, self.names, self.tell),
            policy=policy(settings),
        )

    def apply_fleet(self, tables: fleets.Tables) -> MergePlan:
        """Have the fleet as an author wants it; a refused wish is forgotten."""
        plan = self.world.apply_fleet(fleets.write(tables), name="fleet")
        self.tables = tables
        return plan

    # Going on

    def attempt(self, step: Callable[[], object]) -> None:
        """Take a step, which may be refused or meet a crash."""
        try:
            step()
        except CrashError:
            self.crash()
        except ForewarnError as error:
            if isinstance(error, TranscriptError):
                raise
            hint = f" ({error.hint})" if error.hint else ""
            self.say(f"refused: {operators.refusal(error)}{hint}")

    def run_until(self, target: Micros) -> None:
        """Let time pass; listening VMs continue to poll."""
        world = self.world
        world.advance_to(min(world.now, target))
        while world.now < target:
            world.advance_to(min(target, world.now + ASKS_EVERY))
            self.audience.ask(world)

    def crash(self) -> None:
        """End the service's process now."""
        self.is_down = True
        self.tell("*** crashed ***")

    def restart(self, *, after: Micros) -> None:
        """Restart from the durable state after a downtime."""
        world = self.world
        world.clock.advance_to(world.now + after)
        self.is_down = False
        self.audience.forget_what_was_told()
        self.driver.repeat_sightings()
        world.restart()
        world.settle()
        world.has_news = False
        self.audience.look(world)

    def _witness(self, place: str) -> None:
        world = self.world
        if place == "committed":
            world.read(lambda reader: self._chronicle.catch_up(reader, now=world.now))
        elif place == "published" and world.has_news:
            # Only then: each look is a sighting, which is a commit again.
            world.has_news = False
            self.audience.look(world)
