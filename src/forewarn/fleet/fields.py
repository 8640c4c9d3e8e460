"""The keys of a fleet file: one table for reading, merging and exporting.

Each key has a form, which says how a value is read from TOML, kept as JSON in
`applied`, written as TOML and shown to a person. What is not in the table is
not the author's to say: it is runtime state, or follows from other fields.
"""

import enum
import hashlib
import ipaddress
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast

from forewarn import toml
from forewarn.fleet.errors import Kind
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant, Vm
from forewarn.instants import format_duration, parse_duration
from forewarn.problems import did_you_mean, listed, number, quoted

Record: TypeAlias = Tenant | Scope | Host | Vm

_GUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
IPV4_NUMBER = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_NORMAL_IPV4 = re.compile(rf"{IPV4_NUMBER}(?:\.{IPV4_NUMBER}){{3}}")


class UnfitError(ValueError):
    """A value is not what its key needs; the text is the sentence that says so."""


class Form(enum.Enum):
    """What a key's value looks like in the file."""

    TEXT = "text"
    FLAG = "true or false"
    NUMBER = "a whole number"
    DURATION = 'a duration such as "15m"'
    SCOPE_KIND = "a kind of scope"
    TAGS = "a table of texts"
    ADDRESSES = "an address, or a list of addresses"
    GUID = "a GUID"


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A key of a table, and the attribute that it becomes."""

    key: str
    attribute: str
    form: Form
    default: object
    """What is not said; MISSING where there is no such value."""
    written: bool = True
    """Whether an author may write it; `implied` follows from what is not said."""


def _fields(model: type[Record], **forms: Form) -> tuple[Field, ...]:
    defaults = {each.name: each.default for each in fields(model)}
    keys = {"vm_id": "id", "addresses": "address"}
    return tuple(
        Field(
            key=keys.get(attribute, attribute),
            attribute=attribute,
            form=form,
            default=defaults[attribute],
            written=attribute != "implied",
        )
        for attribute, form in forms.items()
    )


FIELDS: Mapping[Kind, tuple[Field, ...]] = {
    Kind.TENANT: (),
    Kind.SCOPE: _fields(
        Scope,
        tenant=Form.TEXT,
        kind=Form.SCOPE_KIND,
        approve_user_reboot=Form.FLAG,
        approve_user_redeploy=Form.FLAG,
        terminate_notice=Form.DURATION,
        os_image_notice=Form.DURATION,
        scale_set=Form.TEXT,
        gpu=Form.FLAG,
        implied=Form.FLAG,
    ),
    Kind.HOST: _fields(Host, zone=Form.TEXT, capacity=Form.NUMBER),
    Kind.VM: _fields(
        Vm,
        host=Form.TEXT,
        scope=Form.TEXT,
        fault_domain=Form.NUMBER,
        update_domain=Form.NUMBER,
        wire_name=Form.TEXT,
        vm_id=Form.GUID,
        size=Form.TEXT,
        memory_preserving=Form.FLAG,
        spot=Form.FLAG,
        resource_group=Form.TEXT,
        subscription=Form.TEXT,
        location=Form.TEXT,
        tags=Form.TAGS,
        addresses=Form.ADDRESSES,
        listen=Form.TEXT,
    ),
}
"""Every key but `name`, which is the object's identity."""


def derived_vm_id(name: str) -> str:
    """Return the GUID that a VM has if its author gives it none.

    A name-based GUID of version 8, from SHA-256: the same for the same name.
    """
    # Half a character, as JSON can bring it, is refused with its line, but later.
    named = f"forewarn:vm:{name}".encode("utf-8", "surrogatepass")
    text = hashlib.sha256(named).hexdigest()
    variant = "89ab"[int(text[16], 16) & 3]
    return (
        f"{text[:8]}-{text[8:12]}-8{text[13:16]}-{variant}{text[17:20]}-{text[20:32]}"
    )


def is_guid(text: str) -> bool:
    """Tell whether `text` is a GUID in its usual form."""
    return _GUID.fullmatch(text) is not None


