"""The keys of a fleet file: one table for reading, merging and exporting.

Each key has a form that says how a value is read from TOML, stored as JSON in `applied`,
written as TOML and shown to people. An attribute that is not in the table cannot be set
in a file: it is runtime state or derived from other attributes.
"""

import hashlib
import ipaddress
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass, fields
from typing import Any, TypeAlias, cast

from forewarn import toml
from forewarn.fleet.errors import Kind
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm
from forewarn.fleet.resources import format_size, parse_size
from forewarn.fleet.window_fields import line_of, table_of, windows_of
from forewarn.fleet.windows import Window
from forewarn.problems import quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Option

Record: TypeAlias = Tenant | Scope | Host | Vm

_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
IPV4_NUMBER = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_NORMAL_IPV4 = re.compile(rf"{IPV4_NUMBER}(?:\.{IPV4_NUMBER}){{3}}")


def _text(option: Option, value: object) -> str:
    if not isinstance(value, str):
        raise forms.unfit(option, value)
    return value


def _pairs(option: Option, value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise forms.unfit(option, value)
    pairs = cast("dict[str, object]", value)
    noun = "tag" if option.form is Forms.TAGS else "label"
    for key, text in pairs.items():
        if not isinstance(text, str):
            type_name = forms.what(text)
            raise ValueError(f"{noun} {quoted(key)} must be text, not {type_name}")  # noqa: TRY004
    return tuple(sorted(cast("dict[str, str]", pairs).items()))


def _shown_pairs(value: tuple[tuple[str, str], ...]) -> str:
    return ", ".join(f"{key}={text}" for key, text in value)


def _shown_windows(value: tuple[Window, ...]) -> str:
    return "; ".join(map(line_of, value))


def _size(option: Option, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise forms.unfit(option, value)
    return parse_size(value)


def _addresses(option: Option, value: object) -> tuple[str, ...]:
    texts = cast("list[object]", value) if isinstance(value, list) else [value]
    return tuple(normal_address(_text(option, text)) for text in texts)


class Forms:
    """Forms of the values in a fleet file."""

    TEXT = Form(expected="text", read=_text)
    FLAG = forms.Forms.SWITCH
    NUMBER = forms.Forms.COUNT
    DURATION = forms.Forms.DURATION
    SCOPE_KIND = Form(
        expected="a kind of scope",
        read=lambda option, value: ScopeKind(forms.word(option, value)),
        show=lambda value: value.value,
    )
    TAGS = Form(expected="a table of strings", read=_pairs, show=_shown_pairs)
    LABELS = Form(expected="a table of strings", read=_pairs, show=_shown_pairs)
    SIZE = Form(
        expected="a size such as 64GiB, or a number of MiB",
        read=_size,
        show=format_size,
    )
    ADDRESSES = Form(
        expected="an address, or a list of addresses",
        read=_addresses,
        show=forms.joined,
    )
    WINDOWS = Form(
        expected="a table with start and length, or a list of such tables",
        read=windows_of,
        show=_shown_windows,
    )
    GUID = Form(
        expected="a GUID", read=lambda option, value: _text(option, value).lower()
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key of a table, and the attribute that holds its value."""

    key: str
    attribute: str
    option: Option
    default: object
    """Value if the key is missing; MISSING: the key is required."""
    written: bool = True
    """Whether a file can have the key. `implied` is derived from missing keys."""


_KINDS = tuple(kind.value for kind in ScopeKind)


def _fields(model: type[Record], **forms: Form) -> tuple[Field, ...]:
    defaults = {field.name: field.default for field in fields(model)}
    keys = {"vm_id": "id", "addresses": "address"}
    return tuple(
        Field(
            key=keys.get(attribute, attribute),
            attribute=attribute,
            option=Option(
                form=form,
                least=-math.inf,
                words=_KINDS if form is Forms.SCOPE_KIND else (),
            ),
            default=defaults[attribute],
            written=attribute != "implied",
        )
        for attribute, form in forms.items()
    )


FIELDS: Mapping[Kind, tuple[Field, ...]] = {
    Kind.TENANT: (),
    Kind.SCOPE: _fields(
        Scope,
        tenant=Forms.TEXT,
        kind=Forms.SCOPE_KIND,
        approve_user_reboot=Forms.FLAG,
        approve_user_redeploy=Forms.FLAG,
        terminate_notice=Forms.DURATION,
        os_image_notice=Forms.DURATION,
        scale_set=Forms.TEXT,
        gpu=Forms.FLAG,
        maintenance_window=Forms.WINDOWS,
        implied=Forms.FLAG,
    ),
    Kind.HOST: _fields(
        Host,
        zone=Forms.TEXT,
        cluster=Forms.TEXT,
        rack=Forms.TEXT,
        pool=Forms.TEXT,
        capacity=Forms.NUMBER,
        vcpu=Forms.NUMBER,
        memory=Forms.SIZE,
        labels=Forms.LABELS,
        last=Forms.FLAG,
    ),
    Kind.VM: _fields(
        Vm,
        host=Forms.TEXT,
        scope=Forms.TEXT,
        fault_domain=Forms.NUMBER,
        update_domain=Forms.NUMBER,
        wire_name=Forms.TEXT,
        vm_id=Forms.GUID,
        size=Forms.TEXT,
        vcpu=Forms.NUMBER,
        memory=Forms.SIZE,
        movable=Forms.FLAG,
        memory_preserving=Forms.FLAG,
        spot=Forms.FLAG,
        resource_group=Forms.TEXT,
        subscription=Forms.TEXT,
        location=Forms.TEXT,
        tags=Forms.TAGS,
        addresses=Forms.ADDRESSES,
        listen=Forms.TEXT,
    ),
}
"""All keys except `name`, which identifies the object."""


def derived_vm_id(name: str) -> str:
    """Return the GUID of a VM whose file does not set one.

    It is a name-based GUID of version 8 from SHA-256: the same for the same name.
    """
    # A lone surrogate, which JSON can contain, is refused later, with its line.
    named = f"forewarn:vm:{name}".encode("utf-8", "surrogatepass")
    text = hashlib.sha256(named).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return (
        f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"
    )


def is_guid(text: str) -> bool:
    """Return whether `text` is a GUID in the usual form."""
    return _GUID.fullmatch(text) is not None


def normal_address(text: str) -> str:
    """Return an IP address in its canonical form, for comparisons.

    Other text is returned unchanged; `checks` refuses it.
    """
    if _NORMAL_IPV4.fullmatch(text):
        return text
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return text
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
        return str(address.ipv4_mapped)
    return str(address)


def said(kind: Kind, record: Record) -> Iterator[tuple[Field, Any]]:
    """Yield each field whose value a file must contain, with the value."""
    for field in FIELDS[kind]:
        value = getattr(record, field.attribute)
        if value == field.default:
            continue
        if field.attribute == "wire_name" and value == record.name:
            continue
        if field.attribute == "vm_id" and value == derived_vm_id(record.name):
            continue
        yield field, value


def wish_of(kind: Kind, name: str, values: Mapping[str, Any]) -> str:
    """Return the values that a file sets, by key, as compact JSON.

    `values` are by attribute. Equal values give equal text.
    """
    usual = _USUAL[kind]
    said_values: dict[str, object] = {}
    for attribute, value in values.items():
        if attribute not in usual:
            continue
        key, default = usual[attribute]
        if value == default or (attribute == "wire_name" and value == name):
            continue
        if attribute == "vm_id" and value == _derived_if_like(value, name):
            continue
        said_values[key] = value.value if attribute == "kind" else value
    try:
        return _write_desired(said_values)
    except ValueError:
        return ""  # A number with too many digits, which `checks` refuses.


def _derived_if_like(vm_id: str, name: str) -> str:
    """Return the derived GUID if `vm_id` has its version; else an empty string."""
    return derived_vm_id(name) if vm_id[14:15] == "8" else ""


_USUAL: Mapping[Kind, Mapping[str, tuple[str, object]]] = {
    kind: {field.attribute: (field.key, field.default) for field in fields_}
    for kind, fields_ in FIELDS.items()
}
"""Key and default of each attribute."""

# Created once: `json.dumps` creates a new encoder for each call with options.
_write_desired = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=astuple
).encode


def desired_values(applied: str) -> dict[str, object]:
    """Return the values of one source, by key. `applied` is the member of a record for the
    files of authors (`Record.applied`) or the inventory (`Record.found`); empty: none."""
    return json.loads(applied) if applied else {}


def base_of(record: Record) -> dict[str, object]:
    """Return the values that the files gave an object, by key.

    The values of an author's file replace those of an inventory's.
    """
    return desired_values(record.found) | desired_values(record.applied)


def value_of(
    kind: Kind, record: Record, key: str, desired: Mapping[str, object]
) -> Any:
    """Return the value of a key in `desired`, or its default."""
    field = _BY_KEY[kind][key]
    if key in desired:
        return _frozen(field, desired[key])
    if field.attribute == "wire_name":
        return record.name
    if field.attribute == "vm_id":
        return derived_vm_id(record.name)
    return field.default


_BY_KEY: Mapping[Kind, Mapping[str, Field]] = {
    kind: {field.key: field for field in fields_} for kind, fields_ in FIELDS.items()
}


def _frozen(field: Field, value: Any) -> Any:
    """Return a value of JSON as the attribute of an object."""
    if field.option.form is Forms.SCOPE_KIND:
        return ScopeKind(value)
    if field.option.form is Forms.WINDOWS:
        names = [column.name for column in fields(Window)]
        return tuple(
            Window(**dict(zip(names, _as_tuple(item), strict=True))) for item in value
        )
    return _as_tuple(value)


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_as_tuple, cast("list[Any]", value)))
    return value


def toml_value(option: Option, value: Any) -> str:
    """Return the value of a field as TOML on one line."""
    if option.form in {Forms.TAGS, Forms.LABELS}:
        return toml.value(dict(value))
    if option.form is Forms.ADDRESSES:
        return toml.value(value[0] if len(value) == 1 else list(value))
    if option.form is Forms.WINDOWS:
        tables = [table_of(window) for window in value]
        return toml.value(tables[0] if len(tables) == 1 else tables)
    if option.form in {Forms.DURATION, Forms.SCOPE_KIND, Forms.SIZE}:
        value = option.form.show(value)
    return toml.value(value)


def shown(option: Option, value: Any) -> str:
    """Return the value of a field for people; `none` if it is empty."""
    if value is None or value in ("", ()):
        return "none"
    return option.form.show(value)
