# shellcheck shell=sh
# How packages of Debian 11 are had for tests, by who sources this: it sets $work, a
# directory of its own. Nothing is installed, and apt checks the signatures.
release=bullseye
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# Prints where Debian's packages are: what the machine uses, then what its sources only
# mention, as an image does with the archive that it was made from.
mirrors() {
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' |
        sort -u | sed 's,/*$,,' >"$work/mirrors"
    cat "$work/mirrors"
    sed 's,/debian$,/debian-archive/debian,' "$work/mirrors"
    cat /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null |
        grep -oE '[a-z]+://[^ ]+/archive/debian/[^ ]+' || :
}

apt() {
    apt-get -o Dir::Etc::SourceList="$work/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::State="$work/state" -o Dir::State::status=/dev/null \
        -o Dir::Cache="$work/cache" -o APT::Sandbox::User=root \
        -o Acquire::Languages=none -o Acquire::Check-Valid-Until=false "$@"
}

# Downloads packages into $work. An old release leaves a mirror one day.
fetch() {
    for mirror in $(mirrors); do
        echo "deb [signed-by=$keyring] $mirror $release main" >"$work/sources.list"
        if apt update && (cd "$work" && apt -qq download "$@"); then
            return 0
        fi
    done
    return 1
}
