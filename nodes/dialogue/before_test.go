package dialogue_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestSessionsOf4d86ea6 loads the sessions that test/before/make has left with revision
// 4d86ea6, and changes them.
func TestSessionsOf4d86ea6(t *testing.T) {
	dir := vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz"))
	f := newFlow(t)
	f.Options.Clock = node.SystemClock{}
	f.Load(counter(fmt.Sprintf("ttl: 0s, store: {driver: sqlite, source: '%s'}", filepath.Join(dir, "sessions.db"))))
	for _, step := range [][2]string{
		{"ann", `{"visits":3,"list":[1,2.5,null,"é"],"last":"ann"}`},
		{"bob", `{"visits":2,"list":[1,2.5,null,"é"],"last":"bob"}`},
		{"ann", `{"visits":4,"list":[1,2.5,null,"é"],"last":"ann"}`},
	} {
		resp := f.Send("s", value.Map(value.Field{Name: "user", Value: value.String(step[0])}))
		session, _ := resp.Payload.Get("session")
		if got := session.String(); resp.IsError() || got != step[1] {
			t.Errorf("got %s %s, want %s", flowtest.Show(resp), got, step[1])
		}
	}
}
