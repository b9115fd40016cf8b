// Package check repeats checks of what the console depends on for its safety. Until a check has passed, and
// once it does not pass any more, what depends on it is refused.
package check
