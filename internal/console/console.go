// Package console is what the page of a running program asks for: its files, a stream of what changes,
// and the last lines of the log.
//
// Read [Stream] and [Logs]. Nothing is counted, and no goroutine runs, unless a client reads the stream.
//
// The package must not know who may ask: that is for internal/admin.
package console
