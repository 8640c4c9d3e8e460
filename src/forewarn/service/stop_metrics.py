"""The metrics of what stops planned work: the brake, and the blackouts of the service."""

from forewarn.admin.meters import Reading
from forewarn.clock import Clock
from forewarn.fleet.blackouts import clash
from forewarn.service import metric_definitions
from forewarn.store import kinds
from forewarn.store.port import Reader, Record, every
from forewarn.store.records import BRAKE_KEY, Brake
from forewarn.store.wide_blackouts import WideBlackout


class Stops:
    """The brake and the blackouts; the control thread writes, any thread reads."""

    def __init__(self, clock: Clock) -> None:
        """Begin with the brake off and without blackouts."""
        self._clock = clock
        self._braked_by = ""
        """Why the brake is on: a value of the label; empty: it is off."""
        self._blackouts: dict[str, WideBlackout] = {}

    def load(self, reader: Reader) -> None:
        """Read the brake and the blackouts at the start of the service."""
        self._braked_by = _braked_by(reader.get(Brake, BRAKE_KEY))
        for blackout in every(reader, kinds.ALL_BLACKOUTS):
            self._blackouts[blackout.name] = blackout

    def changed(self, before: Record | None, after: Record | None) -> None:
        """Take a changed brake or blackout; one without `after` was removed."""
        if isinstance(after, WideBlackout):
            self._blackouts[after.name] = after
        elif isinstance(before, WideBlackout):
            self._blackouts.pop(before.name, None)
        else:
            self._braked_by = _braked_by(after)

    def readings(self) -> list[Reading]:
        """Return the metrics."""
        now = self._clock.now()
        fleet, part = metric_definitions.BLACKOUT_PARTS
        in_force = {fleet: 0, part: 0}
        for blackout in list(self._blackouts.values()):
            if clash([blackout.time], now, now) is not None:
                in_force[fleet if blackout.is_of_fleet else part] += 1
        return [
            Reading(
                metric_definitions.BRAKE_ON,
                {
                    reason: int(reason == self._braked_by)
                    for reason in metric_definitions.BRAKED_BY
                },
            ),
            Reading(metric_definitions.BLACKOUTS_IN_FORCE, in_force),
        ]


def _braked_by(brake: Record | None) -> str:
    if not isinstance(brake, Brake):
        return ""
    return "losses" if brake.losses is not None else "operator"
