"""Rows are decoded strictly; the contract suite tests the round trip."""

from dataclasses import replace
from typing import Any

import pytest

from forewarn.fleet.model import Host, Scope, ScopeKind, Vm
from forewarn.protocol.blockers import Cause, FaultDomainDown, VmBusy
from forewarn.protocol.operations import (
    Action,
    Move,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)
from forewarn.store.codec import CODECS, Codec, Value, column_for
from forewarn.store.port import StoreError

VM = Vm(
    name="web_0",
    wire_name="web_0",
    host="h1",
    scope="web",
    tenant="shop",
    view="web",
    vm_id="0f5b4d1e-0000-4000-8000-000000000000",
    tags=(("role", "wéb"),),
    addresses=("192.0.2.4", "192.0.2.5"),
)
SCOPE = Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET, gpu=True)
OPERATION = Operation(
    operation_id="op-1",
    request="rq-1",
    verb=Verb.MAINTAIN,
    action=Action.LIVE_MIGRATE,
    target_kind=TargetKind.HOST,
    target="h1",
    host="h1",
    state=OperationState.ANNOUNCED,
    routine=True,
    not_before=5,
    moves=(Move(vm="web_0", to_host="h2", done=True),),
    scopes=("web",),
    duration_seconds=-1,
    description="kernel",
    created=1,
)
DOWN = FaultDomainDown(
    scope="web",
    fault_domain=1,
    causes=(
        Cause(
            operation="op-3",
            verb=Verb.MAINTAIN,
            action=Action.REBOOT,
            target_kind=TargetKind.HOST,
            target="h2",
        ),
    ),
    more=4,
)


def codec_of(record: object) -> Codec[Any]:
    return next(codec for codec in CODECS if codec.kind is type(record))


def decoded(record: object, **changes: Value) -> Any:
    """Encode a record, change the row, and decode it."""
    codec = codec_of(record)
    row = columns_of(record) | changes
    return codec.decoder()(tuple(row.values()))


def columns_of(record: object) -> dict[str, Value]:
    codec = codec_of(record)
    return dict(zip(codec.columns, codec.encode(record), strict=True))


@pytest.mark.parametrize(
    ("record", "name", "value"),
    [
        (VM, "tags", '[["role","wéb"]]'),
        (VM, "addresses", '["192.0.2.4","192.0.2.5"]'),
        (VM, "state", "running"),
        (VM, "spot", 0),
        (SCOPE, "gpu", 1),
        (SCOPE, "terminate_notice", None),
        (SCOPE, "kind", "scale-set"),
        (OPERATION, "moves", '[{"vm":"web_0","to_host":"h2","done":true}]'),
        (replace(OPERATION, moves=()), "moves", "[]"),
        (OPERATION, "duration_seconds", -1),
        (OPERATION, "held_by", "[]"),
        (
            replace(OPERATION, held_by=(VmBusy(vm="web_0", operation="op-2"),)),
            "held_by",
            '[{"kind":"vm busy","vm":"web_0","operation":"op-2"}]',
        ),
        (
            replace(OPERATION, held_by=(DOWN,)),
            "held_by",
            (
                '[{"kind":"fault domain","scope":"web","fault_domain":1,"causes":'
                '[{"operation":"op-3","verb":"maintain","action":"reboot","target_kind":'
                '"host","target":"h2"}],"more":4}]'
            ),
        ),
    ],
)
def test_rows_have_readable_values(record: object, name: str, value: Value) -> None:
    assert columns_of(record)[name] == value
    assert decoded(record) == record


def test_flags_are_decoded_as_booleans() -> None:
    assert decoded(SCOPE).gpu is True
    assert decoded(SCOPE).implied is False


@pytest.mark.parametrize(
    ("record", "name", "value"),
    [
        (VM, "name", 7),
        (VM, "name", None),
        (VM, "name", b"web_0"),
        (VM, "fault_domain", "0"),
        (VM, "fault_domain", 0.0),
        (VM, "spot", 2),
        (VM, "state", "Running"),
        (VM, "tags", ""),
        (VM, "tags", "{}"),
        (VM, "tags", '[["role"]]'),
        (VM, "tags", '[["role",1]]'),
        (VM, "tags", "[7]"),
        (VM, "addresses", '["192.0.2.4",null]'),
        (VM, "addresses", '["192.0.2.4"'),
        (OPERATION, "moves", '["web_0"]'),
        (OPERATION, "moves", '[{"to_host":"h2"}]'),
        (OPERATION, "moves", '[{"vm":"web_0","to_host":"h2","done":1}]'),
        (OPERATION, "moves", '[{"vm":"a","to_host":"b","done":true,"more":1}]'),
        (OPERATION, "held_by", '[{"kind":"vm busy","vm":"web_0"}]'),
        (OPERATION, "held_by", '[{"kind":"vm busy","vm":7,"operation":"op-2"}]'),
        (OPERATION, "held_by", '[{"kind":"weather","vm":"web_0"}]'),
        (OPERATION, "held_by", '[{"vm":"web_0","operation":"op-2"}]'),
        (OPERATION, "held_by", '["vm busy"]'),
        (
            OPERATION,
            "held_by",
            (
                '[{"kind":"fault domain","scope":"web","fault_domain":1,"causes":{},'
                '"more":0}]'
            ),
        ),
        (
            OPERATION,
            "held_by",
            (
                '[{"kind":"fault domain","scope":"web","fault_domain":true,"causes":[],'
                '"more":0}]'
            ),
        ),
        (SCOPE, "terminate_notice", "5m"),
        (SCOPE, "kind", None),
    ],
)
def test_invalid_row_is_refused(record: object, name: str, value: Value) -> None:
    with pytest.raises(StoreError, match=f"row of {type(record).__name__}") as caught:
        decoded(record, **{name: value})
    assert "backup" in caught.value.hint


@pytest.mark.parametrize("rows", ['[["a",1]]', '[["a","b"],["c"]]', '["ab"]', "{}"])
def test_list_with_a_wrong_row_is_refused(rows: str) -> None:
    column = column_for(tuple[tuple[str, str], ...])
    assert column.decode is not None
    assert column.decode('[["a","b"],["c","d"]]') == (("a", "b"), ("c", "d"))
    assert column.decode("[]") == ()
    with pytest.raises(TypeError):
        column.decode(rows)


@pytest.mark.parametrize("hint", [float, object, list[str], str | int, dict[str, str]])
def test_field_without_a_column_type_is_refused(hint: Any) -> None:
    with pytest.raises(TypeError, match="no column can hold"):
        column_for(hint)


def test_guard_contains_key_revision_and_state() -> None:
    host = Host(name="h1", revision=3)
    assert codec_of(host).guard(host) == ("h1", 3, "up")
