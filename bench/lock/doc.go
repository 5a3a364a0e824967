// Package lock compares locks: how many acquisitions per second they allow, how evenly they
// are shared, and what they cost in CPU. make bench-lock prints the medians of five rounds.
package lock
