package session

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestSession(t *testing.T) {
	s := New(value.Null())
	f := func(want string, wantChanged bool) {
		t.Helper()
		if values, changed := s.Values(); values.String() != want || changed != wantChanged {
			t.Errorf("got %s (changed %t), want %s (changed %t)", values, changed, want, wantChanged)
		}
	}
	f(`{}`, false)
	s.Set("name", value.String("ann"))
	f(`{"name":"ann"}`, true)
	s.Append("name", 2, value.Int(1), value.Int(2), value.Int(3))
	f(`{"name":[2,3]}`, true)
	s.Append("name", 2, value.Int(4))
	f(`{"name":[3,4]}`, true)
	if got := s.Get("name").Len(); got != 2 {
		t.Errorf("got a list of %d", got)
	}
	s.Append("none", 0, value.Int(1))
	f(`{"name":[3,4],"none":[]}`, true)
	s.Set("name", value.Null())
	f(`{"none":[]}`, true)
	s.Clear()
	f(`{}`, true)
	if s.hasEnded() {
		t.Error("it has ended")
	}
	if values, changed := s.End(); values.Len() != 0 || !changed || !s.hasEnded() {
		t.Errorf("got %s, %t", values, changed)
	}
}
