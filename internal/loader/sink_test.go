package loader

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A memory is a sink that outlives its loader. What was not synced is gone with
// the loader, as a store may have it.
type memory struct {
	data   []byte
	synced int
	fail   []error // of the next Syncs
	cuts   []Position
}

func (m *memory) Append(lines []byte) (Span, error) {
	span := Span{Position{1, int64(len(m.data))}, int64(len(lines))}
	m.data = append(m.data, lines...)
	return span, nil
}

func (m *memory) Sync() error {
	if len(m.fail) > 0 {
		err := m.fail[0]
		m.fail = m.fail[1:]
		return err
	}
	m.synced = len(m.data)
	return nil
}

func (m *memory) Cut(p Position) error {
	m.cuts = append(m.cuts, p)
	m.data = m.data[:p.Offset]
	return nil
}

func (m *memory) End() (Position, error) { return Position{}, nil }

func (m *memory) Files() int { return 1 }

func (m *memory) Close() error {
	m.data = m.data[:m.synced]
	return nil
}

// TestOtherSink keeps events elsewhere than in files; the journal works as it
// does with them.
func TestOtherSink(t *testing.T) {
	m := &memory{}
	r := openRig(t, Options{Sink: m})
	r.want(r.post("[1,2]", "Idempotency-Key", "a"), 200)
	if got := r.want(r.post("[1,2]", "Idempotency-Key", "a"), 200); !got.Dup {
		t.Errorf("got %+v", got)
	}
	r = r.reopen(Options{Sink: m})
	if got := r.want(r.post("[1,2]", "Idempotency-Key", "a"), 200); !got.Dup {
		t.Errorf("got %+v", got)
	}
	r.want(r.post("[3]", "Idempotency-Key", "b"), 200)
	if got := string(m.data); got != "1\n2\n3\n" {
		t.Errorf("got %q", got)
	}
	if want := []Position{{}, {1, 4}}; len(m.cuts) != 2 || m.cuts[0] != want[0] || m.cuts[1] != want[1] {
		t.Errorf("got cuts at %v, want %v", m.cuts, want)
	}
}

// TestSyncFails counts nothing of a batch as taken when the events or the record
// could not be synced, and goes on by itself.
func TestSyncFails(t *testing.T) {
	m := &memory{fail: []error{nil, errors.New("input/output error"), nil}}
	r := openRig(t, Options{Sink: m, probeEvery: 1})
	r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
	got := r.want(r.post("[2]", "Idempotency-Key", "b"), 503)
	if !strings.Contains(got.Error, "input/output error") || got.header.Get("Retry-After") != "1" {
		t.Errorf("got %+v", got)
	}
	r.await("that it works", func(s Stats) bool { return s.Failing == "" })
	if got := r.want(r.post("[2]", "Idempotency-Key", "b"), 200); got.Dup {
		t.Errorf("got %+v", got)
	}
	if !bytes.Equal(m.data, []byte("1\n2\n")) {
		t.Errorf("got %q", m.data)
	}
}

// TestGhost takes back a record that was written as a whole, but of which the
// fsync has failed: its client was told 503.
func TestGhost(t *testing.T) {
	r := openRig(t, Options{})
	r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
	// The committer waits, and sees all of this with the next batch.
	j := r.loader.journal
	ghost := record{key: "b", span: Span{Position{1, 2}, 2}, accepted: 7}
	if _, err := j.f.WriteAt(ghost.append(nil), j.size); err != nil {
		t.Fatal(err)
	}
	j.bad, r.loader.broken = true, true
	if got := r.want(r.post("[2]", "Idempotency-Key", "b"), 200); got.Dup || got.Accepted != 1 {
		t.Errorf("got %+v", got)
	}
	r = r.reopen(Options{})
	if got := r.want(r.post("[2]", "Idempotency-Key", "b"), 200); !got.Dup || got.Accepted != 1 {
		t.Errorf("got %+v", got)
	}
	if got := r.loader.Recovered(); got.Events != 2 || got.Batches != 2 {
		t.Errorf("got %+v", got)
	}
	r.wantEvents("1", "2")
}
