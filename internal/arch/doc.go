// Package arch holds the rules about the shape of the code, as tests. They only read the
// code, on one goroutine: the race detector would make them ten times slower and see nothing,
// so they run without it.
package arch
