#!/usr/bin/env bash
# Runs every fuzzer of the module for FUZZTIME, one after the other. A failing input is
# written to testdata/fuzz of its package, where `go test` repeats it: commit it with the fix.
#
# The deadline FUZZTIME is not a failure: before Go 1.27 it can surface as the error of a
# busy worker (Go issue 75804). A real failure names the input that it has written.
#
# Minimization is limited: by default it takes up to a minute for each input, as long as a
# short run.
set -uo pipefail
cd "$(dirname "$0")/.."
time=${FUZZTIME:-10s}
only=${1:-.}

# out_of_time distinguishes a run that reached its deadline from a failed one.
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
