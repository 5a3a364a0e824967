// Package faults is the fault matrix of package batch: what may go wrong between
// a producer and the receiver, done for real, and what must hold all the same.
// It holds tests only.
//
//	01  the receiver fails, with every probability and in bursts
//	02  the receiver asks for a pause
//	03  connections are reset or half closed, at any byte
//	04  the answer comes before the body is read; bodies are closed late
//	05  the receiver is slow, or never answers
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
// Each test asks the oracle for its verdict (batch/internal/oracle) and checks
// the identity of batch.Stats all along. With the environment variable
// BATCH_FAULTS=full, which make test-faults sets, the long ones run at full
// length; otherwise a part of it.
//
// That the tests would notice is shown by batch/faults/mutation, which takes
// away one safeguard of the library at a time.
package faults
