// Package event has the types that all of trail shares: events, the values of their
// properties, and the schema with the type of each property.
//
// Read Event, then Value and Schema.
//
// It does not depend on files, stores or queries.
package event

import (
	"math"
	"time"

	"github.com/cespare/xxhash/v2"
)

// An Event is something that a user did.
type Event struct {
	User       string // who; never empty
	Time       int64  // when, in milliseconds since 1970 UTC
	Name       string // what; never empty
	ID         string // of two events with the same user, time and id one is kept; empty for none
	Properties []Property
}

// A Property is a named value of an event. Of two with the same name the last
// counts.
type Property struct {
	Name  string
	Value Value
}

// Millis returns a time as events have it, floored.
func Millis(t time.Time) int64 { return t.UnixMilli() }

// Time returns milliseconds since 1970 as a time in UTC.
func Time(millis int64) time.Time { return time.UnixMilli(millis).UTC() }

// Hash returns the place of a user among all users: events are stored in its
// order, and a sample is a range of it. It is XXH64 with seed 0, which is part of
// the file format.
func Hash(user string) uint64 { return xxhash.Sum64String(user) }

// HashID returns the hash of an event's id that a store keeps: XXH64, 1 where that is
// 0, and 0 for no id. Only ids of events of one user and millisecond are compared, so
// 64 bits do not collide by chance.
func HashID(id string) uint64 {
	if id == "" {
		return 0
	}
	return max(xxhash.Sum64String(id), 1)
}

// MinTime and MaxTime are the bounds of times that a store takes: the years 1 to
// 9999.
const (
	MinTime int64 = -62135596800000
	MaxTime int64 = 253402300799999
)

// finite reports whether a number is one that can be stored.
func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }
