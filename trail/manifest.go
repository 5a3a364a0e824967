package trail

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A manifest says what a store consists of. It is kept in two files. Each has JSON
// that people can read, and then a line "crc32c XXXXXXXX" with the checksum of
// everything before it. The valid one with the higher generation counts. Each commit
// writes both, one after the other, so one damaged copy costs nothing.
type manifest struct {
	Version    int               `json:"version"`
	Generation uint64            `json:"generation"`
	Bucket     int64             `json:"bucket_ms"`
	Commit     uint64            `json:"commit"`    // the last number assigned when this was written
	Flushed    uint64            `json:"flushed"`   // records of the log up to this commit are in segments
	NextFile   uint64            `json:"next_file"` // no segment or cohort has this number or a higher one
	Horizon    *int64            `json:"horizon,omitempty"`
	Schema     []field           `json:"schema"`
	Segments   []entry           `json:"segments"`
	Deleted    []tombstone       `json:"deleted,omitempty"`
	Cohorts    []cohortEntry     `json:"cohorts,omitempty"`
	Marks      map[string][]byte `json:"marks,omitempty"` // as of Flushed
}

const (
	manifestVersion = 1
	maxHashBits     = 32
)

var manifestNames = [2]string{"MANIFEST.a", "MANIFEST.b"}

// An entry is a segment.
type entry struct {
	File    string `json:"file"`
	Bucket  int64  `json:"bucket"`  // its number, counted from the week of 1970-01-05
	Commit  uint64 `json:"commit"`  // the last commit that brought events of it
	Applied uint64 `json:"applied"` // deletions up to this commit are carried out
	Rows    int64  `json:"rows"`
	Users   int64  `json:"users"`
	MinTime int64  `json:"min_time"`
	MaxTime int64  `json:"max_time"`
	Bytes   int64  `json:"bytes"`
	IDs     bool   `json:"ids,omitempty"`
	// Hashes are the users whose events it may have: all, or a part of them if the
	// bucket has many events.
	Hashes segment.HashRange `json:"hashes,omitzero"`
}

// A field is a property of the schema.
type field struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// A cohortEntry is a cohort that was kept.
type cohortEntry struct {
	Name  string `json:"name"`
	File  string `json:"file"`
	Users int64  `json:"users"`
}

// A hexHash is the hash of a user, which a number in JSON would not hold.
type hexHash uint64

// MarshalText writes 16 digits.
func (h hexHash) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%016x", uint64(h)), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *hexHash) UnmarshalText(b []byte) error {
	u, err := strconv.ParseUint(string(b), 16, 64)
	*h = hexHash(u)
	return err
}

func schemaFields(s event.Schema) []field {
	fields := make([]field, len(s))
	for i, f := range s {
		fields[i] = field{f.Name, f.Type.String()}
	}
	return fields
}

func fieldsSchema(fields []field) (event.Schema, error) {
	s := make(event.Schema, len(fields))
	for i, f := range fields {
		for t := event.Unknown; t <= event.Bool; t++ {
			if t.String() == f.Type {
				s[i] = event.Field{Name: f.Name, Type: t}
			}
		}
		if s[i].Type.String() != f.Type {
			return nil, fmt.Errorf("property %q is of the unknown type %q", f.Name, f.Type)
		}
	}
	return s, nil
}

func (m *manifest) horizon() int64 {
	if m.Horizon == nil {
		return math.MinInt64
	}
	return *m.Horizon
}

// clone returns a copy whose lists can be changed.
func (m *manifest) clone() *manifest {
	c := *m
	c.Segments = slices.Clone(m.Segments)
	c.Deleted = slices.Clone(m.Deleted)
	c.Cohorts = slices.Clone(m.Cohorts)
	c.Marks = maps.Clone(m.Marks)
	return &c
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const checksumLine = "crc32c "

func encodeManifest(m *manifest) ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, err
	}
	b = append(b, '\n')
	return fmt.Appendf(b, "%s%08x\n", checksumLine, crc32.Checksum(b, castagnoli)), nil
}

// A versionError reports a store that a newer program wrote.
type versionError struct{ version int }

func (e *versionError) Error() string {
	return fmt.Sprintf("it has version %d; this program knows version %d", e.version, manifestVersion)
}

