package dialogue

import (
	"fmt"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// TestRow saves rows and reads them again.
func TestRow(t *testing.T) {
	s := keep.NewMemory((*node.Memory)(nil).Account(""))
	now := time.UnixMilli(1e12)
	f := func(values value.Value, owner string, runs int, want string) {
		t.Helper()
		had, err := readRow(t.Context(), s, "k", now)
		if err != nil {
			t.Fatal(err)
		}
		r := row{Stamp: had.Stamp, values: values, owner: owner, until: now.Add(time.Second)}
		for i := range runs {
			r.save(fmt.Sprint("r", i%20), i)
		}
		if err := s.Save(t.Context(), "k", r.kept(), now); err != nil {
			t.Fatal(err)
		}
		if r, err = readRow(t.Context(), s, "k", now); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(r.values, " ", r.owner, " ", r.There, " ", len(r.saved), " ", r.changes("r1")); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		if r.owner != "" && !r.until.Equal(now.Add(time.Second)) {
			t.Errorf("it is owned until %v", r.until)
		}
	}
	values := value.Map(value.Field{Name: "a", Value: value.Int(1)})
	f(values, "", 0, `{"a":1}  true 0 0`)
	f(values, "me", 2, `{"a":1} me true 2 1`)
	f(values, "", 42, `{"a":1}  true 16 41`) // the oldest are forgotten
	f(value.Null(), "me", 0, `null me true 0 0`)
	f(value.Map(), "me", 1, `{} me true 1 0`)
	f(value.Null(), "", 1, `null  false 0 0`) // there is no session
	f(value.Map(), "", 1, `null  false 0 0`)
}
