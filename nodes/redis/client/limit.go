package client

import (
	"net"
	"net/http"

	"github.com/uniflow-labs/uniflow/node"
)

// errTooLarge is the error of an answer above [Settings.MaxAnswer].
type errTooLarge struct{ most int64 }

func (e errTooLarge) Error() string { return "an answer is larger than max_answer" }

// failure is the error as workflows see it. It is not an outage: it would come again.
func (e errTooLarge) failure() error {
	return &node.Error{Err: e, Status: http.StatusBadGateway, Code: "answer_too_large"}
}

// A limited connection fails once an answer is larger than it may be, before the library makes
// room for it. It reads the heads of RESP alone: a byte for the type, and a number.
type limited struct {
	net.Conn
	most int64

	size  int64 // of the answer so far, with what its heads announce
	open  int64 // elements of the answer that have not come
	skip  int64 // bytes of a text that have not come
	kind  byte  // of the head that is being read; 0 between two
	n     int64 // its number so far
	minus bool
}

// Read fails once an answer is too large.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if !l.follow(p[:n]) {
		return 0, errTooLarge{l.most}
	}
	return n, err
}

// follow reports whether the answers are small enough so far.
func (l *limited) follow(p []byte) bool {
	for len(p) > 0 {
		if l.skip > 0 {
			n := min(l.skip, int64(len(p)))
			l.skip -= n
			p = p[n:]
			continue
		}
		b := p[0]
		p = p[1:]
		switch {
		case l.kind == 0:
			l.kind, l.n, l.minus = b, 0, false
			if l.open == 0 { // a new answer
				l.open, l.size = 1, 0
			}
		case b == '\n':
			l.head()
		case b == '-':
			l.minus = true
		case b >= '0' && b <= '9' && l.n < 1<<40:
			l.n = 10*l.n + int64(b-'0')
		}
		if l.size++; l.size > l.most {
			return false
		}
	}
	return true
}

// elementBytes is what an element of a list takes in memory, at least.
const elementBytes = 32

// head takes account of a head that has been read.
func (l *limited) head() {
	l.open--
	n := l.n
	if l.minus {
		n = 0 // null
	}
	switch l.kind {
	case '$', '=', '!':
		if !l.minus {
			l.skip = n + 2
			l.size += n
		}
	case '*', '~', '>':
		l.open += n
		l.size += n * elementBytes
	case '%':
		l.open += 2 * n
		l.size += 2 * n * elementBytes
	case '|': // attributes come before an element
		l.open += 2*n + 1
		l.size += 2 * n * elementBytes
	}
	l.kind = 0
}
