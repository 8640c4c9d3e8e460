"""The kernel and the files of guests: unpacked, packed and kept."""

import ctypes
import gzip
import lzma
import os
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from examples.lab.image import (
    MODULES,
    ImageError,
    MissingError,
    archive,
    build,
    kept,
    vmlinux,
)

KERNEL = b"\x7fELF" + os.urandom(1000) + bytes(9_000_000)
"""More than a block of LZ4's older format."""


def lz4(data: bytes) -> bytes:
    library = ctypes.CDLL("liblz4.so.1")
    room = ctypes.create_string_buffer(9_000_000)
    parts = [b"\x02\x21\x4c\x18"]
    for at in range(0, len(data), 8 << 20):
        block = data[at : at + (8 << 20)]
        got = library.LZ4_compress_default(block, room, len(block), len(room))
        parts += (struct.pack("<I", got), room.raw[:got])
    return b"".join((*parts, struct.pack("<I", len(data))))


def bz_image(packed: bytes) -> bytes:
    setup = bytearray(1024)
    setup[0x1F1] = 1
    struct.pack_into("<II", setup, 0x248, 100, len(packed))
    return bytes(setup) + bytes(100) + packed + b"the rest"


@pytest.mark.parametrize("pack", [lzma.compress, gzip.compress, lz4])
def test_kernel_is_unpacked(pack: Callable[[bytes], bytes]) -> None:
    assert vmlinux(bz_image(pack(KERNEL))) == KERNEL


def test_kernel_of_unknown_compression_is_refused() -> None:
    with pytest.raises(ImageError, match="compression of this kernel is unknown"):
        vmlinux(bz_image(b"\x28\xb5\x2f\xfd"))


def test_archive_is_the_same_for_the_same_files() -> None:
    one = archive({"init": b"#!", "bin/a": b"12345"})
    two = archive({"bin/a": b"12345", "init": b"#!"})
    assert one == two
    names = ("bin", "dev", "dev/console", "bin/a", "init", "TRAILER!!!")
    places = [one.index(name.encode() + b"\0") for name in names]
    assert places == sorted(places)


def packages(root: Path, *, without: str = "") -> Path:
    """Make what unpacked packages have."""
    modules = [f"lib/modules/6.1.0/kernel/{name}.ko" for name in MODULES]
    kernel = bz_image(gzip.compress(KERNEL, compresslevel=1))
    for name in ("boot/vmlinuz-6.1.0", "bin/busybox", *modules):
        if without not in name or not without:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(kernel)
    return root


def test_image_is_built_once_for_the_same_packages(tmp_path: Path) -> None:
    tools, cache = packages(tmp_path / "tools"), tmp_path / "cache"
    first = build(tools, cache)
    assert first.kernel.read_bytes() == KERNEL
    built_at = first.kernel.stat().st_mtime_ns
    assert build(tools, cache) == first
    assert first.kernel.stat().st_mtime_ns == built_at
    (tools / "bin/busybox").write_bytes(b"another")
    assert build(tools, cache) != first


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("vmlinuz", "needs a kernel .Debian: linux-image-cloud-amd64.: make tools"),
        ("busybox", "needs busybox .Debian: busybox-static.: make tools"),
        ("virtio_net", "the kernel 6.1.0 has no module virtio_net.ko"),
    ],
)
def test_missing_package_is_named(tmp_path: Path, without: str, message: str) -> None:
    tools = packages(tmp_path / "tools", without=without)
    with pytest.raises(ImageError, match=message) as caught:
        build(tools, tmp_path / "cache")
    assert isinstance(caught.value, MissingError) == ("module" not in message)


def test_directory_that_could_not_be_filled_is_not_kept(tmp_path: Path) -> None:
    def fail(directory: Path) -> None:
        (directory / "half").touch()
        raise ImageError("no")

    with pytest.raises(ImageError):
        kept(tmp_path / "a", fail)
    assert [path.name for path in tmp_path.iterdir()] == ["a.lock"]


def test_first_program_of_a_guest_is_correct_shell() -> None:
    init = Path("examples/lab/init.sh").resolve()
    subprocess.run(["sh", "-n", init], check=True)
