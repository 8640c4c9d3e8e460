"""`store check` finds damage of the brake, of its losses and of tallies."""

from pathlib import Path

import pytest

from tests.unit.store.written import damaged

BRAKE = (
    "INSERT INTO brakes (name, by, reason, since, withdraws, losses, due_at, revision)"
    " VALUES ({}, json_object('name', '{}', 'kind', '{}'), '{}', {}, {}, '{}', {}, 0)"
)
LOSSES = '{"what":"hosts","count":4,"most":3,"within":1,"named":["h9"],"rack":""}'
DAMAGES = {
    "UPDATE tallies SET count = count + 1 WHERE name = 'hosts'": "but their tally is",
    "UPDATE tallies SET count = 9 WHERE name LIKE 'unlimited/vcpu/%'": (
        "unlimited/vcpu/, but their tally is 9"
    ),
    "DELETE FROM tallies": "hosts, but their tally is None",
    "INSERT INTO tallies VALUES ('lost vms', 0, 0)": "there are 0 lost vms, but",
    "INSERT INTO losses VALUES ('host:h9', 'r1', 5, 0)": "there are 1 lost in r1, but",
    "INSERT INTO losses VALUES ('h9', '', 5, 0)": "is neither of a host nor of a VM",
    "INSERT INTO losses VALUES ('vm:idle', 'r1', 5, 0)": "of a VM has a rack",
    "INSERT INTO losses VALUES ('vm:idle', '', 0, 0)": "no time at which it is forgotten",
    BRAKE.format("'brake'", "alice", "operator", "", 5, 0, "", 0): "has no reason",
    BRAKE.format("'other'", "alice", "operator", "why", 5, 0, "", 0): (
        "the brake has the name 'other'"
    ),
    BRAKE.format("'brake'", "alice", "operator", "why", 0, 0, "", 0): "has no time",
    BRAKE.format("'brake'", "", "platform", "why", 5, 0, "", 0): "brake is redacted",
    BRAKE.format("'brake'", "alice", "operator", "why", 5, 0, "", 9): (
        "of an operator has a time at which it is taken off"
    ),
    BRAKE.format("'brake'", "brake", "service", "", 5, 1, "", 0): (
        "came on by itself without losses"
    ),
    BRAKE.format("'brake'", "brake", "service", "", 5, 0, LOSSES, 0): (
        "holds announced work, instead of withdrawing it"
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(written: Path, tmp_path: Path, damage: str) -> None:
    problems = damaged(written, tmp_path, damage)
    assert any(DAMAGES[damage] in problem for problem in problems), problems
