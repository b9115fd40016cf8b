#!/usr/bin/env bash
# Runs govulncheck in the modules with code of ours, and fails where a vulnerability
# is reached that the database knows.
#
#   VULNDB=file:///srv/vulndb tools/vulncheck.sh    a copy of https://vuln.go.dev, or a
#                                                   mirror by https
#
# The database is that of today, and not pinned: what was clean yesterday may not be
# today. Where nobody says which, and the public one cannot be reached, it says so
# and does not fail: a network without it is no finding. With VULNDB, or with
# VULNCHECK=required, it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
scan=$root/bin/govulncheck
public=https://vuln.go.dev
db=${VULNDB:-$public}

# A scanner that finds nothing must be one that can: of an invented database it has to
# report a vulnerability (exit status 3).
status=0
(cd tools/image && "$scan" -db "file://$root/tools/govulncheck/canary" ./...) >/dev/null 2>&1 || status=$?
[ "$status" = 3 ] || { echo "vulncheck: govulncheck does not find what is invented (status $status, want 3)" >&2 && exit 1; }

# reachable whether the database answers.
reachable() {
	case $db in
	file://*) [ -f "${db#file://}/index/db.json" ] ;;
	*) curl -fsS -o /dev/null --retry 2 --max-time 20 "$db/index/db.json" 2>/dev/null ;;
	esac
}
if ! reachable; then
	echo "vulncheck: NOT DONE: the vulnerability database $db cannot be reached; VULNDB=file:///… names a copy" >&2
	[ -z "${VULNDB:-}" ] && [ "${VULNCHECK:-}" != required ] && exit 0
	exit 1
fi

failed=0
for module in . deploy/desktop test/browser test/e2e tools/crdcompat tools/image; do
	(cd "$module" && "$scan" -db "$db" ./...) || { echo "vulncheck: in module $module" >&2 && failed=1; }
done
exit $failed
