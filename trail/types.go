package trail

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/tabular"
)

// MemoryError reports that a query needs more memory than QueryOptions.Memory.
type MemoryError = exec.MemoryError

type (
	// ColumnError reports a column that is missing from a file.
	ColumnError = tabular.ColumnError
	// PropertyError reports a property that Import or EventParser cannot read.
	PropertyError = tabular.PropertyError
)

var (
	// ErrClosed is returned by what needs an open store.
	ErrClosed = errors.New("store is closed")
	// ErrReadOnly is returned by what would change a store that was opened for
	// reading.
	ErrReadOnly = errors.New("store is open for reading only")
	// ErrManifest is wrapped by what Open returns if both copies of the manifest
	// are damaged or missing, and Options.Rebuild would help.
	ErrManifest = errors.New("no copy of the manifest can be read")
	// ErrNoStore is wrapped by what Open for reading and Verify return for a
	// folder that is missing or holds no store.
	ErrNoStore = errors.New("no store")
)

// A LockedError is returned by Open if another process writes to the store, or
// this one has opened it already. PID is 0 if the holder is unknown.
type LockedError struct {
	Dir     string
	PID     int
	Host    string
	Since   time.Time
	Version string // of the program that holds it
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("store %s is held by another process", e.Dir)
	}
	return fmt.Sprintf("store %s is held by process %d on %s since %s", e.Dir, e.PID, e.Host, e.Since.UTC().Format(time.RFC3339))
}

// A Rejection is an event that cannot be taken, and why.
type Rejection struct {
	Index int // in what was given to Append
	Err   error
}

// A RejectedError is returned by Append when events cannot be taken, whatever the
// state of the disk. None of the events of the call was.
type RejectedError struct {
	Refused []Rejection // by index; at least one
}

func (e *RejectedError) Error() string {
	first := e.Refused[0]
	if len(e.Refused) == 1 {
		return fmt.Sprintf("event %d is refused: %v", first.Index, first.Err)
	}
	return fmt.Sprintf("%d events are refused; event %d: %v", len(e.Refused), first.Index, first.Err)
}

func (e *RejectedError) Unwrap() []error {
	errs := make([]error, len(e.Refused))
	for i, r := range e.Refused {
		errs[i] = r.Err
	}
	return errs
}

// QueryOptions are how a query is run. Zero values are the defaults. Users, IDs and Save
// are about a cohort and about a query with Users, whose answer is a cohort too; for
// others Users and IDs change nothing, and Save is an error.
type QueryOptions struct {
	Sample  float64       // share of users, above 0 up to 1; 0 takes the sample of the query
	Memory  int64         // bytes beyond the mapped files, of all workers: default 64 MiB
	Timeout time.Duration // 0 for no other than the context's
	Workers int           // at most; default and limit GOMAXPROCS
	Users   bool          // the answer has the hashes of the users
	IDs     bool          // and their ids
	Save    bool          // keeps the users under the name of the query, which must have one; not of a sample
}

// ImportOptions say how files are read. Zero values are the defaults.
type ImportOptions struct {
	User, Time, Event string                // columns; by default the usual names
	ID                string                // column with the id of an event; "" for none
	TimeUnit          string                // s, ms, us or ns, of times that are integers; "" guesses by size
	Types             map[string]event.Type // of columns that are not to be guessed
	MaxBad            int                   // bad rows of a file up to which it is taken
	Stdin             io.Reader             // what the file "-" stands for
	Progress          func(ImportProgress)  // called now and then by one goroutine; nil for none

	// Advice returns what to do about an error, or "". It is appended to the message
	// of a bad row or of a file. The error is a *ColumnError, a *PropertyError, a
	// *TimeError, an *event.TypeError or an *event.InexactError. nil gives no advice.
	Advice func(error) string
}

// ImportProgress is the progress of an import.
type ImportProgress struct {
	File  string
	Bytes int64  // read of the file
	Total int64  // bytes of the file, -1 if unknown
	Rows  int64  // of the file so far
	Phase string // "read", "merge" or "done"
}

// ImportResult has the result for each file that was begun.
type ImportResult struct {
	Files []ImportFile
}

// Rows returns how many events were taken.
func (r ImportResult) Rows() int64 {
	var n int64
	for _, f := range r.Files {
		n += f.Rows
	}
	return n
}

