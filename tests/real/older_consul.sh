#!/bin/sh
# Unpacks Consul 1.8, as Debian 11 has it: later releases have none.
#
#     sh tests/real/older_consul.sh
#
# Nothing is done where `consul` runs, and nothing is installed. What cannot be had is
# said, and its tests are skipped.
set -eu
cd "$(dirname "$0")/../.."
. tests/real/older_release.sh
place=$PWD/.build/tools/usr/bin/consul
log=.build/tools-consul.log

if command -v consul >/dev/null || [ -e "$place" ]; then
    exit 0
fi
if ! command -v apt-get >/dev/null || ! [ -e "$keyring" ]; then
    echo "To run all tests, install Consul: there is no Debian here to have it from"
    exit 0
fi

echo "Fetching Consul of Debian's $release for some tests (once)"
work=$PWD/.build/consul.work
mkdir -p "$(dirname "$place")"
rm -rf "$work"
mkdir -p "$work/state/lists/partial" "$work/cache/archives/partial" "$work/root"
# The log is all that is said, but for the end.
exec 4>&1 >"$log" 2>&1
trap 'status=$?; rm -rf "$work"; [ $status = 0 ] ||
    echo "Consul could not be had ($log); its tests are skipped" >&4
    exit 0' EXIT

fetch consul
dpkg -x "$work"/consul_*.deb "$work/root"
"$work/root/usr/bin/consul" version
mv "$work/root/usr/bin/consul" "$place"
