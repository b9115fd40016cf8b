#!/bin/sh
# Runs docker build with these arguments, quietly unless it fails. Debian's Docker has only the
# classic builder, which newer clients must request, with a deprecation warning each time.
out=$(DOCKER_BUILDKIT=${DOCKER_BUILDKIT:-0} docker build -q "$@" 2>&1) || { echo "$out" >&2 && exit 1; }
