// Package batch measures package batch next to other ways of shipping events: what arrives,
// how late, and what it costs. make bench-batch runs all of it.
package batch
