#!/usr/bin/env bash
# Build the images of the container tests on a Debian machine that reaches package indexes but no image registry.
#
#   phalanx-test/redis     Debian with redis-server
#   phalanx-test/python    Debian with python3 and venv
#   phalanx-test/phalanx   deploy/Dockerfile on phalanx-test/python
#
# Needs root, docker with a running daemon, debootstrap, and Debian's own python3 with venv. Base images are built once
# (again when their recipe below changes); the last one is built on every call, and Docker's layer cache makes that
# quick. To refresh everything: remove the images and the folder PHALANX_CACHE (~/.cache/phalanx).
set -euo pipefail

root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${PHALANX_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/phalanx}
mirror=${PHALANX_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# The host's own release, so that the host's /usr/bin/python3 is the image's: see wheelhouse().
suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$cache"

log() { printf '%s images: %s\n' "$(date +%H:%M:%S)" "$*"; }

# base NAME PACKAGES [CHANGE...]: a minimal Debian with PACKAGES, imported as phalanx-test/NAME.
base() {
    local image=phalanx-test/$1 name=$1 packages=$2
    shift 2
    local recipe changes=()
    recipe=$(printf '%s\n' "$suite" "$packages" "$@" | sha256sum | cut -c 1-16)
    if [[ $(docker image inspect --format '{{index .Config.Labels "recipe"}}' "$image" 2> /dev/null) == "$recipe" ]]; then
        log "$image is there"
        return
    fi
    local tarball=$cache/$name-$recipe.tar
    if [[ ! -f $tarball ]]; then
        log "debootstrap $suite with $packages"
        local tree=$scratch/$name
        if ! debootstrap --variant=minbase --include="$packages" "$suite" "$tree" "$mirror" > "$scratch/$name.log" 2>&1; then
            tail -n 20 "$scratch/$name.log" >&2
            return 1
        fi
        rm -rf "$tree"/var/cache/apt/archives/*.deb "$tree"/var/lib/apt/lists/* "$tree"/usr/share/{doc,man,locale}
        mkdir -p "$tree/data"
        chroot "$tree" sh -c 'if id redis > /dev/null 2>&1; then chown redis:redis /data; fi'
        # Devices and kernel file systems are the container runtime's business.
        tar --create --file "$tarball.part" --numeric-owner --exclude './dev/*' --exclude './proc/*' \
            --exclude './sys/*' --directory "$tree" .
        # A whole tarball or none: the next call trusts what it finds.
        mv "$tarball.part" "$tarball"
        rm -rf "$tree"
    fi
    local change
    for change in "LABEL recipe=$recipe" "$@"; do
        changes+=(--change "$change")
    done
    docker import "${changes[@]}" "$tarball" "$image" > /dev/null
    log "$image built"
}

# wheelhouse: print the folder of the wheels that the image needs; fetch them if pyproject.toml asks for others.
# Wheels are fetched here and copied in, so that none of this machine's network settings end up in an image. It must be
# the interpreter of the image that resolves them: an environment marker may tell 3.11.2 from 3.11.7.
wheelhouse() {
    local wanted folder
    wanted=$(/usr/bin/python3 - "$root/pyproject.toml" << 'PY'
import sys, tomllib
with open(sys.argv[1], "rb") as file:
    settings = tomllib.load(file)
print(*settings["build-system"]["requires"], *settings["project"]["dependencies"], sep="\n")
PY
    )
    folder=$cache/wheels-$({ echo "$wanted"; /usr/bin/python3 -VV; } | sha256sum | cut -c 1-16)
    if [[ ! -d $folder ]]; then
        log 'fetching wheels' >&2
        rm -rf "$cache"/wheels-*
        /usr/bin/python3 -m venv "$scratch/venv"
        echo "$wanted" > "$scratch/requirements.txt"
        "$scratch/venv/bin/pip" wheel --quiet --disable-pip-version-check --wheel-dir "$scratch/wheels" \
            --requirement "$scratch/requirements.txt" >&2
        # Copied beside its place, then renamed: the next call trusts what it finds.
        rm -rf "$folder.part"
        cp -r "$scratch/wheels" "$folder.part"
        mv "$folder.part" "$folder"
    fi
    echo "$folder"
}

# The build context is streamed together from two places, so that nothing is written into the source tree.
worker_image() {
    local wheels before
    wheels=$(wheelhouse)
    before=$(docker image inspect --format '{{.Id}}' phalanx-test/phalanx 2> /dev/null || true)
    log 'building phalanx-test/phalanx'
    cd "$root"
    if ! tar --create --exclude __pycache__ --transform "s,^${wheels#/},wheelhouse," \
        deploy/Dockerfile pyproject.toml README.md LICENSE ./*/phalanx --directory / "${wheels#/}" |
        docker build --file deploy/Dockerfile --build-arg BASE_IMAGE=phalanx-test/python --tag phalanx-test/phalanx - \
            > "$scratch/build.log" 2>&1; then
        cat "$scratch/build.log" >&2
        return 1
    fi
    if [[ -n $before && $before != "$(docker image inspect --format '{{.Id}}' phalanx-test/phalanx)" ]]; then
        docker image rm "$before" > /dev/null 2>&1 || true # a container may still use it
    fi
    log 'phalanx-test/phalanx built'
}

base redis redis-server \
    'USER redis' 'WORKDIR /data' 'EXPOSE 6379' \
    'CMD ["redis-server", "--bind", "0.0.0.0", "--protected-mode", "no", "--save", ""]'
base python python3,python3-venv,ca-certificates 'CMD ["python3"]'
worker_image
