package trail

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// A compactBench is a compactor whose segments are in memory.
type compactBench struct {
	*compactor
	merges [][]*source
	fail   func(sources []*source) error // nil: goes well
	expire error
}

func newCompactBench(t *testing.T, files ...*source) *compactBench {
	st, _ := memoryState(t)
	b := &compactBench{}
	b.compactor = newCompactor(compactEnv{
		expire: func() error { return b.expire },
		write: func(_ context.Context, sources []*source) ([]*source, error) {
			b.merges = append(b.merges, sources)
			if b.fail != nil {
				if err := b.fail(sources); err != nil {
					return nil, err
				}
			}
			rows := 0
			for _, src := range sources {
				rows += int(src.Rows)
			}
			return []*source{fileOf(t, "merged", sources[0].Bucket, lastCommit(sources), rows)}, nil
		},
		replace: func(out, made []*source, _ func(*manifest) error, _ func()) error {
			st.update(func() { st.replaceLocked(out, made...) })
			return nil
		},
		commit: func(change func(*manifest) error, apply func() []*source) error { return change(new(manifest)) },
	}, st)
	st.update(func() { st.replaceLocked(nil, files...) })
	return b
}

// names returns the segments by bucket, as queries see them.
func (b *compactBench) names() (names []string) {
	for _, src := range b.state.current.Load().sources {
		names = append(names, src.File)
	}
	return names
}

func (b *compactBench) wantNames(t *testing.T, want ...string) {
	t.Helper()
	if got := b.names(); !slices.Equal(got, want) {
		t.Errorf("got segments %q, want %q", got, want)
	}
}

// fourAndOne returns four segments of a bucket, which are to be merged, and one of a
// later bucket.
func fourAndOne(t *testing.T) []*source {
	return []*source{
		fileOf(t, "a", 1, 1, 10), fileOf(t, "b", 1, 2, 10), fileOf(t, "c", 1, 3, 10), fileOf(t, "d", 1, 4, 10), fileOf(t, "later", 2, 5, 10),
	}
}

func TestCompactorMergesTiers(t *testing.T) {
	b := newCompactBench(t, fourAndOne(t)...)
	b.mergeTiers(t.Context())
	b.wantNames(t, "merged", "later")
	// One late event is not worth writing the bucket again.
	b.state.update(func() { b.state.replaceLocked(nil, fileOf(t, "late", 1, 6, 1)) })
	b.mergeTiers(t.Context())
	b.wantNames(t, "merged", "late", "later")
	if len(b.merges) != 1 {
		t.Errorf("got %d merges, want 1", len(b.merges))
	}
	// But if it is asked to.
	if err := b.mergeAll(t.Context(), func(int64, int64) {}); err != nil {
		t.Error(err)
	}
	b.wantNames(t, "merged", "later")
}

// TestCompactorPassesOverDamage has one of the segments be damaged: the others are
// merged, and it is not tried again.
func TestCompactorPassesOverDamage(t *testing.T) {
	files := append(fourAndOne(t), fileOf(t, "damaged", 1, 6, 10))
	b := newCompactBench(t, files...)
	damaged := files[len(files)-1]
	b.fail = func(sources []*source) error {
		if slices.Contains(sources, damaged) {
			return &segment.DamageError{Path: "damaged"}
		}
		return nil
	}
	b.mergeTiers(t.Context())
	b.wantNames(t, "merged", "damaged", "later")
	if !damaged.unmergeable.Load() || len(b.merges) != 2 {
		t.Errorf("got %d merges, want one without the damaged segment after one with it", len(b.merges))
	}
}

func TestCompactorFails(t *testing.T) {
	b := newCompactBench(t, fourAndOne(t)...)
	broken := errors.New("broken")
	b.fail = func([]*source) error { return broken }
	b.mergeTiers(t.Context())
	b.wantNames(t, "a", "b", "c", "d", "later")
	if len(b.merges) != 1 {
		t.Errorf("got %d tries, want one until it is woken again", len(b.merges))
	}
	if err := b.mergeAll(t.Context(), func(int64, int64) {}); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	b.fail, b.expire = nil, broken
	if err := b.mergeAll(t.Context(), func(int64, int64) {}); !errors.Is(err, broken) || len(b.merges) != 2 {
		t.Errorf("got %v after %d tries, want %v, and none more", err, len(b.merges), broken)
	}
	b.mergeTiers(t.Context()) // old events can stay a while
	b.wantNames(t, "merged", "later")
}

// TestCompactorEndsWhileBusy cancels a merge of the compactor, for which a call waits.
func TestCompactorEndsWhileBusy(t *testing.T) {
	b := newCompactBench(t, fourAndOne(t)...)
	ctx, cancel := context.WithCancel(t.Context())
	writing := make(chan struct{})
	b.fail = func([]*source) error {
		close(writing)
		<-ctx.Done()
		return ctx.Err()
	}
	var wg sync.WaitGroup
	wg.Go(func() { b.run(ctx) })
	notify(b.wake)
	<-writing
	call, give := context.WithCancel(t.Context())
	var err error
	var waits sync.WaitGroup
	waits.Go(func() { err = b.do(call, func() error { return nil }) })
	give()
	if waits.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v of a call during a merge, want that it was cancelled", err)
	}
	cancel()
	wg.Wait()
	b.wantNames(t, "a", "b", "c", "d", "later")
}
