// Package format reads and writes sequences of records, such as lines, NDJSON and CSV, as
// values.
//
// It must not know files, nodes or systems: it gets readers and writers.
package format
