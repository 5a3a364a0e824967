package trail

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestStoreOf4d86ea6 opens the store that test/before/make has left with revision 4d86ea6,
// and compares it with one of today that has the same events.
func TestStoreOf4d86ea6(t *testing.T) {
	dir := filepath.Join(vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz")), "store")
	wantSound(t, dir)
	always := Options{FlushEvery: -1, NoSync: true, Times: Times{Any: true}}
	same := open(t, t.TempDir(), always)
	var csv strings.Builder
	csv.WriteString("user,time,event,plan,price,vip\n")
	for i := range 12000 {
		plan := []string{"free", "pro", "team"}[i%3]
		if i == 7000 {
			plan = "rare"
		}
		fmt.Fprintf(&csv, "u%d,%d,%s,%s,%d.5,%t\n", i%1000, 1735689600+i*60, []string{"view", "cart", "buy"}[i*i%3], plan, i%97, i%2 == 1)
	}
	if _, err := same.Import(t.Context(), []string{write(t, "events.csv", csv.String())}, ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := same.DeleteUser(t.Context(), "u13"); err != nil {
		t.Fatal(err)
	}
	for batch := range 2 {
		for n := range 5 {
			e := ev(fmt.Sprintf("n%d", n), 1736000000000+1000*int64(n), "signup", prop("plan", event.StringOf("pro")))
			e.ID = fmt.Sprintf("%d-%d", batch, n)
			add(t, same, e)
		}
	}
	if got, want := exported(t, open(t, dir, Options{ReadOnly: true})), exported(t, same); got != want {
		t.Errorf("got %d bytes of events, want %d", len(got), len(want))
	}
	s := open(t, dir, always)
	if got := s.Mark("loader"); len(got) == 0 {
		t.Error("got no mark of the loader")
	}
	late := ev("late", base, "view")
	add(t, s, late)
	add(t, same, late)
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if exported(t, s) != exported(t, same) {
		t.Error("after an append and a merge: got other events")
	}
}
