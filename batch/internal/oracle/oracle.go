// Package oracle is a receiver of batches that knows the truth: for tests of
// package batch and of what is built on it.
//
// A Ledger makes the events and keeps what their producers were told about
// them. Each event carries its number, its key, its place among the events of
// that key, and a payload which follows from the number, so that every byte of
// it can be verified wherever it turns up: memory that was used again too early
// shows. A Store is the receiver's durable side: it recognises batches by their
// key and keeps what it has taken. A Server puts a Store behind HTTP and
// misbehaves as its Script says, before or after the Store has taken a batch; a
// Proxy in front of it breaks connections at a given byte. Check compares the
// Ledger with the Store: that is the verdict on a run.
//
// The package does not import package batch, so that its own tests can use it.
package oracle
