// Package mutation shows that the tests of faults notice mistakes: it removes one safeguard
// at a time, and the test for it must fail. It does not change the working copy: the
// compiler gets the changed file with go test -overlay.
//
//	go test ./test/mutation -timeout 60m -run 'TestMutations/bisection' -v -args -full
//
// The tables of its tests have the safeguards, as a text in a file and its replacement. If a
// file does not have the text exactly once, the code has changed and the table must change
// too. A test also fails if it does so without a change.
package mutation
