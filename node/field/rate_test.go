package field_test

import (
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/field"
)

func TestParseRate(t *testing.T) {
	f := func(text string, n float64, per time.Duration) {
		t.Helper()
		if gotN, gotPer, ok := field.ParseRate(text); !ok || gotN != n || gotPer != per {
			t.Errorf("%q: got %v in %v, %v, want %v in %v", text, gotN, gotPer, ok, n, per)
		}
	}
	f("5", 5, time.Second)
	f("0.5", 0.5, time.Second)
	f("1e3", 1000, time.Second)
	f("100/m", 100, time.Minute)
	f("100/1m", 100, time.Minute)
	f(" 5 / 10s ", 5, 10*time.Second)
	f("1/1.5h", 1, 90*time.Minute)
	f("10/d", 10, 24*time.Hour)
	f("10/250ms", 10, 250*time.Millisecond)
	for _, text := range []string{
		"", "/", "5/", "/s", "5/0s", "0", "0/s", "-1", "5/-1s", "5/s/s", "5/sm", "5/ss", "5/sm1", "5/1e3s", "NaN", "inf", "Infinity", "0x10", "1_000", "1e400", "1e10", "1/100000000000d", "5/m s", "5/mm", "5/10",
	} {
		if n, per, ok := field.ParseRate(text); ok {
			t.Errorf("%q: got %v in %v, want no rate", text, n, per)
		}
	}
}