// An ImportFile is the result for a file.
type ImportFile struct {
	File       string   // as it was given
	Taken      bool     // the store has its events now, durably
	Rows       int64    // taken; 0 if the file was not
	Duplicates int64    // left out because the store has the same user, time and id
	Dropped    int64    // left out as older than the horizon of the store
	Bad        int64    // rows that were left out
	BadRows    []BadRow // the first of them, up to 100
	Elapsed    time.Duration
}

// A BadRow is a row that could not be read.
type BadRow struct {
	Line   int64 // from 1; of a Parquet file the row, from 1
	Reason string
}

// A BadRowsError is returned by Import for a file with more bad rows than are
// allowed. Nothing of it was taken.
type BadRowsError struct {
	File  string
	Bad   int64
	Max   int
	First BadRow
}

func (e *BadRowsError) Error() string {
	return fmt.Sprintf("%s:%d: %s (%d bad rows, %d are allowed; nothing of the file was taken)", e.File, e.First.Line, e.First.Reason, e.Bad, e.Max)
}

// Info describes a store.
type Info struct {
	Dir        string
	Bucket     time.Duration
	Commit     uint64 // the number of the last commit
	Rows       int64  // events, including those in memory and, until the next compaction, of deleted users
	MemoryRows int64  // of these, events in memory and the write-ahead log
	Users      int64  // distinct users, deleted ones as in Rows; above 20 million an estimate; -1 if a segment is damaged
	Bytes      int64  // of segments
	WALBytes   int64
	WALRecords int64
	MinTime    int64 // of the first event, in milliseconds since 1970 UTC; 0 without events
	MaxTime    int64 // of the last
	Horizon    int64 // the store has no events before; math.MinInt64 for none
	Deleted    int   // users that are hidden until a compaction removes them
	Schema     event.Schema
	Events     []EventCount // by count descending, then name
	Segments   []SegmentInfo
	Parts      []PartInfo   // what takes the bytes of segments; by bytes descending, then name
	Cohorts    []CohortInfo // by name
	Damaged    []string     // what cannot be read or is lost, with the reason and what to do; each once
}

// BytesPerEvent returns the size of the segments by the events in them, 0 without.
func (i Info) BytesPerEvent() float64 {
	if n := i.Rows - i.MemoryRows; n > 0 {
		return float64(i.Bytes) / float64(n)
	}
	return 0
}

// An EventCount is the number of events of a name.
type EventCount struct {
	Name  string
	Count int64
}

// A SegmentInfo is a segment file.
type SegmentInfo struct {
	File             string
	From             int64 // of its bucket, in milliseconds since 1970 UTC
	Rows, Users      int64
	Bytes            int64
	MinTime, MaxTime int64
}

// A PartInfo is a part of all segments, such as a column.
type PartInfo struct {
	Name   string // "times", "user index", "column price", "dictionary country", as in errors
	Layout string // how it is stored, by the names in docs/trail-format.md, the smallest share last; "" where there is one way alone
	Bytes  int64
}

// A CohortInfo is a cohort that was kept.
type CohortInfo struct {
	Name  string
	Users int64
}

// A Report is what Verify found.
type Report struct {
	Segments   int   // segment files that were read
	Rows       int64 // in them
	Records    int64 // of the write-ahead log that are in no segment
	Damages    []Damage
	Unfinished bool     // there are no events, and an import has begun that did not end, or still runs
	Denied     []string // files without permission to read, which may be sound; relative to the store
}

// OK reports whether everything was read and nothing is damaged or missing.
func (r Report) OK() bool { return len(r.Damages) == 0 && len(r.Denied) == 0 }

// A Damage is a damaged place.
type Damage struct {
	File    string // within the folder of the store
	Section string // of the file; "" for all of it
	Offset  int64
	Length  int64 // 0 if unknown
	Reason  string
	Hint    string // what to do; "" if there is nothing better than a backup
}

func (d Damage) String() string {
	s := d.File
	if d.Length > 0 {
		s += fmt.Sprintf(": bytes %d to %d", d.Offset, d.Offset+d.Length)
	}
	if d.Section != "" {
		s += ": " + d.Section
	}
	return s + ": " + d.Reason
}

// VerifyProgress is the progress of Verify.
type VerifyProgress struct {
	File        string
	Done, Total int64 // bytes
}
