package trail

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A cohort is a set of users that was kept under a name. Its file:
//
//	0   8   magic "trailcoh"
//	8   4   CRC32C of everything after this field
//	12  4   version: 1
//	16  8   how many users
//	24      hashes of the users, ascending, 8 bytes each, little endian
type cohort struct {
	cohortEntry                          // immutable
	hashes      atomic.Pointer[[]uint64] // nil until they are needed
}

const (
	cohortMagic   = "trailcoh"
	cohortVersion = 1
	cohortHeader  = 24
	maxCohortName = 200
)

func encodeCohort(hashes []uint64) []byte {
	b := make([]byte, 0, cohortHeader+8*len(hashes))
	b = append(b, cohortMagic...)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = binary.LittleEndian.AppendUint32(b, cohortVersion)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(hashes)))
	for _, h := range hashes {
		b = binary.LittleEndian.AppendUint64(b, h)
	}
	binary.LittleEndian.PutUint32(b[8:], crc32.Checksum(b[12:], castagnoli))
	return b
}

func decodeCohort(b []byte) ([]uint64, error) {
	switch {
	case len(b) < cohortHeader || string(b[:8]) != cohortMagic:
		return nil, errors.New("not a cohort file")
	case crc32.Checksum(b[12:], castagnoli) != binary.LittleEndian.Uint32(b[8:]):
		return nil, errors.New("wrong checksum")
	case binary.LittleEndian.Uint32(b[12:]) != cohortVersion:
		return nil, fmt.Errorf("it has version %d; this program knows version %d", binary.LittleEndian.Uint32(b[12:]), cohortVersion)
	case binary.LittleEndian.Uint64(b[16:]) != uint64(len(b)-cohortHeader)/8 || len(b)%8 != 0:
		return nil, errors.New("it is cut short")
	}
	hashes := make([]uint64, (len(b)-cohortHeader)/8)
	for i := range hashes {
		hashes[i] = binary.LittleEndian.Uint64(b[cohortHeader+8*i:])
	}
	if !slices.IsSorted(hashes) {
		return nil, errors.New("its users are not in order")
	}
	return hashes, nil
}

func readCohort(fsys vfs.FS, path string) ([]uint64, error) {
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	hashes, err := decodeCohort(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return hashes, nil
}

// users returns the hashes of a cohort, and reads the file on first use. Two callers
// may both read it, which is harmless.
func (d *folder) users(c *cohort) ([]uint64, error) {
	if p := c.hashes.Load(); p != nil {
		return *p, nil
	}
	hashes, err := readCohort(d.fs, d.path(cohortDir, c.File))
	if err != nil {
		return nil, fmt.Errorf("cohort %q: %w", c.Name, err)
	}
	c.hashes.Store(&hashes)
	return hashes, nil
}

func compareCohort(c *cohort, name string) int { return strings.Compare(c.Name, name) }

// cohort returns the users of a cohort of a snapshot, for filters.
func (sn *snapshot) cohort(name string) ([]uint64, error) {
	i, ok := slices.BinarySearchFunc(sn.cohorts, name, compareCohort)
	if !ok {
		return nil, &query.UnknownCohortError{Name: name}
	}
	return sn.state.files.users(sn.cohorts[i])
}

// makeCohort writes the file of a cohort durably. The manifest does not name it yet.
func (d *folder) makeCohort(name string, hashes []uint64) (*cohort, error) {
	file := fmt.Sprintf("%012d.cohort", d.next.Add(1)-1)
	if err := d.replace(d.path(cohortDir, file), encodeCohort(hashes)); err != nil {
		return nil, err
	}
	c := &cohort{cohortEntry: cohortEntry{Name: name, File: file, Users: int64(len(hashes))}}
	c.hashes.Store(&hashes)
	return c, nil
}

// saveCohort keeps users under a name, in place of the users kept before.
func (s *Store) saveCohort(name string, found []query.User) error {
	if name == "" || len(name) > maxCohortName {
		return fmt.Errorf("the name of a cohort must have 1 to %d bytes", maxCohortName)
	}
	hashes := make([]uint64, len(found))
	for i, u := range found {
		hashes[i] = u.Hash
	}
	slices.Sort(hashes)
	made, err := s.files.makeCohort(name, slices.Compact(hashes))
	if err != nil {
		return err
	}
	var cohorts []*cohort
	err = s.catalog.commit(func(m *manifest) error {
		s.state.mu.Lock()
		cohorts = slices.Clone(s.state.mu.cohorts)
		s.state.mu.Unlock()
		i, ok := slices.BinarySearchFunc(cohorts, name, compareCohort)
		if !ok {
			cohorts = slices.Insert(cohorts, i, made)
		} else {
			if _, err := s.files.users(cohorts[i]); err != nil { // for queries that still have it
				s.log.Warn("trail: read a cohort that is replaced", "err", err)
			}
			cohorts[i] = made
		}
		m.setCohorts(cohorts)
		return nil
	}, func() []*source {
		s.state.mu.cohorts = cohorts
		return nil
	})
	if err != nil && !mayBeCommitted(err) {
		s.files.discard(s.files.path(cohortDir, made.File))
	}
	return err
}

func (m *manifest) setCohorts(cohorts []*cohort) {
	m.Cohorts = nil
	for _, c := range cohorts {
		m.Cohorts = append(m.Cohorts, c.cohortEntry)
	}
}

// withoutUsers returns cohorts that do not have the users: the same, or new ones.
func (d *folder) withoutUsers(cohorts []*cohort, gone []uint64) ([]*cohort, error) {
	cohorts = slices.Clone(cohorts)
	for i, c := range cohorts {
		hashes, err := d.users(c)
		if err != nil {
			return nil, err
		}
		has := func(h uint64) bool {
			_, found := slices.BinarySearch(gone, h)
			return found
		}
		if !slices.ContainsFunc(hashes, has) {
			continue
		}
		made, err := d.makeCohort(c.Name, slices.DeleteFunc(slices.Clone(hashes), has))
		if err != nil {
			return nil, err
		}
		cohorts[i] = made
	}
	return cohorts, nil
}
