package value

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestClone compares copies with what they are of, and lets that go.
func TestClone(t *testing.T) {
	large := strings.Repeat("x", 64<<20)
	freed := make(chan struct{})
	marker := new([16]byte)
	runtime.AddCleanup(marker, func(c chan struct{}) { close(c) }, freed)
	v := Map(
		Field{"text", String(large[:10])}, Field{"binary", Binary(marker[:3:3])}, Field{"empty", String("")},
		Field{"list", List(String(large[1:5]), Int(7), Null(), Bool(true), Float(1.5), List())},
		Field{"map", Map(Field{"b", String(large[:3])}, Field{"a", Time(time.Unix(7, 0))})}, Field{"error", Error(errors.New("e"))},
		Field{"lazy", LazyMap(sourceOf{Field{"x", String(large[:2])}}, 100, 2)},
	)
	c := v.Clone()
	if text := v.String(); c.String() != text || c.Len() != v.Len() {
		t.Errorf("got %s, want %s", c, text)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	runtime.KeepAlive(v) // and so all that it is of, up to here
	for range 3 {
		runtime.GC()
	}
	runtime.ReadMemStats(&after)
	if got := before.HeapAlloc - after.HeapAlloc; got < 60<<20 || got > 1<<30 {
		t.Errorf("%d bytes were let go, want 64 MiB", got)
	}
	<-freed
	runtime.KeepAlive(c)
}

type sourceOf []Field

func (s sourceOf) Fields() []Field { return s }
