// Package oracle is a receiver of batches that verifies them, for tests of package
// batch.
//
// A Ledger makes the events and keeps what the processor reported about
// them. Each event carries its number, its key, its place among the events of
// that key, and a payload which is computed from the number, so that every byte
// can be verified and memory that was reused too early is noticed. A Store is the
// durable side of the receiver: it recognises batches by their key and keeps what
// it has taken. A Server puts a Store behind HTTP and
// fails as its Script says, before or after the Store has taken a batch. Check compares the
// Ledger with the Store.
//
// The package does not import package batch, so that tests inside batch can use
// it.
package oracle
