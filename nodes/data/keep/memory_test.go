package keep

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// TestMemoryBounds fills a store with sessions of clients that do not come back.
func TestMemoryBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	f := func(l state.Limits, size, most int) {
		t.Helper()
		s := NewMemory((*node.Memory)(nil).Account(""))
		s.Limit(l)
		values := value.Map(value.Field{Name: "a", Value: value.String(strings.Repeat("x", size))})
		for i := range 1000 {
			if err := s.Save(t.Context(), fmt.Sprint(i), Kept{Stamp{Until: now.Add(time.Hour)}, values}, now); err != nil {
				t.Fatal(err)
			}
		}
		n, bytes, evicted := s.Count()
		if n == 0 || n > most || bytes > l.Bytes || evicted != uint64(1000-n) {
			t.Errorf("%+v: got %d sessions, %d bytes, %d evicted; want %d sessions at most", l, n, bytes, evicted, most)
		}
		if k, err := s.Load(t.Context(), "999", now); err != nil || !k.There {
			t.Errorf("%+v: the last session is not there: %v", l, err)
		}
		if k, err := s.Load(t.Context(), "0", now); err != nil || k.There {
			t.Errorf("%+v: the first session is there: %v", l, err)
		}
	}
	f(state.Limits{Count: 10, Bytes: 1 << 30}, 10, 10)
	f(state.Limits{Count: 1000, Bytes: 100_000}, 10_000, 10)
}

// TestMemoryAccount has little memory in the program: the oldest sessions make room for
// new ones, and where others have it all, a session is not saved.
func TestMemoryAccount(t *testing.T) {
	now := time.Unix(1e9, 0)
	memory := node.NewMemory(1 << 20)
	s := NewMemory(memory.Account("session"))
	s.Limit(state.Limits{Count: 1000, Bytes: 1 << 30})
	values := value.Map(value.Field{Name: "a", Value: value.String(strings.Repeat("x", 10<<10))})
	save := func(i int) error {
		return s.Save(t.Context(), fmt.Sprint(i), Kept{Stamp{Until: now.Add(time.Hour)}, values}, now)
	}
	for i := range 200 {
		if err := save(i); err != nil {
			t.Fatal(err)
		}
	}
	if n, bytes, evicted := s.Count(); bytes > 1<<19 || n < 40 || evicted != uint64(200-n) {
		t.Errorf("got %d sessions, %d bytes, %d evicted", n, bytes, evicted)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = NewMemory(memory.Account("session"))
	s.Limit(state.Limits{Count: 1000, Bytes: 1 << 30})
	other := memory.Account("listener")
	other.Hold(1 << 20)
	if err := save(1); node.Describe(err).Status != http.StatusServiceUnavailable {
		t.Errorf("got %v", err)
	}
	other.Close()
	if err := save(1); err != nil {
		t.Error(err)
	}
	if n, bytes, _ := s.Count(); n != 1 || bytes < 10<<10 {
		t.Errorf("got %d sessions, %d bytes", n, bytes)
	}
}
