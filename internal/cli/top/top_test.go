package top

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// filled is a model of three nodes after two events.
func filled(t *testing.T) *model {
	t.Helper()
	m := &model{sort: byRate}
	m.status = api.Status{Ready: true, Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	for i, e := range []api.Event{
		{Type: "hello", Data: []byte(`{"generation": 7, "nodes": [{"kind": "snippet", "namespace": "default", "name": "price"}, {"kind": "router", "namespace": "default", "name": "\u001b[2Jroutes"}, {"kind": "nop", "namespace": "default"}]}`)},
		{Type: "metrics", Data: []byte(`{"time": "2026-01-02T05:04:05Z", "started": 10, "rows": [{"node": 0}, {"node": 1}, {"node": 2}]}`)},
		{Type: "metrics", Data: []byte(`{"time": "2026-01-02T05:04:06Z", "started": 1910, "failed": 3, "in_flight": 12, "rows": [{"node": 0, "packets": 5, "rate": 5, "p50": 0.0002, "p99": 0.0004, "load": 0.31}, {"node": 1, "packets": 9, "rate": 1900, "failing": 3}]}`)},
		{Type: "other", Data: []byte(`later versions have more`)},
	} {
		if rates, err := m.event(e); err != nil || rates != (i >= 2) {
			t.Fatalf("%s: got %v, %v", e.Type, rates, err)
		}
	}
	return m
}

func TestLines(t *testing.T) {
	m := filled(t)
	want := `uniflow top  gen 7  up 2h0m1s  1900/s  12 running  3.00 failed/s  ready  ? help
NODE            KIND            IN/S*  ERR/S     P50     P99   RUN  LAST MINUTE
\x1b[2Jroutes   router           1900   3.00                   0 %            #
price           snippet          5.00   0.00  200 µs  400 µs  31 %            #
(nop)           nop              0.00   0.00                   0 %`
	if got := strings.Join(m.lines(80, 24), "\n"); got != want {
		t.Errorf("got\n%s, want\n%s", got, want)
	}
	for width := 1; width < 200; width++ {
		for height := range 12 {
			lines := m.lines(width, height)
			if height > 2 && len(lines) > height {
				t.Errorf("%d x %d: got %d lines", width, height, len(lines))
			}
			for _, line := range lines {
				if n := len([]rune(line)); n > width || strings.ContainsFunc(line, unicode.IsControl) {
					t.Errorf("%d x %d: got %q, %d wide", width, height, line, n)
				}
			}
		}
	}
}

// names are the names of the rows that are shown.
func names(m *model) string {
	var names []string
	for _, r := range m.shown() {
		names = append(names, strings.TrimPrefix(r.name(), "\x1b[2J"))
	}
	return strings.Join(names, " ")
}

func TestKeys(t *testing.T) {
	m := filled(t)
	f := func(keys, want, last string) {
		t.Helper()
		for rest := keys; rest != ""; {
			var key string
			if key, rest = next(rest); m.key(key) {
				t.Errorf("%q ends it", key)
			}
		}
		if got := names(m); got != want {
			t.Errorf("%q: got %s, want %s", keys, got, want)
		}
		if lines := m.lines(80, 24); last != "" && lines[len(lines)-1] != last {
			t.Errorf("%q: got the last line %q, want %q", keys, lines[len(lines)-1], last)
		}
	}
	f("", "routes price (nop)", "")
	f("\x1b[C\x1b[C", "price routes (nop)", "") // by P50, the slowest first
	f("<<<<", "routes (nop) price", "")         // by name: the first has an escape before it
	f("/o", "routes (nop)", "/o_")
	f("ut\x7f\x7fu", "routes", "/ou_")
	f("\r", "routes", `1 of 3 nodes with "ou"`)
	f("?", "routes", helpText)
	f("\x1b", "routes (nop) price", "")
	f("\x1b[99~\x00", "routes (nop) price", "")
	if !m.key("q") || !m.key("ctrl-c") {
		t.Error("it goes on")
	}
	m.first = 99
	if lines := m.lines(80, 5); len(lines) != 5 || lines[4] != "2 to 3 of 3 nodes" {
		t.Errorf("got %q", lines)
	}
}

// TestReload keeps the past of a node whose index changes.
func TestReload(t *testing.T) {
	m := filled(t)
	if _, err := m.event(api.Event{Type: "hello", Data: []byte(`{"generation": 8, "nodes": [{"kind": "nop", "namespace": "default"}, {"kind": "snippet", "namespace": "default", "name": "price"}]}`)}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(m.rows[1].past, m.rows[0].past); got != "[0 5] [0 0]" {
		t.Errorf("got %s", got)
	}
	if _, err := m.event(api.Event{Type: "metrics", Data: []byte(`{"rows": [{"node": 2}]}`)}); err == nil {
		t.Error("a row of no node is taken")
	}
}

func TestSpark(t *testing.T) {
	past := make([]float64, minute)
	for i := range past {
		past[i] = float64(i)
	}
	for _, f := range []struct {
		past []float64
		want string
	}{
		{nil, "            "},
		{past, "..::---==++#"},
		{past[:1], "            "},
		{[]float64{0, 0, 9}, "           #"},
		{append([]float64{1}, make([]float64, minute-1)...), "#           "},
	} {
		if got := spark(f.past, 12); got != f.want {
			t.Errorf("%v: got %q, want %q", f.past, got, f.want)
		}
	}
}

// FuzzNext takes keys of any text until there are none.
func FuzzNext(f *testing.F) {
	for _, text := range []string{"\x1b[A", "\x1b[", "\x1b", "\x1b[1;5C", "긴", "\xff", "q\r"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for text != "" {
			key, rest := next(text)
			if len(rest) >= len(text) || len([]rune(key)) > 1 && key[0] < 'a' {
				t.Fatalf("got %q of %q", key, text)
			}
			text = rest
		}
	})
}
