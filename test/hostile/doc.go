// Package hostile attacks the built program from outside, as a client, a document
// or a receiver would, under a limit of memory. Each attack must cost the others
// nothing, and leave the program alive.
//
//	go test ./test/hostile                 the short form
//	go test ./test/hostile -v -args -full  at full length, with the figures
//
// UNIFLOW names the program; without it the tests build one.
//
// They are left out under the race detector, which would watch the attacker only.
package hostile
