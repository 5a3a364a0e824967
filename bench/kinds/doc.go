// Package kinds measures kinds of nodes. It consists of benchmarks, which bench runs for
// its lines from N2 on.
package kinds
