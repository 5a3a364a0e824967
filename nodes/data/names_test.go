package data_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestMissingTable starts before there is the table that a statement names. The messages of a
// source are held until it is there, and a call gets 503.
func TestMissingTable(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		outside := engine(t, d.node("n"))
		must(t, outside, "n", "DROP TABLE IF EXISTS missing_table")
		e := engine(t, fmt.Sprintf(`
- {kind: generate, name: in, count: 3, retry: {threshold: 0, backoff: {max: 10ms}}, ports: {out: [{name: text}], error: [{name: dead}]}}
- {kind: snippet, name: text, language: cel, code: '["INSERT INTO missing_table (id) VALUES (%s)", [self.body]]', ports: {out: [{name: insert}]}}
- {kind: snippet, name: dead, language: text, code: dead}
`, d.arg(1))+d.node("insert"))
		want := `waiting for node "insert" (w.yaml:5:3): the statement of "text" (w.yaml:3:3): `
		if got := fmt.Sprint(e.Ready()); !strings.Contains(got, want) || !strings.Contains(got, "missing_table") {
			t.Errorf("without the table: got %s, want %s", got, want)
		}
		_, _, err := e.Run(t.Context(), "text", json(t, `{"body": 7}`))
		if got := node.Describe(err); got.Status != 503 || got.Code != "missing" || !got.Outage {
			t.Errorf("without the table: got %v, with the status %d, want an outage", err, got.Status)
		}
		must(t, outside, "n", "CREATE TABLE missing_table (id INTEGER)")
		deadline := time.After(time.Minute)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for send(t, outside, "n", value.String("SELECT id FROM missing_table ORDER BY id")) != `[{"id":0},{"id":1},{"id":2}]` || len(e.Ready()) > 0 {
			select {
			case <-tick.C:
			case <-deadline:
				t.Fatalf("with the table: %v", e.Ready())
			}
		}
	})
}

// TestNamesLookedFor checks which statements are examined before the first message.
func TestNamesLookedFor(t *testing.T) {
	onEach(t, func(t *testing.T, d database) {
		must(t, engine(t, d.node("n")), "n", "DROP TABLE IF EXISTS there", "DROP TABLE IF EXISTS made", "CREATE TABLE there (id INTEGER)")
		const tick = "- {kind: schedule, name: tick, interval: 24h, ports: {out: [{name: text}]}}\n"
		text := func(language, code string) string {
			return "- {kind: snippet, name: text, language: " + language + ", code: '" + code + "', ports: {out: [{name: n}]}}\n"
		}
		f := func(want, document string) {
			t.Helper()
			_, reasons, err := served(t, document)
			if err != nil {
				t.Errorf("%s: %v", document, err)
			}
			if want == "" && reasons != "[]" || want != "" && !strings.Contains(reasons, want) {
				t.Errorf("%s\ngot %s, want %q", document, reasons, want)
			}
		}
		lost := `["SELECT id FROM lost"]`
		f("", tick+text("cel", `["SELECT id FROM there"]`)+d.node("n"))
		f("lost", tick+text("cel", lost)+d.node("n"))
		f("lost", tick+text("text", `SELECT id FROM lost`)+d.node("n"))
		f("lost", tick+text("json", `["DELETE FROM lost"]`)+d.node("n"))
		f("lost", tick+text("text", `SELECT id FROM there; SELECT id FROM lost`)+d.node("n"))
		f("nothing", tick+text("cel", `["UPDATE there SET id = nothing"]`)+d.node("n"))
		f("SELEC", tick+text("cel", `["INSERT INTO there SELEC id FROM there"]`)+d.node("n"))
		f("lost", tick+text("cel", `["SELECT id FROM lost WHERE id = :id", {"id": 1}]`)+d.node("n"))
		f("", tick+text("cel", `["SELECT id FROM there WHERE id = :id", {"id": 1}]`)+d.node("n"))

		// What makes tables, and what is not known, may come first.
		f("", tick+text("cel", `"SELECT id FROM " + "lost"`)+d.node("n"))
		f("", tick+text("javascript", `export default () => "SELECT id FROM lost"`)+d.node("n"))
		f("", tick+text("text", `CREATE TABLE made (id INTEGER); SELECT id FROM made`)+d.node("n"))
		f("", tick+text("cel", lost)+d.node("n")+
			"- {kind: schedule, name: late, interval: 24h, ports: {out: [{name: make}]}}\n- {kind: snippet, name: make, language: text, code: CREATE TABLE lost (id INTEGER), ports: {out: [{name: other}]}}\n"+d.node("other", "max_conns: 3"))

		// An error that is handled, and a statement without a trigger.
		f("", tick+text("cel", lost)+d.node("n", "ports: {error: [{name: handles}]}")+"- {kind: nop, name: handles}\n")
		f("", text("cel", lost)+d.node("n"))

		// Lifecycle workflows have made their tables, whatever the order of nodes.
		f("", tick+text("cel", `["SELECT id FROM made"]`)+d.node("n")+
			"- {kind: nop, name: last, ports: {active: [{name: make}]}}\n- {kind: snippet, name: make, language: text, code: CREATE TABLE made (id INTEGER), ports: {out: [{name: n}]}}\n")
	})
}
