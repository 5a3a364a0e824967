//go:build !linux

package main

// futexSubjects returns nothing: futexes are of Linux.
func futexSubjects() []subject { return nil }
