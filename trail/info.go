package trail

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// exactUsers is the number of users up to which Info counts exactly.
const exactUsers = 20_000_000

// Info returns what is in the store. It counts the events by name, which takes about
// a nanosecond for each. A closed store returns the zero Info.
func (s *Store) Info() Info {
	sn, err := s.state.view()
	if err != nil {
		return Info{}
	}
	defer sn.unpin()
	info := Info{
		Dir: s.files.dir, Bucket: time.Duration(sn.width) * time.Millisecond, Commit: sn.commit,
		Horizon: sn.kept(), Schema: sn.schema,
	}
	deleted := make(map[hexHash]bool)
	for _, t := range sn.tombs.all {
		deleted[t.Hash] = true
	}
	info.Deleted = len(deleted)
	if first, last, ok := sn.bounds(); ok {
		info.MinTime, info.MaxTime = first, last
	}
	counts := make(map[string]int64)
	sizes := make(partSizes)
	for _, src := range sn.sources {
		info.Rows += src.Rows
		if src.memory {
			info.MemoryRows += src.Rows
		} else {
			info.Bytes += src.Bytes
			info.Segments = append(info.Segments, SegmentInfo{
				File: src.File, From: src.Bucket*sn.width + epochMonday, Rows: src.Rows, Users: src.Users,
				Bytes: src.Bytes, MinTime: src.MinTime, MaxTime: src.MaxTime,
			})
			if src.seg != nil {
				sizes.add(src.seg)
			}
		}
		err := src.damage
		if err == nil {
			err = guarded(func() error { return countEvents(src.seg, counts) })
		}
		if err == nil && src.unmergeable.Load() {
			err = errDamaged
		}
		if err == nil {
			continue
		}
		if _, damaged := errors.AsType[*DamagedError](err); !damaged {
			if _, named := errors.AsType[*segment.DamageError](err); !named {
				err = fmt.Errorf("%s/%s: %w", segmentDir, src.File, err)
			}
			err = s.files.damaged(src, err)
		}
		info.Damaged = append(info.Damaged, err.Error())
		info.Users = -1
	}
	info.Parts = sizes.list()
	for name, n := range counts {
		info.Events = append(info.Events, EventCount{name, n})
	}
	slices.SortFunc(info.Events, func(a, b EventCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Name, b.Name))
	})
	for _, c := range sn.cohorts {
		info.Cohorts = append(info.Cohorts, CohortInfo{c.Name, c.Users})
	}
	if warning := lossWarning(sn.lost); warning != "" {
		info.Damaged = append(info.Damaged, warning)
	}
	if info.Users == 0 { // all can be read, as far as is known
		err = guarded(func() (err error) {
			info.Users, err = countUsers(sn)
			return err
		})
		if err != nil {
			info.Users = -1
			info.Damaged = append(info.Damaged, sn.asDamaged(err).Error())
		}
	}
	if s.wal != nil {
		st := s.wal.Stats()
		info.WALBytes, info.WALRecords = st.LiveBytes, int64(st.LiveRecords)
	} else {
		s.state.mu.Lock()
		info.WALBytes, info.WALRecords = s.state.mu.logBytes, s.state.mu.logRecords
		s.state.mu.Unlock()
	}
	return info
}

// partSizes are the bytes of parts by name and layout.
type partSizes map[string]map[string]int64

func (p partSizes) add(seg *segment.Segment) {
	for name, part := range seg.Sizes() {
		name = strings.Clone(name) // the map may go
		if p[name] == nil {
			p[name] = make(map[string]int64)
		}
		p[name][part.Layout] += part.Bytes
	}
}

func (p partSizes) list() []PartInfo {
	var parts []PartInfo
	for name, layouts := range p {
		names := slices.SortedFunc(maps.Keys(layouts), func(a, b string) int {
			return cmp.Or(cmp.Compare(layouts[b], layouts[a]), strings.Compare(a, b))
		})
		part := PartInfo{Name: name, Layout: strings.Join(names, ", ")}
		for _, bytes := range layouts {
			part.Bytes += bytes
		}
		parts = append(parts, part)
	}
	slices.SortFunc(parts, func(a, b PartInfo) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Name, b.Name))
	})
	return parts
}

// countEvents adds the number of events of each name in a segment.
func countEvents(seg *segment.Segment, counts map[string]int64) error {
	events := seg.Events()
	byCode := make([]int64, events.Codes())
	for lo := 0; lo < seg.Rows(); lo += rowBlock {
		hi := min(lo+rowBlock, seg.Rows())
		if _, err := events.Prepare(lo, hi); err != nil {
			return err
		}
		for _, code := range events.Read32(nil, lo, hi) {
			byCode[code]++
		}
	}
	for code, n := range byCode {
		if n > 0 {
			counts[strings.Clone(events.Value(uint32(code)).Text())] += n // the map may go
		}
	}
	return nil
}

// countUsers returns the number of distinct users. Users are sorted by hash, so the
// first part of the hashes is a fair sample.
func countUsers(sn *snapshot) (int64, error) {
	var most int64 // at least as many as there are
	for _, src := range sn.sources {
		most += src.Users
	}
	shift := 0
	for most>>shift > exactUsers {
		shift++
	}
	last := ^uint64(0) >> shift
	seen := make(map[uint64]struct{})
	for _, src := range sn.sources {
		r, _, err := src.seg.Range(0, last)
		if err != nil {
			return 0, fmt.Errorf("count users: %w", err)
		}
		for _, h := range src.seg.Hashes()[r.UserLo:r.UserHi] {
			seen[h] = struct{}{}
		}
	}
	return int64(len(seen)) << shift, nil
}
