package messages

import "github.com/vdi-fleet/vdi-fleet/api/v1alpha1"

// sentences are what users read of each reason of a session's conditions. A reason of a condition
// that is True has one too: it is shown until the desktop is ready.
var sentences = map[string]string{
	// Accepted
	v1alpha1.ReasonAccepted:                  "Your desktop is about to get its place.",
	v1alpha1.ReasonTemplateNotFound:          "This kind of desktop does not exist any more. Start another one.",
	v1alpha1.ReasonTemplateDisabled:          "This kind of desktop is switched off at the moment. Start another one, or ask your administrator.",
	v1alpha1.ReasonTemplateInvalid:           "This kind of desktop is set up incorrectly. Ask your administrator to correct it.",
	v1alpha1.ReasonTemplateTerminating:       "This kind of desktop is being removed. Start another one.",
	v1alpha1.ReasonResourcesExceedMaximum:    "This desktop asks for more CPU, memory or disk than is allowed. End it, and start one with less.",
	v1alpha1.ReasonResourcesInvalid:          "This desktop asks for no CPU, memory or disk at all. End it, and start another one.",
	v1alpha1.ReasonSessionTooLarge:           "The description of this desktop is too large. End it, and start one with less in it.",
	v1alpha1.ReasonTimeoutExceedsMaximum:     "This desktop asks for more time than is allowed. End it, and start one with less.",
	v1alpha1.ReasonIdleTimeoutExceedsMaximum: "This desktop asks to stay open unused for longer than is allowed. End it, and start one with less.",
	v1alpha1.ReasonUserNotAllowed:            "You may not use this kind of desktop. Ask your administrator for access.",
	v1alpha1.ReasonNamespaceNotAllowed:       "This kind of desktop is not available to your group. Ask your administrator for access.",
	v1alpha1.ReasonPolicyNotFound:            "The rules by which this desktop gets its place do not exist. Ask your administrator.",
	v1alpha1.ReasonFailoverLosesHome:         "Your files would be lost if the region of this desktop failed. End it, and start one with other settings.",
	v1alpha1.ReasonEnvNotAllowed:             "A setting of this desktop is not allowed. End it, and start one without it.",
	v1alpha1.ReasonFileNotAllowed:            "A file of this desktop is not allowed. End it, and start one without it.",
	v1alpha1.ReasonWriteDenied:               "The system is not allowed to do what this desktop needs. Ask your administrator.",

	// Scheduled
	v1alpha1.ReasonPlaced:             "Your desktop has its place, and starts.",
	v1alpha1.ReasonPlacedOnNewNode:    "All machines are in use, and one is being added for your desktop. That takes a few minutes.",
	v1alpha1.ReasonNoMembers:          "No region is set up yet. Ask your administrator.",
	v1alpha1.ReasonPolicyCap:          "As many desktops are in use as are allowed. Yours starts when one of them ends: end or suspend one that you don't need.",
	v1alpha1.ReasonUnschedulable:      "All machines that can run this desktop are in use. Yours starts by itself when there is one.",
	v1alpha1.ReasonReleasing:          "Your desktop still stops where it was before. It starts as soon as that is done.",
	v1alpha1.ReasonSuspended:          "Your desktop is suspended. Its time does not count, and its settings are kept.",
	v1alpha1.ReasonHomeInUse:          "Another desktop of yours uses the same files. End or suspend that one, and this one starts.",
	v1alpha1.ReasonNoCapacityToResume: "All machines where your desktop can continue are in use. It continues by itself when there is one.",
	v1alpha1.ReasonTooManyHomes:       "You left files behind in too many places. Ask your administrator to delete those that you don't need.",
	v1alpha1.ReasonHubRestored:        "The system was restored from a backup a moment ago. Your desktop starts once all regions have reported what still runs, within minutes.",
	v1alpha1.ReasonDraining:           "The region of your desktop is being taken out of use. Your desktop moves when you suspend it.",

	// Assigned
	v1alpha1.ReasonStored:  "Your desktop starts.",
	v1alpha1.ReasonSending: "Your desktop starts.",
	v1alpha1.ReasonRefused: "The region of your desktop refuses to run it. Ask your administrator.",

	// HomeReady
	v1alpha1.ReasonNoHome:        "Your desktop starts.",
	v1alpha1.ReasonBound:         "Your files are there, and your desktop starts.",
	v1alpha1.ReasonBinding:       "The disk for your files is being prepared.",
	v1alpha1.ReasonClaimLost:     "The disk with your files is lost. Ask your administrator before you do anything else.",
	v1alpha1.ReasonBoundTooSmall: "The disk for your files could not be made as large as it should be.",

	// PodReady
	v1alpha1.ReasonPodReady:         "Your desktop is ready.",
	v1alpha1.ReasonPodPending:       "Your desktop starts.",
	v1alpha1.ReasonUnschedulablePod: "Your desktop has a region, and no machine in it yet. If nothing changes, it moves to another one.",
	v1alpha1.ReasonNodeProvisioning: "All machines are in use, and one is being added for your desktop. That takes a few minutes.",
	v1alpha1.ReasonScaleUpFailed:    "All machines are in use, and none can be added now. Your desktop starts when there is one.",
	v1alpha1.ReasonStarting:         "Your desktop starts.",
	v1alpha1.ReasonImagePull:        "The software of this desktop cannot be loaded. Ask your administrator to correct it.",
	v1alpha1.ReasonOutOfMemory:      "Your desktop used more memory than it has, and was stopped. It starts again; use less in it, or ask for a larger one.",
	v1alpha1.ReasonEvicted:          "The machine of your desktop ran out of disk or memory. Your desktop starts again.",
	v1alpha1.ReasonNodeLost:         "The machine of your desktop does not answer.",
	v1alpha1.ReasonQuotaExceeded:    "Your group uses all that it is allowed to use. Your desktop starts when another one ends.",
	v1alpha1.ReasonSecretMissing:    "Your desktop starts.",
	v1alpha1.ReasonIdleSoon:         "Your desktop is unused, and ends soon. Use it to keep it.",
	v1alpha1.ReasonIdleExpired:      "Your desktop ended because it was not used.",
	v1alpha1.ReasonCrashLoop:        "The software of this desktop exits again and again. Try again, or ask your administrator.",
	v1alpha1.ReasonContainerError:   "The software of this desktop cannot be started. Ask your administrator to correct it.",
	v1alpha1.ReasonPodNotReady:      "Your desktop has started, and does not answer yet.",
	v1alpha1.ReasonPodFailed:        "Your desktop stopped, and starts again.",
	v1alpha1.ReasonPodTerminating:   "Your desktop stops.",
	v1alpha1.ReasonLeaseExpired:     "The region of your desktop had no contact for too long, so that your desktop was stopped. It starts again once there is contact.",
	v1alpha1.ReasonGuardUnavailable: "A part of the system that protects your desktop does not start. Ask your administrator.",
	v1alpha1.ReasonAwaitingHub:      "The region of your desktop was restarted. Your desktop starts once it has contact again.",

	// EndpointReady, and any condition of the agent
	v1alpha1.ReasonEndpointReady:   "Your desktop is ready.",
	v1alpha1.ReasonEndpointPending: "The address of your desktop is being set up.",
	v1alpha1.ReasonApplyFailed:     "The region of your desktop denies what your desktop needs. Ask your administrator.",
	v1alpha1.ReasonConflict:        "Something else in the region has the name of your desktop. Ask your administrator.",

	// Ready, and FailoverReady
	v1alpha1.ReasonReady:             "Your desktop is ready.",
	v1alpha1.ReasonMemberUnreachable: "The region of your desktop does not answer. Your desktop may still run there.",
	v1alpha1.ReasonFailoverPending:   "The region of your desktop does not answer. Your desktop starts in another one if it stays away.",
	v1alpha1.ReasonUnguarded:         "If the region of your desktop fails, your desktop stays there until the region is back.",
	v1alpha1.ReasonTerminating:       "Your desktop is being ended.",
	v1alpha1.ReasonExpiringSoon:      "Your desktop ends soon. Save what you need, or extend it.",
	v1alpha1.ReasonTimeExpired:       "The time of your desktop is over.",
}

// unknown is what users read of a reason without a sentence: one of a later version of the hub.
const unknown = "Your desktop is not ready yet. Details says what your administrator needs to know."

// failures are what users read of a reason in place of its sentence if the session failed permanently:
// nothing happens any more until it is tried again.
var failures = map[string]string{
	v1alpha1.ReasonOutOfMemory: "Your desktop used more memory than it has, again and again. Try again with less in it, or start a larger one.",
	v1alpha1.ReasonPodFailed:   "Your desktop stopped, again and again. Try again, or ask your administrator.",
	v1alpha1.ReasonPodNotReady: "Your desktop started, and did not answer in time. Try again, or ask your administrator.",
}

// unchanged is what users read beside a running desktop of which a change was not accepted, before the
// sentence of why.
const unchanged = "Your desktop continues as it was. "

// held is what users read of a session whose desktop must not run twice and whose region does not answer.
const held = "The region of your desktop does not answer. Your desktop continues when the region is back; your administrator can release it before."
