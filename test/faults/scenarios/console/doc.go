// Package console has the scenarios in which the console, or what it depends on, fails under its users.
package console
