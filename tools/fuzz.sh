#!/usr/bin/env bash
# Runs every fuzzer of the module for FUZZTIME each, one after the other. What
# one finds is left under testdata/fuzz of its package, for `go test` to repeat:
# commit it with the mend.
#
# The end of FUZZTIME itself is no failure: before Go 1.27 the coordinator's
# deadline can surface as the error of a worker that is still busy (Go issue
# 75804). A real failure names the input that it has written.
#
# Inputs are minimized in few tries: by default one takes up to a minute, which
# is all the time that a short run has.
set -uo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
only=${1:-.}

# out_of_time tells a run that ended at its deadline from one that failed.
out_of_time() {
	grep -qx '    context deadline exceeded' <<<"$1" && grep -q ', now fuzzing with' <<<"$1" &&
		! grep -qE 'Failing input written|panic:|DATA RACE|^FAIL.*build failed' <<<"$1"
}

failed=()
found=0
while IFS=: read -r file name; do
	[[ $name =~ $only ]] || continue
	found=$((found + 1))
	package=./$(dirname "$file")
	if output=$(go test -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 200x "$package" 2>&1) || out_of_time "$output"; then
		echo "fuzz: $package $name ok: $(grep -o 'execs: [0-9]*' <<<"$output" | tail -1)"
	else
		echo "$output"
		failed+=("$package $name")
	fi
done < <(git ls-files --cached --others --exclude-standard -- '*_test.go' |
	xargs grep -H -o -E '^func Fuzz[A-Za-z0-9]*' | sed 's/:func /:/' | sort)

[ $found -gt 0 ] || { echo "fuzz: no fuzzer matches $only" >&2 && exit 2; }
[ ${#failed[@]} -eq 0 ] || { printf 'fuzz: FAILED: %s\n' "${failed[@]}" >&2 && exit 1; }