def normal_address(text: str) -> str:
    """Return an IP address in the one form that comparisons need.

    What is no address comes back as it is, for `checks` to refuse.
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
    """Yield each field whose value an author has to write, with the value."""
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
    """Return what an author says who gives `values`, by attribute: compact JSON.

    Equal wishes are equal texts.
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
        return _write_wish(said_values)
    except ValueError:
        return ""  # A number too long to be written, which `checks` refuses.


def _derived_if_like(vm_id: str, name: str) -> str:
    """Return the derived GUID, if `vm_id` is one of its version at all."""
    return derived_vm_id(name) if vm_id[14:15] == "8" else ""


_USUAL: Mapping[Kind, Mapping[str, tuple[str, object]]] = {
    kind: {field.attribute: (field.key, field.default) for field in each}
    for kind, each in FIELDS.items()
}
"""The key and the default of each attribute."""

# Made once: `json.dumps` makes a new encoder for every call that is not plain.
_write_wish = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False
).encode


def wished(applied: str) -> dict[str, object]:
    """Return the wish that `applied` keeps, by key; empty if there was none."""
    return json.loads(applied) if applied else {}


def read_value(form: Form, value: object) -> object:
    """Return what a TOML value means; raises UnfitError with a sentence."""
    fitting = True
    meant: object = value
    match form:
        case Form.FLAG:
            fitting = isinstance(value, bool)
        case Form.NUMBER:
            fitting = isinstance(value, int) and not isinstance(value, bool)
        case Form.TAGS:
            meant = _read_tags(value)
        case Form.ADDRESSES:
            meant = _read_addresses(value)
        case _ if not isinstance(value, str):
            fitting = False
        case Form.DURATION:
            meant = _read_duration(value)
        case Form.SCOPE_KIND:
            meant = _read_scope_kind(value)
        case Form.GUID:
            meant = value.lower()
        case _:
            pass
    if not fitting:
        raise UnfitError(f"must be {form.value}, not {_what(value)}")
    return meant


def _read_duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise UnfitError(str(error)) from None


def _read_scope_kind(text: str) -> ScopeKind:
    try:
        return ScopeKind(text)
    except ValueError:
        kinds = [kind.value for kind in ScopeKind]
        raise UnfitError(
            f"{quoted(text)} is no kind of scope; kinds are {listed(kinds)}"
            f"{did_you_mean(text, kinds)}"
        ) from None


def _read_tags(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise UnfitError(f"must be {Form.TAGS.value}, not {_what(value)}")
    tags = cast("dict[str, object]", value)
    for key, text in tags.items():
        if not isinstance(text, str):
            raise UnfitError(f"the tag {quoted(key)} must be text, not {_what(text)}")
    return tuple(sorted(cast("dict[str, str]", tags).items()))


def _read_addresses(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (normal_address(value),)
    each = cast("list[object]", value) if isinstance(value, list) else [value]
    for text in each:
        if not isinstance(text, str):
            raise UnfitError(f"must be {Form.ADDRESSES.value}, not {_what(text)}")
    return tuple(normal_address(text) for text in cast("list[str]", each))


def _what(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return number(value) if isinstance(value, int) else f"the number {value}"
        case str():
            return f"the text {quoted(value[:40])}"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"


def toml_value(form: Form, value: Any) -> str:
    """Return a field's value as TOML on one line."""
    match form:
        case Form.FLAG:
            return "true" if value else "false"
        case Form.NUMBER:
            return str(value)
        case Form.DURATION:
            return toml.text(format_duration(value))
        case Form.SCOPE_KIND:
            return toml.text(value.value)
        case Form.TAGS:
            pairs = (f"{toml.text(key)} = {toml.text(text)}" for key, text in value)
            return f"{{ {', '.join(pairs)} }}"
        case Form.ADDRESSES:
            texts = [toml.text(text) for text in value]
            return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        case _:
            return toml.text(value)


def shown(form: Form, value: Any) -> str:
    """Return a field's value for a person, `none` where there is none."""
    if value is None or value in ("", ()):
        return "none"
    if form in {Form.TEXT, Form.GUID}:
        return str(value)
    if form is Form.TAGS:
        return ", ".join(f"{key}={text}" for key, text in value)
    if form is Form.ADDRESSES:
        return ", ".join(value)
    return toml_value(form, value).strip('"')
