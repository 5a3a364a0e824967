package report

import (
	"encoding/json"
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
	beside := Row{Line: line("P1"), Part: "other generator", Side: true}
	beside.Ratio(10, 100)
	p2 := Row{Line: line("P2"), Broken: []string{"3 failed"}}
	p2.Ratio(200, 100)
	encode := Row{Line: line("P6"), Part: "encode"}
	encode.Ratio(9, 1)
	decode := Row{Line: line("P6"), Part: "decode"}
	decode.Ratio(5, 1)
	p9 := Row{Line: line("P9"), Beyond: []string{"p99 doubled"}}
	p12 := Row{Line: line("P12"), Missing: "there are none"}
	return []Row{p1, beside, p2, encode, decode, p9, p12}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := Table(&b, rows(t)); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	var verdicts []string
	for _, l := range strings.Split(got, "\n")[1:8] {
		fields := strings.Split(l, "  ")
		verdicts = append(verdicts, strings.TrimSpace(fields[len(fields)-1]))
	}
	want := "yes|(beside)|NO|yes, and the goal|yes|yes|not measured"
	if got := strings.Join(verdicts, "|"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, want := range []string{"90.0 req/s", "0.900x", "≥ 0.85x", "P1: a note", "P2: BROKEN: 3 failed", "P9: short of the goal: p99 doubled", "P12: there are none"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it", got, want)
		}
	}
}

func TestJSON(t *testing.T) {
	data, err := JSON(rows(t))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]map[string]float64
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 4 {
		t.Errorf("got %d lines, want P1, P2, P6, P9: %s", len(got), data)
	}
	for _, tt := range []struct {
		id, key string
		want    float64
	}{
		{"P1", "ours", 90}, {"P1", "baseline", 100}, {"P1", "value", 0.9}, {"P1", "contract", 0.85},
		{"P2", "breaks", 1}, {"P6", "value", 5}, {"P9", "value", 0},
	} {
		if got, ok := got[tt.id][tt.key]; !ok && tt.want != 0 || got != tt.want {
			t.Errorf("%s %s: got %v, want %v", tt.id, tt.key, got, tt.want)
		}
	}
}

func TestBound(t *testing.T) {
	for _, tt := range []struct {
		b     Bound
		value float64
		want  bool
	}{
		{AtLeast(1), 1, true}, {AtLeast(1), 0.99, false}, {AtMost(0), 0, true}, {AtMost(0), 1, false},
	} {
		if got := tt.b.Keeps(tt.value); got != tt.want {
			t.Errorf("%+v of %v: got %t, want %t", tt.b, tt.value, got, tt.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 53123.4: "53123", 99.96: "100.0", 1.234: "1.23", 0.0461: "0.046"} {
		if got := number(f); got != want {
			t.Errorf("%v: got %s, want %s", f, got, want)
		}
	}
}
