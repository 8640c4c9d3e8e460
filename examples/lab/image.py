"""The kernel and the first file system of guests, built from unpacked Debian packages.

Nothing here needs root. An image is kept by the checksum of its sources.
"""

import ctypes
import fcntl
import hashlib
import lzma
import os
import shutil
import stat
import struct
import tempfile
import zlib
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

INIT = Path(__file__).with_name("init.sh")

MODULES = (
    "drivers/virtio/virtio_ring",
    "drivers/virtio/virtio",
    "drivers/virtio/virtio_pci_legacy_dev",
    "drivers/virtio/virtio_pci_modern_dev",
    "drivers/virtio/virtio_pci",
    "net/core/failover",
    "drivers/net/net_failover",
    "drivers/net/virtio_net",
)
"""The modules that a network card needs. `init.sh` loads them."""

_FORM = b"1"
"""Another form of the built files has another number, so that old ones are not used."""

_ELF = b"\x7fELF"


class ImageError(Exception):
    """A guest cannot be built here."""


class MissingError(ImageError):
    """A package is not here."""


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel and the files that it starts with."""

    kernel: Path
    initramfs: Path

    @property
    def directory(self) -> Path:
        """Return where it is kept, with what is made of it."""
        return self.kernel.parent


def build(tools: Path, cache: Path, more: Mapping[str, bytes] | None = None) -> Image:
    """Return the image of guests, from the packages that are unpacked in `tools`.

    `more` are files to put into it too.
    Raises ImageError, and MissingError for a package that is not here.
    """
    kernel, busybox, modules = _parts(tools)
    entries = {
        "init": INIT.read_bytes(),
        "bin/busybox": busybox.read_bytes(),
        **{f"m/{path.name}": path.read_bytes() for path in modules},
        **(more or {}),
    }
    packed = archive(entries)
    bz_image = kernel.read_bytes()
    digest = hashlib.sha256(_FORM + packed + bz_image).hexdigest()[:16]

    def make(directory: Path) -> None:
        (directory / "initramfs").write_bytes(packed)
        (directory / "vmlinux").write_bytes(vmlinux(bz_image))

    made = kept(cache / digest, make)
    return Image(made / "vmlinux", made / "initramfs")


def kept(directory: Path, make: Callable[[Path], None]) -> Path:
    """Return a directory that `make` fills, once for all processes."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    with locked(directory.with_suffix(".lock")):
        if not directory.exists():
            new = Path(tempfile.mkdtemp(dir=directory.parent))
            try:
                make(new)
                new.rename(directory)
            finally:
                shutil.rmtree(new, ignore_errors=True)
    return directory


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Hold the lock of a file; it ends with the process."""
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _parts(tools: Path) -> tuple[Path, Path, list[Path]]:
    kernels = sorted((tools / "boot").glob("vmlinuz-*"))
    if not kernels:
        raise MissingError(
            "needs a kernel (Debian: linux-image-cloud-amd64): make tools"
        )
    kernel = kernels[-1]
    busybox = next(
        (
            path
            for path in (tools / "bin/busybox", tools / "usr/bin/busybox")
            if path.exists()
        ),
        None,
    )
    if busybox is None:
        raise MissingError("needs busybox (Debian: busybox-static): make tools")
    version = kernel.name.removeprefix("vmlinuz-")
    directory = next(tools.glob(f"**/lib/modules/{version}/kernel"), tools)
    modules = [directory / f"{name}.ko" for name in MODULES]
    if missing := [path.name for path in modules if not path.exists()]:
        raise ImageError(f"the kernel {version} has no module {', '.join(missing)}")
    return kernel, busybox, modules


def vmlinux(bz_image: bytes) -> bytes:
    """Return the uncompressed kernel in a bzImage: without hardware virtualization, a
    guest would need seconds to unpack it.

    The header is that of Documentation/arch/x86/boot.rst in the kernel's source.
    """
    offset, length = struct.unpack_from("<II", bz_image, 0x248)
    begin = (bz_image[0x1F1] + 1) * 512 + offset
    packed = bz_image[begin : begin + length]
    for magic, unpack in _UNPACKERS.items():
        if packed.startswith(magic):
            found = unpack(packed)
            if found.startswith(_ELF):
                return found
    raise ImageError("the compression of this kernel is unknown: use that of Debian 12")


def _unxz(packed: bytes) -> bytes:
    return lzma.LZMADecompressor(format=lzma.FORMAT_XZ).decompress(packed)


def _gunzip(packed: bytes) -> bytes:
    return zlib.decompressobj(wbits=31).decompress(packed)


_LZ4_BLOCK_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a block of LZ4's older format when it is unpacked."""


def _unlz4(packed: bytes) -> bytes:
    """Unpack LZ4's older format. apt needs its library, so Debian always has it."""
    try:
        library = ctypes.CDLL("liblz4.so.1")
    except OSError:
        raise MissingError("needs liblz4.so.1 (Debian: liblz4-1)") from None
    # The kernel's build adds the size at the end.
    (size,) = struct.unpack_from("<I", packed, len(packed) - 4)
    room = ctypes.create_string_buffer(_LZ4_BLOCK_BYTES)
    found, at = bytearray(), 4
    while len(found) < size:
        (length,) = struct.unpack_from("<I", packed, at)
        block = packed[at + 4 : at + 4 + length]
        got = library.LZ4_decompress_safe(block, room, len(block), len(room))
        if got <= 0:
            raise ImageError("the kernel cannot be unpacked")
        found += room.raw[:got]
        at += 4 + length
    return bytes(found)


_UNPACKERS: Mapping[bytes, Callable[[bytes], bytes]] = {
    b"\xfd7zXZ\0": _unxz,
    b"\x1f\x8b\x08": _gunzip,
    b"\x02\x21\x4c\x18": _unlz4,
}


def archive(entries: Mapping[str, bytes]) -> bytes:
    """Return files as a cpio archive, with their directories and /dev/console.

    Files are executable. Equal files give equal bytes.
    """
    directories = {
        str(parent)
        for name in (*entries, "dev/console")
        for parent in Path(name).parents
    } - {"."}
    files = sorted(entries.items())
    return b"".join(
        (
            *(_entry(name, stat.S_IFDIR | 0o755) for name in sorted(directories)),
            _entry("dev/console", stat.S_IFCHR | 0o600, device=(5, 1)),
            *(_entry(name, stat.S_IFREG | 0o755, data) for name, data in files),
            _entry("TRAILER!!!", 0),
        )
    )


def _entry(
    name: str, mode: int, data: bytes = b"", device: tuple[int, int] = (0, 0)
) -> bytes:
    """Return a file in cpio's format `newc`."""
    written = os.fsencode(name) + b"\0"
    numbers = (0, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(written), 0)
    head = b"070701" + b"".join(b"%08x" % number for number in numbers) + written
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
