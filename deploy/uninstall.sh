#!/usr/bin/env bash
# Removes the hub or an agent from its cluster, with all of its objects, however it was
# installed.
#
#   deploy/uninstall.sh hub [KUBECTL FLAGS]               deletes all sessions first
#   deploy/uninstall.sh member [--homes] [KUBECTL FLAGS]  after the hub, or its MemberCluster,
#                                                         was removed; --homes deletes the
#                                                         users' homes too
#
# NAMESPACE is its namespace (default vdi-system), WAIT the timeout in seconds for sessions
# to end (default 600).
set -euo pipefail

namespace=${NAMESPACE:-vdi-system}
wait=${WAIT:-600}
what=${1:-}
shift || true
homes=false
if [ "${1:-}" = --homes ]; then
	homes=true
	shift
fi
flags=("$@")

k() { kubectl ${flags[@]+"${flags[@]}"} "$@"; }
say() { echo "uninstall: $*"; }
fail() { say "$*" >&2 && exit 1; }
installed() { k get crd "$1.vdi.kasm.io" >/dev/null 2>&1; }

# empty deletes all sessions, and then the members, which admission denies until the hub
# counts none of their sessions. Then it deletes policies, homes and templates.
empty() {
	installed vdisessions || return 0
	say "deleting all sessions; each remains until its member confirms that nothing of it runs"
	k delete vdisessions --all --all-namespaces --timeout="${wait}s" ||
		fail "sessions remain: kubectl describe vdis states what each waits for; if a member is permanently off, declare it fenced with kubectl vdi fence"
	local end=$((SECONDS + wait))
	until k delete memberclusters --all --timeout="${wait}s"; do
		[ $SECONDS -lt $end ] || fail "members remain, see above"
		sleep 5
	done
	# The finalizers of objects in use are removed by the hub, which must still run.
	k delete vditemplates --all --timeout="${wait}s" &&
		k delete vdihomes --all --all-namespaces --timeout="${wait}s" ||
		fail "templates or homes remain: only a running hub removes their finalizers; check it (kubectl -n $namespace get pods), and try again"
}

# without deletes what is named NAME: its release, Pods, roles and CRDs.
without() {
	local name=$1 release kind role
	shift
	release=$(k get deployment "$name" -n "$namespace" --ignore-not-found -o jsonpath='{.metadata.annotations.meta\.helm\.sh/release-name}')
	say "removing $name"
	k delete deployment "$name" -n "$namespace" --ignore-not-found
	# An API server that has not served a kind before takes five minutes to delete its CRD,
	# since its first check for remaining objects fails.
	for kind in "$@"; do ! installed "${kind%%.*}" || k get "$kind" --all-namespaces -o name >/dev/null || true; done
	[ $# -eq 0 ] || k delete crd "$@" --ignore-not-found
	k delete clusterrolebinding,clusterrole "$name"{,-sessions,-user-roles,-metrics,-metrics-reader,-node-groups,-legacy-impersonation} --ignore-not-found
	k delete rolebinding,role "$name-node-groups" -n kube-system --ignore-not-found
	for role in sessions user-roles; do
		k delete rolebinding --all-namespaces --field-selector "metadata.name=$name-$role" --ignore-not-found
	done
	k delete priorityclass -l "app.kubernetes.io/name=$name,app.kubernetes.io/part-of=vdi-fleet" --ignore-not-found
	k delete service,serviceaccount,role,rolebinding,poddisruptionbudget,networkpolicy,ingress,configmap,secret -n "$namespace" \
		-l "app.kubernetes.io/name=$name" --ignore-not-found
	k delete serviceaccount,role,rolebinding,poddisruptionbudget "$name" -n "$namespace" --ignore-not-found
	[ -z "$release" ] || k delete secret -n "$namespace" -l "owner=helm,name=$release"
}

# last deletes the namespace, unless the other component is still installed there.
last() {
	if [ -n "$(k get deployment vdi-hub vdi-agent -n "$namespace" --ignore-not-found -o name)" ]; then
		say "namespace $namespace is kept: vdi-fleet is still installed there"
	else
		k delete namespace "$namespace" --ignore-not-found --wait=false
	fi
}

case $what in
hub)
	empty
	k delete mutatingadmissionpolicybinding,mutatingadmissionpolicy vdi-session-finalizer --ignore-not-found
	k delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found \
		vdi-access-ticket vdi-finalizers vdi-hub-pods vdi-hub-secrets vdi-hub-user-roles vdi-hub-user-rolebindings vdi-member-fenced vdi-member-removal \
		vdi-review-session vdi-session-operation vdi-session-owner vdi-session-placement vdi-session-policy vdi-session-user
	k delete clusterrole vdi-user vdi-templates vdi-viewer vdi-operator --ignore-not-found
	without vdi-console accesstickets.vdi.kasm.io
	k delete secret vdi-console-keys -n "$namespace" --ignore-not-found
	without vdi-hub {memberclusters,placementpolicies,placementreviews,vdihomes,vdisessions,vditemplates}.vdi.kasm.io
	k delete rolebinding,role --all-namespaces -l vdi.kasm.io/user-role=true --ignore-not-found
	last
	;;
member)
	if installed sessionassignments && [ -n "$(k get sessionassignments --all-namespaces -o name)" ]; then
		fail "assignments remain: remove the member from the hub first (kubectl delete membercluster NAME); if the hub no longer exists, kubectl delete sessionassignments --all --all-namespaces"
	fi
	without vdi-door
	without vdi-agent sessionassignments.vdi.kasm.io
	k delete deployment -n "$namespace" -l vdi.kasm.io/buffer,app.kubernetes.io/managed-by=vdi-fleet --ignore-not-found
	# The isolation that desktops of a namespace shared, which the agent would delete later.
	k delete networkpolicy,poddisruptionbudget --all-namespaces -l app.kubernetes.io/managed-by=vdi-fleet --ignore-not-found
	if $homes; then
		k delete persistentvolumeclaims --all-namespaces -l app.kubernetes.io/managed-by=vdi-fleet
	else
		k get persistentvolumeclaims --all-namespaces -l app.kubernetes.io/managed-by=vdi-fleet --no-headers 2>/dev/null |
			awk '{n++} END {if (n) print "uninstall: " n " homes are kept; --homes deletes them"}'
	fi
	last
	;;
*)
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
say "done"
