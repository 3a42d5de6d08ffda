#!/bin/sh
# Builds the reference programs and installs the references that Debian packages.
#
# What cannot be installed here is reported as missing by the benchmark that wanted it. Changes
# nothing where everything is there already.
set -eu
here=$(dirname "$(readlink -f "$0")")

make --silent --directory "$here/reference"

missing() {
    for pair in nsenter:util-linux bwrap:bubblewrap crun:crun runc:runc; do
        command -v "${pair%%:*}" >/dev/null || echo "${pair#*:}"
    done
    [ -e "$profile" ] || echo golang-github-containers-common
}

# Only one file of this package is wanted, and none of what it depends on.
fetch_profile() (
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    # apt reads as a user of its own.
    chmod 755 "$folder"
    cd "$folder"
    apt-get download --quiet=2 golang-github-containers-common
    dpkg-deb --extract ./*.deb .
    cp usr/share/containers/seccomp.json "$profile"
)

profile=$(readlink -f "$here/../..")/build/reference/seccomp.json
wanted=$(missing)
[ -n "$wanted" ] || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "benchmarks: not there, and only root can install them:" $wanted >&2
    exit 0
fi
export DEBIAN_FRONTEND=noninteractive
# An index that cannot be renewed may still do; a package that is missing then is reported by name.
apt-get update --quiet=2 || true
for package in $wanted; do
    case $package in
    golang-github-containers-common) fetch_profile ;;
    *) apt-get install --quiet=2 --yes --no-install-recommends "$package" >/dev/null ;;
    esac || echo "benchmarks: cannot get $package" >&2
done
