// Package faults is the fault matrix of package batch: tests that make real faults
// between a producer and the receiver, and check the guarantees of the package. It has
// tests only.
//
//	01  the receiver fails, with any probability and in bursts
//	02  the receiver asks for a pause
//	03  connections are reset or half closed, at any byte
//	04  the response comes before the body is read; bodies are closed late
//	05  the receiver is slow, or never responds
//	06  the process is killed
//	07  the machine loses power
//	08  the disk is full, and has space again
//	09  files of the spool are damaged
//	10  Close races producers
//	11  Close while the receiver is down
//	12  events and batches the receiver cannot take
//	13  the clock: linger, idle, back-off, gate, to the nanosecond
//	14  any number of producers and processors
//
// Each test compares the results with an oracle (batch/internal/oracle), and checks
// batch.Stats.Balance all the time. With the environment variable BATCH_FAULTS=full,
// which make test-faults sets, the long tests run at full length; otherwise they are
// shorter.
//
// test/mutation shows that the tests notice mistakes: it removes one safeguard of
// the library at a time.
package faults
