#!/usr/bin/env bash
# Builds the desktop image, reproducibly for the same packages and commit.
#
#   DESKTOP_IMG=vdi-desktop:1.0 DESKTOP_PACKAGES="firefox-esr" deploy/desktop/build.sh
#
# The root file system is cached in dist/desktop, and rebuilt when debian.sh, its files or the
# packages change, or with FRESH=1. Needs root, Docker, and mmdebstrap, which is installed
# with apt-get if it is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."

image=${DESKTOP_IMG:-vdi-desktop:dev}
epoch=1767225600 # 2026-01-01: the date of all files in the image
packages=${DESKTOP_PACKAGES:-}
context=$PWD/dist/desktop
export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0 SOURCE_DATE_EPOCH=$epoch
mkdir -p "$context"

command -v mmdebstrap >/dev/null || {
	echo "desktop-image: installing mmdebstrap"
	apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mmdebstrap >/dev/null
}
inputs=$({ cat deploy/desktop/debian.sh deploy/desktop/files/*; echo "$packages"; } | sha256sum | cut -d' ' -f1)
if [ -n "${FRESH:-}" ] || [ ! -f "$context/debian.tar" ] || [ "$(cat "$context/.inputs" 2>/dev/null)" != "$inputs" ]; then
	echo "desktop-image: building the root file system (2 minutes or more)"
	rm -f "$context/.inputs"
	# shellcheck disable=SC2086
	deploy/desktop/debian.sh "$context/debian.tar" $packages >"$context/debian.log" 2>&1 || { tail -20 "$context/debian.log" >&2 && exit 1; }
	echo "$inputs" >"$context/.inputs"
fi
(cd deploy/desktop && go build -trimpath -buildvcs=false -ldflags "-s -w -buildid=" -o "$context/vdi-desktop" .)

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd tools/image && go build -buildvcs=false -o "$scratch/image" .)
tools/docker-build.sh -f deploy/desktop/Dockerfile -t "$image" "$context"
docker save "$image" -o "$scratch/built.tar"
"$scratch/image" --epoch "$epoch" --platform "linux/$(go env GOARCH)" "$scratch/built.tar" "$scratch/image.tar" "$image" >/dev/null
docker load -q -i "$scratch/image.tar" >/dev/null
printf 'desktop-image: %-32s %5s  %s\n' "$image" \
	"$(docker image inspect -f '{{.Size}}' "$image" | numfmt --to=iec)" "$(docker image inspect -f '{{.Id}}' "$image")"
