package flow

import (
	"encoding/json"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestTrails asks the store of a program that writes to it.
func TestTrails(t *testing.T) {
	t.Chdir(t.TempDir())
	store, err := trail.Open("shop.trail", trail.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var events []event.Event
	for i, name := range []string{"view", "cart", "view"} {
		events = append(events, event.Event{User: []string{"ann", "ann", "bob"}[i], Name: name, Time: time.Now().Add(time.Duration(i) * time.Second).UnixMilli()})
	}
	if err := store.Append(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	apptest.Write(t, "f.yaml", listenSpec+"- {kind: trail_append, name: keep, db: shop.trail}\n- {kind: trail_query, name: ask, db: none.trail, query: {funnel: {steps: [view]}}}\n")
	s := serve(t, "--from-specs", "f.yaml", "--admin", "127.0.0.1:0", "--admin-token", "all")
	c := &api.Client{Address: s.await(`admin server listening" address=(\S+)`)[0], Token: "all"}
	s.await("generation serves")
	var trails []api.Trail
	if err := c.Get(t.Context(), api.Base+"trails", &trails); err != nil || len(trails) != 2 {
		t.Fatalf("got %+v, %v", trails, err)
	}
	if none := trails[0]; none.Folder != "none.trail" || none.Error == "" {
		t.Errorf("a store that is not there: %+v", none)
	}
	if shop := trails[1]; shop.Rows != 3 || shop.Users != 2 || len(shop.Events) != 2 || shop.Events[0] != (api.TrailEvent{Name: "view", Count: 2}) || shop.From == nil {
		t.Errorf("got %+v", shop)
	}
	ask := func(folder, query string) (string, error) {
		var answer json.RawMessage
		err := c.Send(t.Context(), http.MethodPost, api.Base+"trails/query", api.TrailQuery{Folder: folder, Query: query}, &answer)
		return string(answer), err
	}
	if got, err := ask("shop.trail", "funnel: {steps: [view, cart], within: 1h}"); err != nil || !strings.Contains(got, `"steps":[{"event":"view","users":2},{"event":"cart","users":1}]`) {
		t.Errorf("got %s, %v", got, err)
	}
	for query, want := range map[string]string{"funnel: {step: [view]}": "unknown key", "": "", "[": ""} {
		if got, err := ask("shop.trail", query); err == nil || !strings.HasPrefix(err.Error(), "400") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %s, %v", query, got, err)
		}
	}
	if got, err := ask("/etc", "funnel: {steps: [view]}"); err == nil || !strings.HasPrefix(err.Error(), "404") {
		t.Errorf("another folder: got %s, %v", got, err)
	}
	s.signals <- syscall.SIGTERM
	s.ended(0)
}
