"""Rules for single values: names, text, limits, formats.

Each function yields the invalid key and a message; `checks` adds the place.
"""

import ipaddress
import re
from collections.abc import Iterator

from forewarn.fleet.fields import IPV4_NUMBER, is_guid
from forewarn.fleet.model import PLACES, Host, Scope, ScopeKind, Vm
from forewarn.instants import MINUTE, SECOND, format_duration
from forewarn.problems import listed, number, quoted

NAME_LENGTH_MAX = 128
"""Maximum length of a name, in characters: twice Azure's limit, and short enough for a
table."""

TEXT_LENGTH_MAX = 512
"""Maximum length of a free text, in characters: Azure's limit for the name of a tag."""

TAGS_MAX = 50
"""Maximum tags of a VM: Azure's limit."""

ADDRESSES_MAX = 64
"""Maximum addresses of a VM: more network cards than a VM can have."""

DOMAIN_MAX = 999
"""Maximum fault or update domain: far above any real one."""

CAPACITY_MAX = 1_000_000
"""Maximum capacity of a host: a larger number is a typing error."""

VCPU_MAX = 1_000_000
"""Maximum virtual CPUs of a host or VM: a larger number is a typing error."""

MEMORY_MAX = 1 << 30
"""Maximum memory of a host or VM, in MiB (1 PiB): more is a typing error, such as bytes
instead of MiB."""

LABELS_MAX = 50
"""Maximum labels of a host, as for the tags of a VM."""

TERMINATE_NOTICE_MIN = 5 * MINUTE
TERMINATE_NOTICE_MAX = 15 * MINUTE
"""Limits of clause 5.1: the user sets 5 to 15 minutes."""

OS_IMAGE_NOTICE_MIN = SECOND
OS_IMAGE_NOTICE_MAX = 15 * MINUTE
"""Limits of clause 5.8: it is 15 minutes; shorter values are for tests."""

PORT_MAX = 65_535

_PLAIN_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.-]{{0,{NAME_LENGTH_MAX - 1}}}")
_PLAIN_IPV4 = re.compile(
    rf"(?:22[0-3]|2[01][0-9]|1[0-9]{{2}}|[1-9][0-9]?)(?:\.{IPV4_NUMBER}){{3}}"
)
"""Addresses that start with 1 to 223 in usual form; `ipaddress` checks the others."""

NEVER_IN_NAMES = re.compile(r"[\s/\\@,]")
"""The characters that no name contains, besides those that are not printable."""

_HOSTNAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?", re.IGNORECASE)
_PORT = re.compile(r"[0-9]{1,5}")
_ANY_HOST = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared with, not bound

_SCALE_SET_KINDS = frozenset({ScopeKind.SCALE_SET, ScopeKind.AVAILABILITY_SET})
"""Kinds of scope that can belong to a scale set. Members of flexible scale sets are in
availability sets."""

_Faults = Iterator[tuple[str, str]]


def name_fault(name: str) -> str:
    """Return the problem of a name; empty: it is valid.

    Names are used in paths, comma-separated lists, view IDs and command lines. In the
    API, an approver in parentheses is a person or a policy, not a VM.
    """
    if _PLAIN_NAME.fullmatch(name):
        return ""
    if not name:
        return "a name must not be empty"
    if len(name) > NAME_LENGTH_MAX:
        return f"a name has at most {NAME_LENGTH_MAX} characters, not {len(name)}"
    if not name.isprintable() or NEVER_IN_NAMES.search(name):
        return (
            f"{quoted(name)} is not a valid name: it must not contain blanks, control"
            " characters, slashes, commas or @"
        )
    if name[0] in "-(":
        return f'{quoted(name)} is not a valid name: it must not start with "{name[0]}"'
    if not name.strip("."):
        return f"{quoted(name)} is not a valid name: it must not consist of dots"
    return ""


def _text_fault(text: str) -> str:
    if len(text) > TEXT_LENGTH_MAX:
        return f"has at most {TEXT_LENGTH_MAX} characters, not {len(text)}"
    if not text.isprintable():
        return f"{quoted(text)} must not contain control characters"
    return ""


def scope_faults(scope: Scope) -> _Faults:
    """Yield the problems of a scope."""
    kind = scope.kind.value
    if scope.scale_set and scope.kind not in _SCALE_SET_KINDS:
        yield "scale_set", f"a {kind} scope cannot be part of a scale set"
    if fault := _text_fault(scope.scale_set):
        yield "scale_set", fault
    if scope.gpu and scope.kind is not ScopeKind.SCALE_SET:
        yield "gpu", f"is for scopes of kind scale-set, not {kind} (clause 6.2)"
    terminate = scope.terminate_notice
    if terminate is not None and not (
        TERMINATE_NOTICE_MIN <= terminate <= TERMINATE_NOTICE_MAX
    ):
        fault = f"must be 5m to 15m, not {format_duration(terminate)}"
        yield "terminate_notice", f"{fault} (clause 5.1)"
    image = scope.os_image_notice
    if image is not None and not OS_IMAGE_NOTICE_MIN <= image <= OS_IMAGE_NOTICE_MAX:
        fault = f"must be 15m, or less down to 1s, not {format_duration(image)}"
        yield "os_image_notice", f"{fault} (clause 5.8)"


