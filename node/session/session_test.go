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

// TestRedo makes the changes of a session of other values, without those that they have already.
func TestRedo(t *testing.T) {
	s := New(value.Null())
	s.Set("none", value.Int(0)) // before the log
	s.Log()
	s.Append("list", 3, value.Int(1))
	s.Set("name", value.String("ann"))
	s.Append("list", 3, value.Int(2), value.Int(3))
	s.Set("none", value.Null())
	if n := s.Changes(); n != 4 {
		t.Fatalf("got %d changes", n)
	}
	other := value.Map(value.Field{Name: "list", Value: value.List(value.Int(9))}, value.Field{Name: "none", Value: value.Int(5)})
	f := func(values value.Value, without int, want string) {
		t.Helper()
		if got := s.Redo(values, without).String(); got != want {
			t.Errorf("without %d: got %s, want %s", without, got, want)
		}
	}
	f(other, 0, `{"list":[1,2,3],"name":"ann"}`)
	f(other, 2, `{"list":[9,2,3]}`)
	f(other, 4, `{"list":[9],"none":5}`)
	f(other, 9, `{"list":[9],"none":5}`)
	f(value.Null(), 1, `{"name":"ann","list":[2,3]}`)
	s.Rebase(other)
	if values, _ := s.Values(); values.String() != `{"list":[9],"none":5}` || s.Changes() != 4 {
		t.Errorf("got %s, and %d changes", values, s.Changes())
	}
	s.Clear()
	f(other, 0, `{}`)
}
