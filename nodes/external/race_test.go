//go:build race

package external_test

// withRace says that this binary, which is the program of the tests, maps terabytes.
const withRace = true
