package accept

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func TestType(t *testing.T) {
	f := func(line, name string, want int) {
		t.Helper()
		if got := Type(strings.Split(line, "|"), name); got != want {
			t.Errorf("%q, %s: got %d, want %d", line, name, got, want)
		}
	}
	f("text/html", "text/html", 1000)
	f("text/html", "text/plain", 0)
	f("Text/HTML; charset=utf-8 ; Q=0.5", "text/html", 500)
	f("text/*;q=0.3, */*;q=0.1", "text/html", 300)
	f("*/*;q=0.1, text/*;q=0.3, text/html;q=0", "text/html", 0)
	f("*/*;q=0.1", "text/html", 100)
	f("*", "text/html", 1000)
	f("texts/*, tex/*, /*", "text/html", 0)
	f("image/png|text/html;q=0.2", "text/html", 200)
	f("text/html;q=0.2, text/html;q=0.9", "text/html", 200)
	f("text/html;q=0.9996", "text/html", 1000)
	f("text/html;q=1.", "text/html", 1000)
	f("text/html;q=.5", "text/html", 500)
	for _, wrong := range []string{"", "x", "2", "1.001", "-0.5", "+1", "1e-1", "0x1p-1", "NaN", "inf", ".", "0.5.5", "0_1", `"1"`} {
		f("text/html;q="+wrong, "text/html", 0)
	}
	f("text/html;q", "text/html", 0)
	f("text/html;qs=0.5;x", "text/html", 1000)
	f("", "text/html", 0)
	f(";;;,,/", "text/html", 0)
}

func TestCoding(t *testing.T) {
	f := func(line, name string, want int) {
		t.Helper()
		if got := Coding([]string{line}, name); got != want {
			t.Errorf("%q, %s: got %d, want %d", line, name, got, want)
		}
	}
	f("gzip, br;q=0.5", "br", 500)
	f("GZIP", "gzip", 1000)
	f("x-gzip;q=0.7", "gzip", 700)
	f("x-br", "br", 0)
	f("br;q=0, *;q=0.1", "br", 0)
	f("br;q=0, *;q=0.1", "zstd", 100)
	f("*;q=0", "zstd", 0)
	f("*/*", "zstd", 0)
}

func TestNamed(t *testing.T) {
	f := func(line string, want int, wantOK bool) {
		t.Helper()
		if got, ok := Named([]string{line}, "identity"); got != want || ok != wantOK {
			t.Errorf("%q: got %d %t, want %d %t", line, got, ok, want, wantOK)
		}
	}
	f("identity;q=0", 0, true)
	f("gzip, Identity ", 1000, true)
	f("*", 0, false)
	f("", 0, false)
}

func TestAllocs(t *testing.T) {
	lines := []string{"gzip, deflate;q=0.9, br;q=0.1, */*;q=0.3", "text/html;q=x"}
	if got := testing.AllocsPerRun(100, func() {
		Type(lines, "text/html")
		Coding(lines, "gzip")
		Named(lines, "identity")
	}); got > 0 {
		t.Errorf("got %v allocations, want none", got)
	}
}

var number = regexp.MustCompile(`^([0-9]+(\.[0-9]*)?|\.[0-9]+)$`)

// FuzzWeights reads each entry of a line again, one by one and with a pattern.
func FuzzWeights(f *testing.F) {
	for _, line := range []string{"", "gzip", "gzip;q=0.5, *;q=0", "a;b=c;q=1;q=0", "q=0;q=0", ",;=", "gzip ; q = 0.25", "gzip;q=00.5", "gzip;q=99999999999999999999", "*;q=x, gzip"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		want, found := 0, false
		for item := range strings.SplitSeq(line, ",") {
			parts := strings.Split(item, ";")
			if found || !strings.EqualFold(strings.TrimSpace(parts[0]), "gzip") {
				continue
			}
			want, found = 1000, true
			for _, param := range parts[1:] {
				name, text, _ := strings.Cut(param, "=")
				if text = strings.TrimSpace(text); strings.EqualFold(strings.TrimSpace(name), "q") {
					want = 0
					if f, err := strconv.ParseFloat(text, 64); number.MatchString(text) && err == nil && f <= 1 {
						want = int(f*1000 + 0.5)
					}
					break
				}
			}
		}
		if got, ok := Named([]string{line}, "gzip"); got != want || ok != found {
			t.Errorf("%q: got %d %t, want %d %t", line, got, ok, want, found)
		}
		for _, got := range []int{Coding([]string{line}, "gzip"), Type([]string{line}, "gzip")} {
			if got < 0 || got > 1000 || found && !strings.Contains(line, "x-") && !strings.Contains(line, "X-") && got != want {
				t.Errorf("%q: got %d, want %d", line, got, want)
			}
		}
	})
}
