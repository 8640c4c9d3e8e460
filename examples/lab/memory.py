"""The memory of a guest that has booted, and does not know yet who it is.

It is saved once. A guest that is restored from it runs within half a second, where a boot
without hardware virtualization takes some seconds.
"""

import asyncio
import hashlib
import subprocess
from collections.abc import Sequence
from pathlib import Path

from examples.lab.image import Image, ImageError, kept
from examples.lab.start_guest import MEMORY_MIB, machine

from forewarn.drivers.qemu.qmp import Monitor, MonitorError, open_monitor

BOOT_SECONDS = 120.0
"""Maximum seconds of a boot on a busy machine; an idle one needs three."""

SAVE_SECONDS = 60.0
"""Maximum seconds to write the memory; it takes less than one."""

_ANY_MAC = "52:54:00:00:00:01"
"""Each guest sets its own when it learns who it is."""


def saved(image: Image, qemu: Sequence[str], *, memory: int = MEMORY_MIB) -> Path:
    """Return the file with the memory of a booted guest; raises ImageError.

    `qemu` is the command of QEMU: `env` with its variables, and the program.
    """
    words = machine(
        kernel=str(image.kernel),
        initramfs=str(image.initramfs),
        memory=memory,
        append="",
        network="hubport,hubid=0",
        mac=_ANY_MAC,
    )
    version = subprocess.run(
        ["env", *qemu, "--version"], capture_output=True, text=True, check=True
    ).stdout
    digest = hashlib.sha256("\n".join((version, *words)).encode()).hexdigest()[:16]

    def make(directory: Path) -> None:
        asyncio.run(_boot_and_save(["env", *qemu, *words], directory))

    return kept(image.directory / f"memory-{digest}", make) / "memory"


async def _boot_and_save(words: Sequence[str], directory: Path) -> None:
    serial, socket = directory / "serial", directory / "qmp"
    with (directory / "errors").open("wb") as errors:
        process = await asyncio.create_subprocess_exec(
            *words,
            *("-chardev", f"file,id=serial,path={serial}", "-serial", "chardev:serial"),
            *("-qmp", f"unix:{socket},server=on,wait=off"),
            stdin=asyncio.subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        async with asyncio.timeout(BOOT_SECONDS):
            while b"READY\r\n" not in _read(serial):
                if process.returncode is not None:
                    raise ImageError(f"QEMU ended: {_read(directory / 'errors')!r}")
                await asyncio.sleep(0.05)
        async with await open_monitor(socket) as monitor:
            await _save(monitor, directory / "memory")
    except TimeoutError:
        raise ImageError(
            f"the guest did not boot within {BOOT_SECONDS:g} s: {_read(serial)[-2000:]!r}"
        ) from None
    except MonitorError as error:
        raise ImageError(f"the guest's memory was not saved: {error}") from None
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


async def _save(monitor: Monitor, path: Path) -> None:
    async with asyncio.timeout(SAVE_SECONDS):
        await monitor.execute("migrate-set-parameters", {"max-bandwidth": 1 << 32})
        await monitor.execute("migrate", {"uri": f"exec:cat >{path}"})
        while True:
            found = await monitor.execute("query-migrate")
            if found.get("status") == "completed":
                return
            if found.get("status") == "failed":
                raise MonitorError(str(found.get("error-desc", found)))
            await asyncio.sleep(0.05)
