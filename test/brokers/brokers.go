// Package brokers starts the brokers that tests of streams run on, in this process or
// in one of its own.
package brokers
