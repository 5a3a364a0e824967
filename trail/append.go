package trail

import (
	"context"
	"fmt"

	"github.com/uniflow-labs/uniflow/trail/event"
)

const maxAppend = 512 << 20 // bytes of one append

// Append adds events: all, or none. When it returns nil they are durable and
// visible to queries. Concurrent calls share the fsync. While too many events wait
// already, it blocks until ctx is done.
//
// The error is a *RejectedError for events that can never be taken: malformed ones,
// events outside Options.Times or before the horizon of the store, and events
// with a property of another type. Any other error, such as a full disk, may
// go away.
//
// Of events equal in user, time and id (other than "") the store keeps the first;
// AppendCounted returns how many it had already.
func (s *Store) Append(ctx context.Context, events []event.Event) error {
	_, err := s.append(ctx, events, "", nil)
	return err
}

// Appended is what became of the events of an append.
type Appended struct {
	Events     int64 // that the store has now and did not have before
	Duplicates int64 // left out because the store, or the same append, has the same user, time and id
}

// AppendCounted is Append, and returns how many of the events were new. Counts are zero
// with an error.
func (s *Store) AppendCounted(ctx context.Context, events []event.Event) (Appended, error) {
	return s.append(ctx, events, "", nil)
}

// AppendMarked adds events, and keeps a mark under the name of their source, both
// or neither: after a crash, Mark returns the last mark kept, from which to append again. events may be
// empty.
func (s *Store) AppendMarked(ctx context.Context, events []event.Event, source string, mark []byte) error {
	if mark == nil {
		mark = []byte{}
	}
	_, err := s.append(ctx, events, source, mark)
	return err
}

func (s *Store) append(ctx context.Context, events []event.Event, source string, mark []byte) (Appended, error) {
	if s.opt.ReadOnly {
		return Appended{}, ErrReadOnly
	}
	if err := ctx.Err(); err != nil {
		return Appended{}, err
	}
	if len(events) == 0 && mark == nil {
		return Appended{}, nil
	}
	sn := s.state.current.Load()
	if sn == nil {
		return Appended{}, ErrClosed
	}
	times := s.opt.Times.window(s.opt.now())
	times.kept = sn.kept()
	chunk, schema, large, err := encode(events, source, mark, times)
	if err != nil {
		return Appended{}, err
	}
	if len(chunk) > maxAppend {
		return Appended{}, fmt.Errorf("an append of %d bytes: at most %d go together", len(chunk), maxAppend)
	}
	r := &request{events: events, chunk: chunk, schema: schema, large: large}
	if err := s.committer.submit(ctx, r); err != nil {
		return Appended{}, refusals(err, events)
	}
	return Appended{Events: int64(len(events)) - r.twice, Duplicates: r.twice}, nil
}