def host_faults(host: Host) -> _Faults:
    """Yield the problems of a host.

    A limit of 0 is valid: such a host takes no VMs.
    """
    for key in PLACES:
        name: str = getattr(host, key)
        if name and (fault := name_fault(name)):
            yield key, fault
    yield from _number_faults("capacity", host.capacity, 0, CAPACITY_MAX)
    yield from _number_faults("vcpu", host.vcpu, 0, VCPU_MAX)
    yield from _number_faults("memory", host.memory, 0, MEMORY_MAX, unit=" MiB")
    yield from _label_faults(host)


def _number_faults(
    key: str, value: int | None, least: int, most: int, *, unit: str = ""
) -> _Faults:
    if value is not None and not least <= value <= most:
        yield key, f"must be {least} to {most}{unit}, not {number(value)}"


def _label_faults(host: Host) -> _Faults:
    if len(host.labels) > LABELS_MAX:
        yield (
            "labels",
            f"a host has at most {LABELS_MAX} labels, not {len(host.labels)}",
        )
    for label, text in host.labels:
        # A selector is typed as `--label NAME=VALUE`.
        if "=" in label:
            yield (
                "labels",
                f"the name of the label {quoted(label[:40])} must not have =",
            )
        elif fault := name_fault(label) or _text_fault(text):
            yield "labels", f"the label {quoted(label[:40])}: {fault}"


def vm_faults(vm: Vm) -> _Faults:
    """Yield the problems of a VM."""
    if _is_plain(vm):
        return
    if fault := name_fault(vm.wire_name):
        yield "wire_name", fault
    for key, domain in (
        ("fault_domain", vm.fault_domain),
        ("update_domain", vm.update_domain),
    ):
        if not 0 <= domain <= DOMAIN_MAX:
            yield key, f"must be 0 to {DOMAIN_MAX}, not {number(domain)}"
    yield from _number_faults("vcpu", vm.vcpu, 1, VCPU_MAX)
    yield from _number_faults("memory", vm.memory, 1, MEMORY_MAX, unit=" MiB")
    for key, text in (
        ("size", vm.size),
        ("resource_group", vm.resource_group),
        ("subscription", vm.subscription),
        ("location", vm.location),
    ):
        if fault := _text_fault(text):
            yield key, fault
    if not is_guid(vm.vm_id):
        example = "01234567-89ab-8cde-8f01-23456789abcd"
        yield "id", f"{quoted(vm.vm_id[:50])} is not a GUID such as {example}"
    yield from _tag_faults(vm)
    yield from _address_faults(vm)
    if vm.listen and split_listener(vm.listen) is None:
        fault = f"{quoted(vm.listen[:80])} is not HOST:PORT such as"
        yield "listen", f"{fault} 127.0.0.1:8301 or [::1]:8301"


def _is_plain(vm: Vm) -> bool:
    """Return whether a fast check finds the VM valid; False: use the full check."""
    texts = vm.size + vm.resource_group + vm.subscription + vm.location
    return (
        not vm.tags
        and not vm.listen
        and len(vm.addresses) <= 1
        and all(map(_PLAIN_IPV4.fullmatch, vm.addresses))
        and 0 <= vm.fault_domain <= DOMAIN_MAX
        and 0 <= vm.update_domain <= DOMAIN_MAX
        and (vm.vcpu is None or 1 <= vm.vcpu <= VCPU_MAX)
        and (vm.memory is None or 1 <= vm.memory <= MEMORY_MAX)
        and len(texts) <= TEXT_LENGTH_MAX
        and texts.isprintable()
        and _PLAIN_NAME.fullmatch(vm.wire_name) is not None
        and is_guid(vm.vm_id)
    )


def _tag_faults(vm: Vm) -> _Faults:
    if len(vm.tags) > TAGS_MAX:
        yield "tags", f"a VM has at most {TAGS_MAX} tags, not {len(vm.tags)}"
    for tag, text in vm.tags:
        if not tag:
            yield "tags", "the name of a tag must not be empty"
        elif fault := _text_fault(tag) or _text_fault(text):
            yield "tags", f"the tag {quoted(tag[:40])}: {fault}"


def _address_faults(vm: Vm) -> _Faults:
    if len(vm.addresses) > ADDRESSES_MAX:
        count = len(vm.addresses)
        yield "address", f"a VM has at most {ADDRESSES_MAX} addresses, not {count}"
    doubled = [
        address for address in set(vm.addresses) if vm.addresses.count(address) > 1
    ]
    if doubled:
        yield "address", f"{listed(sorted(doubled))} is listed twice"
    for text in vm.addresses:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            yield (
                "address",
                f"{quoted(text[:50])} is not an IP address such as 192.0.2.4",
            )
            continue
        if address.is_unspecified or address.is_multicast:
            yield "address", f"{text} cannot be the address of one VM"


def split_listener(listen: str) -> tuple[str, int] | None:
    """Return host and port of HOST:PORT in canonical form; None: it is invalid.

    Port 0 means any free port.
    """
    host, colon, digits = listen.rpartition(":")
    if not colon or not _PORT.fullmatch(digits) or int(digits) > PORT_MAX:
        return None
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        if not _HOSTNAME.fullmatch(host):
            return None
        return host.lower(), int(digits)
    if isinstance(address, ipaddress.IPv6Address) is not bracketed:
        return None
    return str(address), int(digits)


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine: a loopback address or `localhost`.

    Any other name can resolve to another machine, even if it starts like a loopback
    address.
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listeners_overlap(one: str, other: str) -> bool:
    """Return whether listeners on two hosts, in canonical form, conflict on a port."""
    return one == other or one in _ANY_HOST or other in _ANY_HOST
