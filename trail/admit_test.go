package trail

import (
	"errors"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestAdmission has requests of one group come near the limits of the store: a request
// that is refused must not take the place of the next.
func TestAdmission(t *testing.T) {
	st, _ := memoryState(t)
	a := newAdmission(st, 2)
	st.update(func() { st.replaceLocked(nil, runOf(t, 0, 1, 1)) })
	at := func(bucket int64, v event.Value) event.Event {
		return ev("u", bucket*defaultBucket.Milliseconds()+epochMonday, "view", prop("k", v))
	}
	one, text := event.IntOf(1), event.StringOf("x")
	schema, refused := a.admit([]*request{
		requestOf(t, at(0, one)),
		requestOf(t, at(1, one), at(2, one)), // one bucket too many
		requestOf(t, at(1, text)),            // of another type
		requestOf(t, at(1, one)),
		requestOf(t, at(3, one)),
	})
	wantErrors(t, []error{refused[0], refused[3]}, nil, nil)
	for _, i := range []int{1, 4} {
		if !isRefused(refused[i]) {
			t.Errorf("got %v of request %d, want it refused", refused[i], i)
		}
	}
	if _, ok := errors.AsType[*event.TypeError](refused[2]); !ok {
		t.Errorf("got %v, want a type error", refused[2])
	}
	if len(schema) != 1 || schema.Type("k") != event.Int {
		t.Errorf("got schema %v", schema)
	}
	if _, err := a.admitSegments([]*source{runOf(t, 5, 1, 1), runOf(t, 6, 1, 1)}, nil); err == nil {
		t.Error("segments of too many buckets are admitted")
	}
	wide, err := a.admitSegments([]*source{runOf(t, 5, 1, 1)}, event.Schema{{Name: "k", Type: event.Float}})
	if err != nil || wide.Type("k") != event.Float {
		t.Errorf("got %v and %v", wide, err)
	}
}
