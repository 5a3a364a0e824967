// Package brokers starts the brokers that tests of streams run on, in this process or
// in one of its own.
//
// Tests on Apache Kafka need Java and Maven. They run under make test-faults, which sets
// STREAM_FAULTS=full, and fail there if one of them is missing; CI runs the same tests on
// the fake cluster.
package brokers
