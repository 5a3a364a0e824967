// Package hostile attacks the built program from outside, as a client, a document
// or a receiver would, under a limit of memory. An attack must not cost other clients
// anything, and the program must survive it.
//
//	go test ./test/hostile                 the short form
//	go test ./test/hostile -v -args -full  at full length, with the figures
//
// UNIFLOW names the program; without it the tests build one.
//
// The race detector leaves these tests out, as it would watch only the attacker.
package hostile
