"""The build of a Debian package: a tree of files and its control data.

It needs only dpkg-deb. Builds of the same files are the same, byte for byte: times,
owners and modes are fixed, and dpkg-deb sorts the files.
"""

import gzip
import hashlib
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from string import Template

PROGRAM = 0o755
PLAIN = 0o644

BLOCK = 1024
"""Bytes in a unit of Installed-Size."""

SCRIPTS = ("postinst", "prerm", "postrm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """The date of a package: the time of its source, not of its build."""

    seconds: int

    def rfc(self) -> str:
        """Return it in the format of a Debian changelog."""
        when = datetime.fromtimestamp(self.seconds, tz=UTC)
        return when.strftime("%a, %d %b %Y %H:%M:%S +0000")


@dataclass(slots=True, kw_only=True)
class Stage:
    """The tree of one package."""

    name: str
    version: str
    """The version in Debian's notation."""
    architecture: str
    maintainer: str
    moment: Moment
    directory: Path
    """The directory of the tree, which must be empty."""
    texts: Path
    """The directory with the texts of all packages, one subdirectory for each."""
    _conffiles: list[str] = field(default_factory=list[str])

    def put(self, place: str, data: bytes | str, *, mode: int = PLAIN) -> None:
        """Add a file at an absolute path."""
        file = self._file(place)
        file.write_bytes(data.encode() if isinstance(data, str) else data)
        file.chmod(mode)

    def put_conffile(self, place: str, data: bytes | str) -> None:
        """Add a configuration file, whose changes an upgrade keeps."""
        self.put(place, data)
        self._conffiles.append(place)

    def put_packed(self, place: str, data: bytes | str) -> None:
        """Add a compressed file, as Debian does for documents."""
        raw = data.encode() if isinstance(data, str) else data
        self.put(f"{place}.gz", gzip.compress(raw, 9, mtime=0))

    def link(self, place: str, target: str) -> None:
        """Add a symbolic link."""
        self._file(place).symlink_to(target)

    def own(self, name: str) -> str:
        """Return one of the package's texts."""
        return (self.texts / self.name / name).read_text(encoding="utf-8")

    def put_documents(
        self, changes: str, documents: Mapping[str, bytes], *, bundled: str = ""
    ) -> None:
        """Add files below /usr/share/doc, by name there.

        `bundled` has the licenses of other projects in the format of copyright.
        """
        place = f"/usr/share/doc/{self.name}"
        entry = (
            f"{self.name} ({self.version}) unstable; urgency=medium\n\n"
            "  * CHANGELOG.md says what is new.\n\n"
            f" -- {self.maintainer}  {self.moment.rfc()}\n"
        )
        self.put_packed(f"{place}/changelog", entry)
        self.put_packed(f"{place}/CHANGELOG.md", changes)
        own = (self.texts / "copyright").read_text(encoding="utf-8")
        self.put(f"{place}/copyright", own + bundled)
        for name, data in documents.items():
            self.put(f"{place}/{name}", data)

    def build(self, dist: Path, words: Mapping[str, str]) -> Path:
        """Build the package into a directory; `words` fill its control file."""
        control = self.directory / "DEBIAN"
        sizes = [-(-file.lstat().st_size // BLOCK) for file in self._files()]
        md5sums = "".join(
            f"{hashlib.md5(file.read_bytes(), usedforsecurity=False).hexdigest()}  "
            f"{file.relative_to(self.directory).as_posix()}\n"
            for file in self._files()
            if not file.is_symlink()
        )
        about = Template(self.own("control")).substitute(
            words,
            version=self.version,
            architecture=self.architecture,
            maintainer=self.maintainer,
            size=sum(sizes),
        )
        control.mkdir()
        (control / "control").write_text(about, encoding="utf-8")
        (control / "md5sums").write_text(md5sums, encoding="utf-8")
        listed = "".join(f"{place}\n" for place in self._conffiles)
        (control / "conffiles").write_text(listed, encoding="utf-8")
        for file in control.iterdir():
            file.chmod(PLAIN)
        for name in SCRIPTS:
            script = control / name
            script.write_text(self.own(name), encoding="utf-8")
            script.chmod(PROGRAM)
        self._settle()
        dist.mkdir(parents=True, exist_ok=True)
        target = dist / f"{self.name}_{self.version}_{self.architecture}.deb"
        subprocess.run(
            # A higher compression takes five times as long and saves a tenth of the size.
            [
                "dpkg-deb",
                "--root-owner-group",
                "-Zxz",
                "-z1",
                "--build",
                self.directory,
                target,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            env={"PATH": os.defpath, "SOURCE_DATE_EPOCH": str(self.moment.seconds)},
        )
        return target

    def _file(self, place: str) -> Path:
        assert place.startswith("/"), place
        file = self.directory / place[1:]
        file.parent.mkdir(parents=True, exist_ok=True)
        return file

    def _files(self) -> list[Path]:
        return sorted(
            path
            for path in self.directory.rglob("*")
            if path.is_symlink() or path.is_file()
        )

    def _settle(self) -> None:
        """Set the times of all files, and the modes of directories."""
        # Directories last, since changes inside them change their times.
        for path in sorted(self.directory.rglob("*"), reverse=True):
            if path.is_dir() and not path.is_symlink():
                path.chmod(PROGRAM)
            times = (self.moment.seconds, self.moment.seconds)
            os.utime(path, times, follow_symlinks=False)
        self.directory.chmod(PROGRAM)
