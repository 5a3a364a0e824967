package client

import (
	"fmt"
	"strings"
	"testing"
)

// TestLimit has answers within the limit pass, cut anywhere, and larger ones fail before they are
// there.
func TestLimit(t *testing.T) {
	const most = 1000
	bulk := func(n int) string { return fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("x", n)) }
	for name, c := range map[string]struct {
		answers string
		ok      bool
	}{
		"texts":             {strings.Repeat(bulk(900), 5), true},
		"a large text":      {bulk(10) + "$2000\r\n", false},
		"a long line":       {"+" + strings.Repeat("x", 2000), false},
		"lists":             {strings.Repeat("*2\r\n:1\r\n*1\r\n"+bulk(300), 9), true},
		"a long list":       {"*40\r\n", false},
		"a list that grows": {"*3\r\n" + bulk(500) + bulk(500), false},
		"maps":              {strings.Repeat("%1\r\n+a\r\n~2\r\n_\r\n#t\r\n", 20), true},
		"a large map":       {"%20\r\n", false},
		"nulls":             {strings.Repeat("$-1\r\n*-1\r\n", 400), true},
		"errors":            {strings.Repeat("-ERR 12345678901234 - 1\r\n!5\r\nERR a\r\n", 40), true},
		"pushes":            {strings.Repeat(">3\r\n+message\r\n+c\r\n"+bulk(500), 5), true},
		"attributes":        {strings.Repeat("|1\r\n+a\r\n:1\r\n*1\r\n"+bulk(500), 5), true},
		"numbers":           {strings.Repeat(",1.5\r\n(123456789012345678901234567890\r\n:-7\r\n", 40), true},
		"a number of bytes": {"$99999999999999999999999999\r\n", false},
	} {
		for _, size := range []int{1, 3, 7, 1 << 20} {
			l := limited{most: most}
			ok := true
			for rest := c.answers; rest != "" && ok; {
				n := min(size, len(rest))
				ok = l.follow([]byte(rest[:n]))
				rest = rest[n:]
			}
			if ok != c.ok {
				t.Errorf("%s, %d bytes at a time: got %t", name, size, ok)
			}
			if ok && (l.open != 0 || l.skip != 0 || l.kind != 0) {
				t.Errorf("%s, %d bytes at a time: within an answer at its end: %+v", name, size, l)
			}
		}
	}
}

// FuzzLimit follows what no server sends: it must not overflow, and not depend on where reads end.
func FuzzLimit(f *testing.F) {
	f.Add([]byte("*2\r\n$3\r\nabc\r\n%1\r\n+a\r\n:-1\r\n"), uint8(3))
	f.Add([]byte("|9999999999999\r\n$-5\r\n"), uint8(1))
	f.Fuzz(func(t *testing.T, data []byte, at uint8) {
		whole, parts := limited{most: 1 << 16}, limited{most: 1 << 16}
		i := min(int(at), len(data))
		one := whole.follow(data)
		if two := parts.follow(data[:i]) && parts.follow(data[i:]); one != two || one && whole != parts {
			t.Errorf("got %t, %+v in one part, and %t, %+v in two", one, whole, two, parts)
		}
		if whole.open < 0 || whole.skip < 0 || whole.size < 0 {
			t.Errorf("got %+v", whole)
		}
	})
}
