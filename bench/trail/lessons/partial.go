package main

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// An ask is a request to a node: a question by its number, of some of its shards.
type ask struct{ query, from, count int }

func (a ask) bytes() []byte {
	b := binary.AppendUvarint(nil, uint64(a.query))
	b = binary.AppendUvarint(b, uint64(a.from))
	return binary.AppendUvarint(b, uint64(a.count))
}

var errBroken = errors.New("a message is not what it should be")

func readAsk(b []byte) (ask, error) {
	var n [3]int
	for i := range n {
		v, width := binary.Uvarint(b)
		if width <= 0 || v > math.MaxInt32 {
			return ask{}, errBroken
		}
		n[i], b = int(v), b[width:]
	}
	if len(b) > 0 {
		return ask{}, errBroken
	}
	return ask{n[0], n[1], n[2]}, nil
}

// A partial is the part of an answer that some users contribute: numbers by what
// they are of. Parts of different users are added.
type partial map[string]int64

func (p partial) add(other partial) {
	for key, n := range other {
		p[key] += n
	}
}

// partialOf returns the numbers of a funnel or of a segmentation.
func partialOf(a *query.Answer) partial {
	p := partial{}
	if a.Funnel != nil {
		for i, s := range a.Funnel.Steps {
			p[string(rune('1'+i))+s.Event] += s.Users.N
		}
	}
	if a.Segment != nil {
		for _, r := range a.Segment.Rows {
			key := r.Bucket
			for _, v := range r.Group {
				key += "\x00" + v.String()
			}
			p[key] += r.Value.Int
		}
	}
	return p
}

func (p partial) bytes() []byte {
	keys := make([]string, 0, len(p))
	for key := range p {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	b := binary.AppendUvarint(nil, uint64(len(keys)))
	for _, key := range keys {
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
		b = binary.AppendVarint(b, p[key])
	}
	return b
}

func readPartial(b []byte) (partial, error) {
	count, width := binary.Uvarint(b)
	if width <= 0 || count > uint64(len(b)) {
		return nil, errBroken
	}
	b = b[width:]
	p := make(partial, count)
	for range count {
		length, width := binary.Uvarint(b)
		if width <= 0 || length > uint64(len(b)-width) {
			return nil, errBroken
		}
		key := string(b[width : width+int(length)])
		b = b[width+int(length):]
		n, width := binary.Varint(b)
		if width <= 0 {
			return nil, errBroken
		}
		p[key], b = n, b[width:]
	}
	if len(b) > 0 || uint64(len(p)) != count {
		return nil, errBroken
	}
	return p, nil
}
