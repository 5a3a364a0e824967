package main

import (
	"maps"
	"strings"
	"testing"
)

func rows(t *testing.T) []Row {
	t.Helper()
	line := func(id string) Line {
		l, ok := Find(id)
		if !ok {
			t.Fatalf("no line %s", id)
		}
		return l
	}
	p1 := Row{Line: line("P1"), Figures: "req/s", Notes: []string{"a note"}}
	p1.Ratio(90, 100)
	side := Row{Line: line("P1"), Part: "other generator", Side: true}
	side.Ratio(10, 100)
	p2 := Row{Line: line("P2"), Broken: []string{"3 failed"}}
	p2.Ratio(200, 100)
	encode := Row{Line: line("P6"), Part: "encode"}
	encode.Ratio(9, 1)
	decode := Row{Line: line("P6"), Part: "decode"}
	decode.Ratio(5, 1)
	p9 := Row{Line: line("P9"), Beyond: []string{"p99 doubled"}}
	p12 := Row{Line: line("P12"), Missing: "there are none"}
	return []Row{p1, side, p2, encode, decode, p9, p12}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, rows(t)); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	var verdicts []string
	for _, l := range strings.Split(got, "\n")[4:11] {
		fields := strings.Split(l, "  ")
		verdicts = append(verdicts, strings.TrimSpace(fields[len(fields)-1]))
	}
	want := "yes|(compared)|NO|yes, and the goal|yes|yes|not measured"
	if got := strings.Join(verdicts, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, want := range []string{"90.0 req/s", "0.900x", "≥ 0.85x", "P1: a note", "P2: BROKEN: 3 failed", "P9: short of the goal: p99 doubled", "P12: there are none"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

func TestFigures(t *testing.T) {
	got := Figures(rows(t))
	want := map[string]Figure{
		"P1": {90, 100, 0.9, 0.85, 0}, "P2": {200, 100, 2, 0.9, 1}, "P6": {5, 1, 5, 4, 0}, "P9": {0, 0, 0, 0, 0},
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 53123.4: "53123", 99.96: "100.0", 1.234: "1.23", 0.0461: "0.046"} {
		if got := number(f); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
}
