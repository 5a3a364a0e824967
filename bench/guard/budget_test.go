package main

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

const sampleBudgets = `# exceptions
- benchmark: value.JSONRead/ours
  limit: +15%
  allocs: +2
  reason: checks surrogates, which it did not
  date: 2026-03-01
- benchmark: lock.Old
  gone: true
  reason: the lock has been removed
  date: 2026-03-02
`

func TestParseBudgets(t *testing.T) {
	l, err := parseBudgets("budgets.yaml", []byte(sampleBudgets))
	if err != nil {
		t.Fatal(err)
	}
	want := []Budget{
		{Benchmark: "value.JSONRead/ours", Limit: 0.15, Allocs: 2, Reason: "checks surrogates, which it did not", Date: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), Line: 2},
		{Benchmark: "lock.Old", Gone: true, Reason: "the lock has been removed", Date: time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC), Line: 7},
	}
	if !reflect.DeepEqual(l.Budgets, want) {
		t.Errorf("got %+v, want %+v", l.Budgets, want)
	}
	if b, ok := l.Find("lock.Old"); !ok || !b.Gone {
		t.Errorf("got %+v, %t, want the second", b, ok)
	}
	if b, ok := l.Find("lock.New"); ok {
		t.Errorf("got %+v, want none", b)
	}
	for _, empty := range []string{"", "# only a comment\n", "[]\n", "---\n"} {
		if l, err := parseBudgets("b", []byte(empty)); err != nil || len(l.Budgets) > 0 {
			t.Errorf("%q: got %v, %v, want no exceptions", empty, l, err)
		}
	}
}

func TestMistakes(t *testing.T) {
	const rest = "  reason: because\n  date: 2026-03-01\n"
	f := func(text string, want ...string) {
		t.Helper()
		l, err := parseBudgets("b.yaml", []byte(text))
		if err == nil || len(l.Budgets) > 0 {
			t.Errorf("%q: got %v, want an error", text, l)
			return
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q: got %v, want %s", text, err, w)
			}
		}
	}
	f("- benchmark: a\n  limit: +15%\n", "b.yaml:1: benchmark and reason are required")
	f("- limit: +15%\n"+rest, "b.yaml:1: benchmark and reason")
	f("- benchmark: a\n  limit: +5%\n  reason: ' '\n  date: 2026-01-01\n", "b.yaml:1: benchmark and reason")
	f("- benchmark: a\n  limit: +5%\n  reason: r\n  date: soon\n", "b.yaml:1: date")
	f("- benchmark: a\n"+rest, "it allows nothing")
	f("- benchmark: a\n  limits: +15%\n"+rest, "b.yaml:1: ", "limits")
	f("- benchmark: a\n  limit: 15\n"+rest, `b.yaml:1: limit: "15" is not what the time may grow, such as +15%`)
	f("- benchmark: a\n  limit: -15%\n"+rest, "b.yaml:1: limit")
	f("- benchmark: a\n  allocs: many\n"+rest, "b.yaml:1: allocs")
	f("- benchmark: a\n  gone: no\n"+rest, "b.yaml:1: gone")
	f("- benchmark: a\n  limit: +5%\n  limit: +9%\n"+rest, "limit")
	f("- benchmark: a\n  limit: [1]\n"+rest, "b.yaml:1: ")
	f("- benchmark: a\n  limit: +5%\n"+rest+"- benchmark: a\n  limit: 6%\n"+rest, "b.yaml:5: limit", "a has an exception on line 1 already")
	f("benchmark: a\n", "b.yaml: ")
	f("- a\n", "b.yaml:1: ")
	f("- [\n", "b.yaml: ")
	f("[]\n---\n[]\n", "b.yaml: ")
}

func TestCheckBudgets(t *testing.T) {
	l, err := parseBudgets("b.yaml", []byte(sampleBudgets))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Check([]string{"value.JSONRead/ours", "lock.Old"}); err != nil {
		t.Errorf("got %v, want nothing", err)
	}
	err = l.Check([]string{"value.JSONReads/ours"})
	want := `b.yaml:2: there is no benchmark "value.JSONRead/ours": did you mean "value.JSONReads/ours"?` + "\n" + `b.yaml:7: there is no benchmark "lock.Old"`
	if err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
