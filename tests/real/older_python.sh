#!/bin/sh
# Unpacks the oldest Python that the agent runs on: 3.9, as Debian 11 has it, with that
# release's SQLite and OpenSSL.
#
#     sh tests/real/older_python.sh
#     sh tests/real/older_python.sh always
#
# Nothing is done where `python3.9` runs, except with `always`: a guest of the lab needs a
# copy. Nothing is installed: the packages are fetched with lists and a cache of their own,
# from the mirror that this machine's sources name, or from where that keeps old releases,
# and apt checks their signatures. What cannot be had is said, and its tests are skipped.
# tests/support/pythons.py finds what is unpacked.
set -eu
cd "$(dirname "$0")/../.."
. tests/real/older_release.sh
version=3.9
packages="python3.9-minimal libpython3.9-minimal libpython3.9-stdlib libexpat1 libffi7
    libmpdec3 libsqlite3-0 libssl1.1"
place=$PWD/.build/tools/python$version
log=.build/tools-python.log
works='import ctypes, hashlib, sqlite3, ssl, zoneinfo'

if [ -e "$place" ]; then
    exit 0
fi
if [ "${1-}" != always ] && "python$version" -c "$works" 2>/dev/null; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! [ -e "$keyring" ]; then
    echo "To run all tests, install Python $version: there is no Debian here to have it from"
    exit 0
fi

echo "Fetching Python $version of Debian's $release for some tests (once)"
work=$PWD/.build/python$version.work
mkdir -p "$(dirname "$place")"
rm -rf "$work"
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/root"
# The log is all that is said, but for the end.
exec 4>&1 >"$log" 2>&1
trap 'status=$?; rm -rf "$work"; [ $status = 0 ] ||
    echo "Python $version could not be had ($log); its tests are skipped" >&4
    exit 0' EXIT

# shellcheck disable=SC2086 # they are words
fetch $packages
for deb in "$work"/*.deb; do
    dpkg -x "$deb" "$work/root"
done

# Its own libraries are for it alone: whatever it starts finds the machine's.
cd "$work/root/usr/bin"
mv "python$version" "python$version.elf"
cat >"python$version" <<END_OF_PROGRAM
#!/bin/sh
root=$place
for loader in /lib64/ld-linux* /lib/ld-linux*; do
    [ ! -e "\$loader" ] || break
done
libraries=\$(echo "\$root"/usr/lib/*-linux-gnu* "\$root"/lib/*-linux-gnu* | tr ' ' :)
exec "\$loader" --library-path "\$libraries" --argv0 "\$root/usr/bin/python$version" \\
    "\$root/usr/bin/python$version.elf" "\$@"
END_OF_PROGRAM
chmod +x "python$version"
mv "$work/root" "$place"
cd - >/dev/null
"$place/usr/bin/python$version" -c "$works" || { rm -rf "$place"; exit 1; }
