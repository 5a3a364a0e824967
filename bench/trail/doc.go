// Package trail measures the event store next to DuckDB and ClickHouse: how fast events come
// in, how much room they take, and how long questions take. make bench-trail runs all of it;
// make bench-trail-lessons two of the founding lessons.
package trail
