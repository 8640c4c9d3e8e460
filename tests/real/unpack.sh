#!/bin/sh
# Fetches the programs of packages.txt that are not here:
#
#     sh tests/real/unpack.sh test    # what `make test` uses
#     sh tests/real/unpack.sh real    # everything, for `make real`
#     sh tests/real/unpack.sh lab     # what `make lab` uses
#     sh tests/real/unpack.sh lab-libvirt    # what `make lab LIBVIRT=1` uses
#
# Nobody's machine gets a running server from its tests: what would bring one is only
# unpacked, into .build/tools. What cannot be had is said, and its tests are skipped.
set -eu
cd "$(dirname "$0")/../.."
wanted=$1
tools=.build/tools
debs=$tools/debs
# Names the programs whose packages are unpacked, each with all that it needs.
unpacked=$tools/programs
log=.build/tools.log
mkdir -p "$tools"
touch "$unpacked"

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
for binaries in /usr/lib/postgresql/*/bin; do
    PATH=$PATH:$binaries
done

# Prints the lines of what is wanted and not here: how, program, packages.
missing() {
    while read -r with how program packages; do
        case $wanted-$with in
        lab-guest | lab-libvirt-guest | test-guest | real-guest) ;;
        test-test | real-test | real-real) ;;
        lab-test | lab-libvirt-test) [ "$program" = ip ] || [ "$program" = nft ] || continue ;;
        lab-libvirt-real) [ "$program" = libvirtd ] || continue ;;
        *) continue ;;
        esac
        if grep -x "$program" "$unpacked"; then
            continue
        fi
        if [ "$how" = copy ] || ! command -v "$program"; then
            echo "$how $program $packages" >&3
        fi
    done <tests/real/packages.txt 3>&1 >/dev/null
}

# Prints a package's name and those of what would be installed with it, without what
# only a running system needs.
closure() {
    apt-get -s install --no-install-recommends "$@" >"$debs/plan" || return 1
    printf '%s\n' "$@"
    awk '$1 == "Inst" { print $2 }' "$debs/plan" |
        grep -E '^(lib|postgresql|linux-image-)' | grep -vE '^libjs-|-perl$|-dev$|-doc$' || :
}

lines=$(missing)
[ -n "$lines" ] || exit 0
names=$(echo "$lines" | cut -d ' ' -f 3- | tr '\n' ' ')
if ! command -v apt-get >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "To run all tests, install the Debian packages $names"
    exit 0
fi

echo "Fetching Debian packages for some tests (once): $names"
# The log is all that is said, but for the end.
exec 4>&1 >"$log" 2>&1
trap '[ $? = 0 ] || echo "Not all could be had ($log); their tests are skipped" >&4
    exit 0' EXIT
apt-get -qq update
export DEBIAN_FRONTEND=noninteractive
rm -rf "$debs"
mkdir "$debs"
failed=0
while read -r how program packages; do
    # shellcheck disable=SC2086 # they are words
    if [ "$how" = install ]; then
        apt-get -qq install --no-install-recommends -y $packages </dev/null || failed=1
    elif closure $packages </dev/null >"$debs/one"; then
        cat "$debs/one" >>"$debs/all"
        echo "$program" >>"$debs/programs"
    else
        failed=1
    fi
done <<END_OF_LINES
$lines
END_OF_LINES
if [ -e "$debs/all" ]; then
    (cd "$debs" && sort -u all | xargs apt-get -qq download)
    for deb in "$debs"/*.deb; do
        dpkg -x "$deb" "$tools"
    done
    cat "$debs/programs" >>"$unpacked"
fi
rm -rf "$debs"
exit "$failed"
