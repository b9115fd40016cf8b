#!/usr/bin/env bash
# Takes the hub out of its cluster, or an agent out of its member, however it was
# installed, and leaves nothing behind.
#
#   deploy/uninstall.sh hub [KUBECTL'S FLAGS]               all sessions are ended first
#   deploy/uninstall.sh member [--homes] [KUBECTL'S FLAGS]  when the hub is gone, or has
#                                                           let go of the member; --homes
#                                                           deletes the users' homes too
#
# NAMESPACE (vdi-system) is where it is, WAIT (600) how many seconds to wait for
# sessions to end.
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

# empty ends all sessions, and then removes the members: these are refused until the
# hub has counted that nothing of theirs is left. Then what sessions were made of.
empty() {
	installed vdisessions || return 0
	say "ending all sessions; each is gone once its member has confirmed that nothing of it runs"
	k delete vdisessions --all --all-namespaces --timeout="${wait}s" ||
		fail "sessions are left: kubectl describe vdis says what each waits for; a member that is off for good is declared so by kubectl vdi fence"
	local end=$((SECONDS + wait))
	until k delete memberclusters --all --timeout="${wait}s"; do
		[ $SECONDS -lt $end ] || fail "members are left, see above"
		sleep 5
	done
	# The hub holds what is in use, and has to let go of it while it is there.
	k delete vditemplates --all --timeout="${wait}s" &&
		k delete vdihomes --all --all-namespaces --timeout="${wait}s" ||
		fail "templates or homes are left: the hub lets go of them, and does not run. See to it (kubectl -n $namespace get pods), and try again"
}

# without takes away what is named NAME: its release, its Pods, its roles, its kinds.
without() {
	local name=$1 release kind role
	shift
	release=$(k get deployment "$name" -n "$namespace" --ignore-not-found -o jsonpath='{.metadata.annotations.meta\.helm\.sh/release-name}')
	say "removing $name"
	k delete deployment "$name" -n "$namespace" --ignore-not-found
	# An API server that has not served a kind before takes five minutes to delete it:
	# its first look whether anything of it is left fails.
	for kind in "$@"; do ! installed "${kind%%.*}" || k get "$kind" --all-namespaces -o name >/dev/null || true; done
	k delete crd "$@" --ignore-not-found
	k delete clusterrolebinding,clusterrole "$name"{,-sessions,-user-roles,-metrics,-metrics-reader} --ignore-not-found
	for role in sessions user-roles; do
		k delete rolebinding --all-namespaces --field-selector "metadata.name=$name-$role" --ignore-not-found
	done
	k delete priorityclass -l "app.kubernetes.io/name=$name,app.kubernetes.io/part-of=vdi-fleet" --ignore-not-found
	k delete service,serviceaccount,role,rolebinding,poddisruptionbudget,networkpolicy,configmap,secret -n "$namespace" \
		-l "app.kubernetes.io/name=$name" --ignore-not-found
	k delete serviceaccount,role,rolebinding,poddisruptionbudget "$name" -n "$namespace" --ignore-not-found
	[ -z "$release" ] || k delete secret -n "$namespace" -l "owner=helm,name=$release"
}

# last removes the namespace, unless the other one is still there.
last() {
	if [ -n "$(k get deployment vdi-hub vdi-agent -n "$namespace" --ignore-not-found -o name)" ]; then
		say "namespace $namespace stays: something of vdi-fleet still runs there"
	else
		k delete namespace "$namespace" --ignore-not-found --wait=false
	fi
}

case $what in
hub)
	empty
	k delete mutatingadmissionpolicybinding,mutatingadmissionpolicy vdi-session-finalizer --ignore-not-found
	k delete validatingadmissionpolicybinding,validatingadmissionpolicy --ignore-not-found \
		vdi-finalizers vdi-hub-pods vdi-hub-secrets vdi-hub-user-roles vdi-hub-user-rolebindings vdi-member-fenced vdi-member-removal \
		vdi-review-session vdi-session-operation vdi-session-owner vdi-session-placement vdi-session-policy vdi-session-user
	k delete clusterrole vdi-user vdi-templates vdi-viewer vdi-operator --ignore-not-found
	without vdi-hub {memberclusters,placementpolicies,placementreviews,vdihomes,vdisessions,vditemplates}.vdi.kasm.io
	k delete rolebinding,role --all-namespaces -l vdi.kasm.io/user-role=true --ignore-not-found
	last
	;;
member)
	if installed sessionassignments && [ -n "$(k get sessionassignments --all-namespaces -o name)" ]; then
		fail "sessions are left here: let the hub remove the member first (kubectl delete membercluster NAME); what no hub knows any more goes with: kubectl delete sessionassignments --all --all-namespaces"
	fi
	without vdi-agent sessionassignments.vdi.kasm.io
	if $homes; then
		k delete persistentvolumeclaims --all-namespaces -l app.kubernetes.io/managed-by=vdi-fleet
	else
		k get persistentvolumeclaims --all-namespaces -l app.kubernetes.io/managed-by=vdi-fleet --no-headers 2>/dev/null |
			awk '{n++} END {if (n) print "uninstall: " n " homes stay; --homes deletes them"}'
	fi
	last
	;;
*)
	sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2
	exit 2
	;;
esac
say "done"