func decodeManifest(b []byte) (*manifest, error) {
	end := len(b) - len(checksumLine) - 9
	if end < 0 || string(b[end:end+len(checksumLine)]) != checksumLine || b[len(b)-1] != '\n' {
		return nil, errors.New("it does not end with a checksum")
	}
	want := fmt.Sprintf("%08x", crc32.Checksum(b[:end], castagnoli))
	if got := string(b[end+len(checksumLine) : len(b)-1]); got != want {
		return nil, fmt.Errorf("wrong checksum: %q, and the content has %s", got, want)
	}
	m := new(manifest)
	if err := json.Unmarshal(b[:end], m); err != nil {
		return nil, err
	}
	if m.Version != manifestVersion {
		return nil, &versionError{m.Version}
	}
	for _, e := range m.Segments {
		if e.File == "" || e.File != filepath.Base(e.File) {
			return nil, fmt.Errorf("segment with the name %q", e.File)
		}
		if h := e.Hashes; h.Bits < 0 || h.Bits > maxHashBits || h.Index>>h.Bits != 0 {
			return nil, fmt.Errorf("segment %s with part %d of 2^%d of the users", e.File, h.Index, h.Bits)
		}
	}
	for _, c := range m.Cohorts {
		if c.File == "" || c.File != filepath.Base(c.File) {
			return nil, fmt.Errorf("cohort with the file %q", c.File)
		}
	}
	if m.Bucket < minBucket.Milliseconds() || m.Bucket > maxBucket.Milliseconds() {
		return nil, fmt.Errorf("a bucket of %d ms", m.Bucket)
	}
	_, err := fieldsSchema(m.Schema)
	return m, err
}

// manifests are the two copies as they were found.
type manifests struct {
	best   *manifest // nil if there is none
	copies [2]*manifest
	errs   [2]error // of copies that could not be read; fs.ErrNotExist if missing
}

func (m *manifests) none() bool {
	return errors.Is(m.errs[0], fs.ErrNotExist) && errors.Is(m.errs[1], fs.ErrNotExist)
}

func manifestError(dir string, why error) error {
	return fmt.Errorf("%w: %w; %s", ErrManifest, why, rebuildHint(dir))
}

func rebuildHint(dir string) string {
	return fmt.Sprintf("to make one of the segments that are there, without deletions, the horizon, marks and cohorts: uniflow trail compact --rebuild --db %s", shellWord(dir))
}

func (m *manifests) err() error {
	var errs []error
	for i, err := range m.errs {
		errs = append(errs, fmt.Errorf("%s: %w", manifestNames[i], err))
	}
	return errors.Join(errs...)
}

// refused returns why no manifest may be made in place of those that cannot be read: a
// newer program wrote them, or they may be sound. It is nil if they are damaged.
func (m *manifests) refused() error {
	for _, err := range m.errs {
		if v, ok := errors.AsType[*versionError](err); ok {
			return v
		}
	}
	if slices.ContainsFunc(m.errs[:], isAccessError) {
		return m.err()
	}
	return nil
}

func (d *folder) readManifests() *manifests {
	m := new(manifests)
	for i, name := range manifestNames {
		b, err := vfs.ReadFile(d.fs, d.path(name))
		if err != nil {
			m.errs[i] = err
			continue
		}
		m.copies[i], m.errs[i] = decodeManifest(b)
		if c := m.copies[i]; m.errs[i] == nil && (m.best == nil || c.Generation > m.best.Generation) {
			m.best = c
		}
	}
	return m
}

// A writeError is the error of a manifest that was not written completely.
type writeError struct {
	committed bool // the first copy is in place
	uncertain bool // the first copy may be in place
	err       error
}

func (e *writeError) Error() string { return "write the manifest: " + e.err.Error() }

func (e *writeError) Unwrap() error { return e.err }

// mayBeCommitted reports whether the next Open may find the new manifest after an
// error.
func mayBeCommitted(err error) bool {
	e, ok := errors.AsType[*writeError](err)
	return ok && e.uncertain
}

func (d *folder) writeManifest(m *manifest) error {
	b, err := encodeManifest(m)
	if err != nil {
		return &writeError{err: err}
	}
	for i, name := range manifestNames {
		if err := d.replace(d.path(name), b); err != nil {
			_, unsure := errors.AsType[*renameError](err)
			return &writeError{committed: i > 0, uncertain: unsure, err: err}
		}
	}
	return nil
}

// prune removes the deletions that affect no source, and that cannot affect later
// ones because everything appended before them is in a segment.
func (m *manifest) prune() {
	m.Deleted = slices.DeleteFunc(m.Deleted, func(t tombstone) bool {
		return t.Commit <= m.Flushed && !slices.ContainsFunc(m.Segments, func(e entry) bool { return e.affectedBy(t) })
	})
}

func (m *manifests) same() bool {
	if m.copies[0] == nil || m.copies[1] == nil {
		return false
	}
	a, errA := encodeManifest(m.copies[0])
	b, errB := encodeManifest(m.copies[1])
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func fileNumber(name string) (uint64, bool) {
	digits, _, _ := strings.Cut(name, "-")
	digits, _, _ = strings.Cut(digits, ".")
	n, err := strconv.ParseUint(digits, 10, 63)
	return n, err == nil
}
