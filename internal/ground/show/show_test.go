package show

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestFigures(t *testing.T) {
	f := func(got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	f(Thousands(0), "0")
	f(Thousands(-1234567), "-1,234,567")
	f(Thousands(-123), "-123")
	f(Thousands(-1<<63), "-9,223,372,036,854,775,808")
	f(Count(1, "node"), "1 node")
	f(Count(1234, "node"), "1,234 nodes")
	f(Short(1234.5), "1234")
	f(Short(12.345), "12.3")
	f(Short(0.5), "0.50")
	f(Decimals(0), "0.00")
	f(Decimals(-1234.567), "-1,234.57")
	f(Decimals(0.001234), "0.001234")
	f(Decimals(1e18), "1e+18")
	f(Bytes(1023), "1023 B")
	f(Bytes(1536), "1.5 KiB")
	f(Bytes(3<<40), "3.0 TiB")
	f(Bytes(1<<62), "4194304.0 TiB")
	f(Percent(0.1234), "12.3 %")
	f(WholePercent(0.004), "<1 %")
	f(WholePercent(0.129), "13 %")
	f(Bar(0, 10), "")
	f(Bar(1, 0), "")
	f(Bar(1e-9, 1), "▏")
	f(Bar(11, 10), strings.Repeat("█", barWidth))
	f(Duration(0), "0 s")
	f(Duration(40*time.Microsecond), "40 µs")
	f(Duration(2500*time.Microsecond), "2.5 ms")
	f(Duration(840*time.Millisecond), "840 ms")
	f(Duration(1840*time.Millisecond), "1.84 s")
	f(Duration(12340*time.Millisecond), "12.3 s")
	f(Duration(20*time.Minute), "1200 s")
	f(PrintableLines("a\x1b[31m\nb\xff\u202ec"), "a\\x1b[31m\nb\\xff\\u202ec")
}

// TestSize reads what it writes.
func TestSize(t *testing.T) {
	f := func(n float64, want string) {
		t.Helper()
		if got := Size(n); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, ok := ParseSize(want); got != n || !ok {
			t.Errorf("%q: got %v, %v, want %v", want, got, ok, n)
		}
	}
	f(0, "0")
	f(1000, "1000")
	f(64<<10, "64KiB")
	f(3<<40, "3TiB")
	f(1<<50, "1024TiB")
	for text, want := range map[string]float64{"1.5 kB": 1500, "2MB": 2e6, "7B": 7, "-1KiB": -1024} {
		if got, ok := ParseSize(text); got != want || !ok {
			t.Errorf("%q: got %v, %v, want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "B", "1XB", "0x10", "1_0", "NaN", "1 2KiB"} {
		if got, ok := ParseSize(text); ok {
			t.Errorf("%q: got %v, want none", text, got)
		}
	}
}

func TestTable(t *testing.T) {
	var table Table
	table.Text("NAME", "")
	table.Figures("N", "SHARE")
	table.Row("é\x1b[1m", "x", "1,234")
	table.Row("b", "", "5", "1 %")
	const want = "NAME             N  SHARE\né\\x1b[1m  x  1,234\nb                5    1 %\n"
	if got := table.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, rows, _ := strings.Cut(want, "\n"); table.Columns() != 4 || table.Body() != strings.ReplaceAll(rows, "    1 %", "  1 %") {
		t.Errorf("got %d columns and\n%s", table.Columns(), table.Body())
	}
}

func TestProgress(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, false)
	now := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return now }
	step := func(by time.Duration, s Step) {
		now = now.Add(by)
		p.Update(s)
	}
	step(0, Step{What: "a.csv", Total: 100})
	step(4*time.Second, Step{What: "a.csv", Done: 40, Total: 100, Events: 4000})
	step(time.Second, Step{What: "a.csv", Done: 50, Total: 100, Events: 5000})
	step(time.Second, Step{What: "a.csv", Done: 60, Total: 100, Events: 6000})
	step(time.Second, Step{What: "b.csv", Done: 1, Total: -1, Events: 1})
	step(10*time.Second, Step{What: "b.csv", Done: 10, Total: -1, Events: 20})
	step(10*time.Second, Step{What: "segment 1", Done: 1 << 20, Total: 2 << 20, Bytes: true})
	step(8*time.Second, Step{What: "segment 1", Done: 1 << 20, Total: 2 << 20, Bytes: true})
	p.Line("nothing where there is no terminal")
	p.End()
	const want = `a.csv: 5,000 events, 1,000/s, 50 %, 5s left
b.csv: 20 events, 2/s
segment 1: 1.0 MiB, 128.0 KiB/s, 50 %, 8s left
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestProgressOnTerminal draws a line, and erases it.
func TestProgressOnTerminal(t *testing.T) {
	var out bytes.Buffer
	p := NewProgress(&out, true)
	now := time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)
	p.now = func() time.Time { return now }
	name := strings.Repeat("long/", 9) + "a\x1b.csv"
	p.Update(Step{What: name, Total: 100})
	now = now.Add(time.Second)
	p.Update(Step{What: name, Done: 50, Total: 100, Events: 5000})
	p.Line("\x1b[31mred")
	p.End()
	p.End()
	const want = "\r\x1b[K…long/long/a\\x1b.csv: 5,000 events, 5,000/s │█████     │ 50 %, 1s left" +
		"\r\x1b[K\\x1b[31mred\r\x1b[K"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
