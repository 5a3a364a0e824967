package handover

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestSlot(t *testing.T) {
	h := http.NotFoundHandler()
	if Leave(t.Context(), h) {
		t.Error("a context without a slot took a handler")
	}
	var s Slot
	ctx := With(context.Background(), &s)
	if !Leave(ctx, h) {
		t.Error("an empty slot took no handler")
	}
	if Leave(ctx, h) {
		t.Error("a slot took a second handler")
	}
	if s.Take() == nil {
		t.Error("the handler is not there")
	}
	var late Slot
	if late.Take() != nil {
		t.Error("an empty slot has a handler")
	}
	if Leave(With(context.Background(), &late), h) {
		t.Error("a slot took a handler after Take, so a forked process could answer the next request")
	}
}

// closing is a handler that counts how often it was closed.
type closing struct {
	http.Handler
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

func TestDrop(t *testing.T) {
	f := func(take bool, want int) {
		t.Helper()
		s, h := Slot{Request: &http.Request{}}, &closing{Handler: http.NotFoundHandler()}
		ctx := With(context.Background(), &s)
		if Request(ctx) != s.Request {
			t.Error("the request is not the one in the slot")
		}
		if !Leave(ctx, h) {
			t.Fatal("an empty slot took no handler")
		}
		if take {
			s.Take()
		}
		s.Drop()
		s.Drop()
		if h.closed != want || Leave(ctx, h) {
			t.Errorf("taken %v: closed %d times, want %d, and nothing to be left afterwards", take, h.closed, want)
		}
	}
	f(false, 1)
	f(true, 0)
	new(Slot).Drop()
	if Request(context.Background()) != nil {
		t.Error("a context without a slot has a request")
	}
}

func TestBody(t *testing.T) {
	if _, ok, _ := Body(t.Context(), 1); ok {
		t.Error("a context without a slot has a body")
	}
	var s Slot
	ctx := With(t.Context(), &s)
	if _, ok, _ := Body(ctx, 1); ok {
		t.Error("a body that was read can be had")
	}
	var limit int64
	s.Open = func(n int64) (io.Reader, error) {
		limit = n
		return strings.NewReader("x"), nil
	}
	if body, ok, err := Body(ctx, 7); body == nil || !ok || err != nil || limit != 7 {
		t.Errorf("got %v, %v, %v with the limit %d", body, ok, err, limit)
	}
}

func TestSetHeader(t *testing.T) {
	if SetHeader(t.Context(), "set-cookie", "a=1") {
		t.Error("a context without a slot took a header")
	}
	var s Slot
	ctx := With(t.Context(), &s)
	SetHeader(ctx, "set-cookie", "a=1")
	SetHeader(ctx, "Set-Cookie", "b=2")
	h := http.Header{"Set-Cookie": {"c=3"}}
	s.AddTo(h)
	if got := h["Set-Cookie"]; !slices.Equal(got, []string{"c=3", "a=1", "b=2"}) {
		t.Errorf("got %q", got)
	}
}
