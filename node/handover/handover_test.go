package handover

import (
	"context"
	"net/http"
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
