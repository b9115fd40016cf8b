// Package runner runs one scenario on a stage: it keeps a workload going while the scenario injects
// faults, then repairs what is left, measures how long both sides need to agree, and returns the
// result. Its functions are the steps that scenarios share: kill, cut power, create members, wait.
package runner
