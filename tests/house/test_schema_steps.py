"""A new step of the schema leaves what replicas of the release before read."""

import re

import pytest

from forewarn.store.migrate import Step, load_steps, statements

FIRST_WITH_REPLICAS = 62
"""The steps of the first version with replicas: before it, no other version could read."""

REMOVES = re.compile(
    r"^\s*(DROP\s+TABLE|ALTER\s+TABLE\s+\w+\s+(DROP|RENAME))\b",
    re.IGNORECASE | re.MULTILINE,
)

CONTRACT = re.compile(
    r"^-- Contract: .* is not read since \d+\.\d+\.\d+\.$", re.MULTILINE
)
"""The line of a step that removes what an earlier release has ceased to read."""

NEW = [step for step in load_steps() if step.number > FIRST_WITH_REPLICAS]


def breaks(step: Step) -> bool:
    """Return whether a step removes columns or tables that are not declared unread."""
    removes = any(REMOVES.search(statement) for statement in statements(step.sql))
    return removes and not CONTRACT.search(step.sql)


def test_steps_remove_only_what_is_declared_unread() -> None:
    names = [step.name for step in NEW if breaks(step)]
    assert not names, (
        f"{names} remove or rename what replicas of the release before read:"
        " see Change the schema in ARCHITECTURE.md"
    )


@pytest.mark.parametrize(
    ("sql", "is_broken"),
    [
        ("ALTER TABLE vms ADD COLUMN note TEXT NOT NULL DEFAULT '';", False),
        ("ALTER TABLE vms DROP COLUMN note;", True),
        ("-- Why.\nalter table vms\n  rename column note TO remark;", True),
        ("DROP TABLE vms;", True),
        ("DROP INDEX vms_by_note;", False),
        (
            (
                "-- Contract: vms.note is not read since 0.3.0.\n"
                "ALTER TABLE vms DROP COLUMN note;"
            ),
            False,
        ),
    ],
)
def test_removals_are_found(sql: str, *, is_broken: bool) -> None:
    assert breaks(Step(number=99, name="0099_note.sql", sql=sql)) is is_broken
