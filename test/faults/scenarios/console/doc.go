// Package console has the scenarios in which the console, a door, or what they depend on, fails under its users.
package console
