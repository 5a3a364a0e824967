// Package segment is the file format of trail: immutable files of events that are
// sorted so that the rows of one user lie together, one column after another.
// docs/trail-format.md describes the bytes.
//
// Read Segment and Column, which is what queries see; then Builder, which makes a
// segment of unsorted rows, with Spill for rows that do not fit into memory, and Merge,
// which makes one of several. format.go has
// the footer, pages.go the checksums, encode.go the choice of encodings.
//
// Rows are sorted by (hash of the user, user, time, id). Bytes are checked page by
// page when they are first needed: the methods Prepare and Range check them, and a
// caller must not read anything that they have not checked. What they have checked
// can be read without errors and without locks, concurrently.
//
// The package does not depend on stores, buckets or queries.
package segment

import (
	"errors"
	"fmt"
	"math"
	"sort"
	"sync/atomic"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// MaxRows is the largest number of rows of a segment.
const MaxRows = math.MaxInt32

// A Segment is an open file or image. Its methods can be called concurrently, except
// Close.
type Segment struct {
	name  string
	image []byte
	unmap func() error

	sums    []byte // checksum of each page, little endian
	body    int64  // bytes before the footer
	checked []atomic.Uint64

	rows, users      int
	minTime, maxTime int64
	schema           event.Schema

	hashes   []uint64
	starts   rowStarts
	hashAt   span
	ids      idIndex
	opened   atomic.Pointer[idOpened]
	times    Times
	sets     *Sets
	events   *Column
	eventIDs *Column
	columns  []*Column
	all      []*Column // as in the footer
	byName   map[string]*Column
	sections []section      // in the order of the file
	blocks   []columnBlocks // until the columns have them
}

// A Range is a range of users and their rows; the upper ends are exclusive.
type Range struct{ UserLo, UserHi, RowLo, RowHi int }

// Open maps a file and reads its footer. A file that is not a sound segment gives a
// *DamageError; a file of a newer format gives another error.
func Open(path string) (*Segment, error) {
	image, unmap, err := mapFile(path)
	if err != nil {
		return nil, err
	}
	s, err := parse(path, image)
	if err != nil {
		return nil, errors.Join(err, unmap())
	}
	s.unmap = unmap
	return s, nil
}

// FromBytes reads a segment from memory. It keeps image, which must not change
// from then on, except where it does not lie on a multiple of eight: then it keeps
// a copy.
func FromBytes(name string, image []byte) (*Segment, error) {
	return parse(name, aligned(image))
}

// aligned returns an image on a multiple of eight: itself, or a copy.
func aligned(image []byte) []byte {
	if len(image) == 0 || uintptr(unsafe.Pointer(unsafe.SliceData(image)))%8 == 0 {
		return image
	}
	return append(bytesOf(make([]uint64, (len(image)+7)/8))[:0], image...)
}

// Close unmaps the file. The segment, and any slice or string of it, must not be used after it.
func (s *Segment) Close() error {
	if s.unmap == nil {
		return nil
	}
	unmap := s.unmap
	s.unmap = nil
	return unmap()
}

// Holds reports whether an address is in the image of the segment, for faults of a map
// that cannot be read any more.
func (s *Segment) Holds(addr uintptr) bool {
	if len(s.image) == 0 {
		return false
	}
	base := uintptr(unsafe.Pointer(unsafe.SliceData(s.image)))
	return addr >= base && addr-base < uintptr(len(s.image))
}

// Name returns the path of the file, or the name given to FromBytes.
func (s *Segment) Name() string { return s.name }

// Rows returns the number of events.
func (s *Segment) Rows() int { return s.rows }

// Users returns the number of users. Each has at least one row.
func (s *Segment) Users() int { return s.users }

// MinTime returns the time of the earliest event in milliseconds, 0 without rows.
func (s *Segment) MinTime() int64 { return s.minTime }

// MaxTime returns the time of the latest event in milliseconds, 0 without rows.
func (s *Segment) MaxTime() int64 { return s.maxTime }

// Size returns the length of the file in bytes.
func (s *Segment) Size() int64 { return int64(len(s.image)) }

// Schema returns the properties that any row has. The caller must not change it.
func (s *Segment) Schema() event.Schema { return s.schema }

// HasIDs reports whether any event has an id.
func (s *Segment) HasIDs() bool { return s.eventIDs != nil }

// Times returns the times of the rows.
func (s *Segment) Times() *Times { return &s.times }

// Events returns the names of the events: a String column without missing values.
func (s *Segment) Events() *Column { return s.events }

// Column returns the values of a property, nil if no row has any.
func (s *Segment) Column(property string) *Column { return s.byName[property] }

// IDs returns the hashes of the events' ids as a raw column, nil if there are none.
// The id of an event without one is 0.
func (s *Segment) IDs() *Column { return s.eventIDs }

// EventSets returns which events each user has, nil if there are more than 64
// names.
func (s *Segment) EventSets() *Sets { return s.sets }

// Hashes returns the hashes of the users by ordinal, ascending; two users may share
// one. They are in the mapped file: only ordinals inside a Range that was taken may be read.
func (s *Segment) Hashes() []uint64 { return s.hashes }

// FirstRow returns the first row of a user by ordinal, or the number of rows for the
// ordinal after the last one. ord must be from UserLo to UserHi of a Range that was
// taken.
func (s *Segment) FirstRow(ord int) int { return s.starts.row(ord) }

// FirstRows returns the first rows of users [lo,hi) as FirstRow does. The result is in the
// mapped file if they are stored as such; otherwise dst is filled, or a longer slice if it
// is too short. The caller must not write to the result.
func (s *Segment) FirstRows(dst []uint32, lo, hi int) []uint32 { return s.starts.read(dst, lo, hi) }

// Range finds the users whose hash is at least from and at most to, and their rows.
// It checks the pages of the user index that it reads, and the pages of the users found.
// It returns the bytes of the index that the users take.
func (s *Segment) Range(from, to uint64) (r Range, bytes int64, err error) {
	if s.users == 0 || from > to {
		return Range{}, 0, nil
	}
	r.UserLo, err = s.searchHash(from)
	if err != nil {
		return Range{}, 0, err
	}
	r.UserHi = s.users
	if to != math.MaxUint64 {
		if r.UserHi, err = s.searchHash(to + 1); err != nil {
			return Range{}, 0, err
		}
	}
	if err := s.check(s.hashAt.part(r.UserLo, r.UserHi, 8), nameUsers); err != nil {
		return Range{}, 0, err
	}
	if err := s.starts.check(s, r.UserLo, r.UserHi+1, nameUsers); err != nil {
		return Range{}, 0, err
	}
	r.RowLo, r.RowHi = s.FirstRow(r.UserLo), s.FirstRow(r.UserHi)
	if r.UserLo > r.UserHi || r.RowLo > r.RowHi || r.RowHi > s.rows {
		return Range{}, 0, s.damage(nameUsers, s.starts.at, "rows of users are out of order")
	}
	return r, int64(r.UserHi-r.UserLo) * (8 + s.starts.width()), nil
}

// searchHash returns the first user whose hash is not below h. It checks each page
// that it reads.
func (s *Segment) searchHash(h uint64) (int, error) {
	return search(s.users, func(i int) error { return s.check(s.hashAt.part(i, i+1, 8), nameUsers) }, func(i int) bool { return s.hashes[i] < h })
}

// userOf returns the user who has a row. Pages must have been checked.
func (s *Segment) userOf(row int) int {
	return sort.Search(s.users, func(u int) bool { return s.FirstRow(u+1) > row })
}

// checkUsersOf checks the pages of the row index that finding and walking the users
// of rows [lo,hi) needs, and returns those users.
func (s *Segment) checkUsersOf(lo, hi int, who string) (userLo, userHi int, err error) {
	find := func(row int) (int, error) {
		return search(s.users, func(i int) error { return s.starts.check(s, i+1, i+2, who) }, func(i int) bool { return s.FirstRow(i+1) <= row })
	}
	if lo >= hi {
		return 0, 0, nil
	}
	if userLo, err = find(lo); err != nil {
		return 0, 0, err
	}
	if userHi, err = find(hi - 1); err != nil {
		return 0, 0, err
	}
	userHi = min(userHi+1, s.users)
	return userLo, userHi, s.starts.check(s, userLo, userHi+1, who)
}

// UserID returns the id of a user by ordinal. It checks the pages it needs itself.
func (s *Segment) UserID(ord int) (string, error) {
	if ord < 0 || ord >= s.users {
		return "", fmt.Errorf("segment %s: user %d of %d", s.name, ord, s.users)
	}
	var buf [64]byte
	id, err := s.ids.append(buf[:0], s, ord)
	return string(id), err
}
