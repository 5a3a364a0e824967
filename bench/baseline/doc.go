// Package baseline measures a chain of nodes written by hand, which the engine is compared
// with: as calls of functions, and as goroutines with channels.
package baseline
