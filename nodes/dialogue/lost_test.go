package dialogue_test

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestSessionLost takes the database away before a session is loaded, and while a process
// has it.
func TestSessionLost(t *testing.T) {
	const secret = "hunter2-horse"
	proxy := faultproxy.New(t, servertest.Postgres(t).Addr, nil)
	f := newFlow(t)
	f.Load(counter(fmt.Sprintf("store: {driver: postgres, source: 'postgres://postgres:%s@%s/postgres?sslmode=disable', table: lost}", secret, proxy.Addr)))
	lose := func() {
		proxy.Disturb(faultproxy.Trouble{Refuse: true})
		proxy.Break()
	}
	check := func(what string, resp node.Response) {
		t.Helper()
		if !resp.IsError() {
			t.Fatalf("%s: got %s, want an error", what, flowtest.Show(resp))
		}
		err := resp.Payload.AsError()
		e := node.Describe(err)
		if text := fmt.Sprintf("%v %+v", err, e); e.Status != http.StatusServiceUnavailable || !strings.Contains(text, what+" the session") || strings.Contains(text, secret) {
			t.Errorf("%s: got status %d, %s", what, e.Status, text)
		}
	}
	name := rand.Text() // the table stays when the test runs again
	user := value.Map(value.Field{Name: "user", Value: value.String(name)})
	visits(f, name)
	lose()
	check("load", f.Send("s", user))
	proxy.Heal()
	f.Probe("end").Do(func(node.Process, node.Packet) node.Result { lose(); return node.Answer(value.Null()) })
	check("save", f.Send("s", user))
	proxy.Heal()
	f.Probe("end").Do(flowtest.Echo)
	if got := visits(f, name); got != "2" {
		t.Errorf("got %s visits, want 2: what was not saved does not count, and the database is back", got)
	}
}
