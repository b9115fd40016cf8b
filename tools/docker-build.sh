#!/bin/sh
# docker build with these arguments, quiet unless it fails. Debian's Docker has the
# classic builder alone, which a newer client must ask for, and is told each time
# that it is deprecated.
out=$(DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-0} docker build -q "$@" 2>&1) || { echo "$out" >&2 && exit 1; }
