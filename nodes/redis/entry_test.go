package redis

import (
	"math"
	"testing"
)

func TestEntryID(t *testing.T) {
	for _, c := range []struct{ text, want, before string }{
		{"1712-7", "1712-7", "1712-6"},
		{"1712", "1712-0", "1711-18446744073709551615"},
		{"0-1", "0-1", "0-0"},
		{"0-0", "0-0", "0-0"},
		{"18446744073709551615-18446744073709551615", "18446744073709551615-18446744073709551615", "18446744073709551615-18446744073709551614"},
	} {
		id, err := parseEntryID(c.text)
		if err != nil || id.String() != c.want || id.before().String() != c.before || id != (entryID{}) && !id.before().less(id) {
			t.Errorf("%s: got %s, before it %s, %v, want %s and %s", c.text, id, id.before(), err, c.want, c.before)
		}
	}
	for _, text := range []string{"", "-", "a", "1-", "-1", "1-2-3", "1 2", "18446744073709551616"} {
		if id, err := parseEntryID(text); err == nil {
			t.Errorf("%q: got %s", text, id)
		}
	}
}

// TestListKeys has all keys of a list in the slot of the list.
func TestListKeys(t *testing.T) {
	for list, want := range map[string]string{
		"jobs": "{jobs}:uniflow:leases", "{a}jobs": "{a}jobs:uniflow:leases", "a{b": "{a{b}:uniflow:leases",
	} {
		if got := keysOf(list).leases; got != want {
			t.Errorf("%s: got %s, want %s", list, got, want)
		}
	}
}

// TestPace asks for as many messages as are likely to fit.
func TestPace(t *testing.T) {
	var p pace
	asked := make([]int, 0, 8)
	for range 4 { // small messages: more each time, up to the room
		n := p.count(100, math.MaxInt64)
		asked = append(asked, n)
		p.learn(n, n, int64(n)*10)
	}
	if asked[0] != 16 || asked[1] != 32 || asked[2] != 64 || asked[3] != 100 {
		t.Errorf("got %d", asked)
	}
	if n := p.count(100, 55); n != 5 {
		t.Errorf("with room for five: got %d", n)
	}
	p.learn(100, 100, 100<<20) // they have become large
	if n := p.count(100, 64<<20); n != 16 {
		t.Errorf("after large messages: got %d", n)
	}
	if n := p.count(100, 1); n != 1 {
		t.Errorf("without room: got %d", n)
	}
}
