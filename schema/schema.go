// Package schema describes the fields of a kind's config once; decoding with
// positions, defaults, checks, JSON Schema and reference pages are derived.
package schema

// An Object is the fields of a config.
type Object struct{}

// A Config is a checked config.
type Config struct{}
