// Package pace limits how long clients may take to send their requests and to take their
// answers, and what those that take their time may cost.
//
// Read pending.go first: it knows what clients have not taken yet. A [Conn] is a connection of
// TCP, and limits what is written to it, also for HTTP/1 and for files that the kernel sends.
// Over HTTP/2 and HTTP/3 an answer may wait for the window of its stream, so a [Writer] limits
// each by itself. The package must not know what is sent, nor by whom.
package pace

import "time"

const (
	// PieceBytes is how much of an answer has a deadline of its own.
	PieceBytes = 64 << 10

	// TailBytes is how much of an answer over HTTP/2, at most, net/http sends after the handler
	// has returned: less than its buffer of 4 KiB, so that the frame with it ends the stream. A
	// proxy may hold back data that does not: HAProxy did so for 200 ms.
	TailBytes = 2 << 10
)

// A Rate is how slow a client may be. It is immutable.
type Rate struct {
	Grace   time.Duration // until Min applies, to a body and to each piece of an answer; 0 means that nothing is limited
	Min     int64         // bytes per second that a client must send, or take
	Silence time.Duration // how long a client that sends may be silent, if that is longer than Grace
	Late    time.Duration // how long an answer over HTTP/2 may take before it counts as pending: a write cannot be tried there
}

// transfer returns how long that many bytes may take.
func (r *Rate) transfer(bytes int64) time.Duration {
	return time.Duration(float64(bytes) / float64(r.Min) * float64(time.Second))
}

// Extend returns until when a client must send more of a body, of which it has sent some bytes
// now. Each byte extends the time, but to no more than a window from now. So a client cannot
// hold a request open by sending a byte now and then, nor by sending much at first.
func (r *Rate) Extend(until, now time.Time, bytes int) time.Time {
	until = until.Add(r.transfer(int64(bytes)))
	if last := now.Add(max(r.Grace, r.Silence)); until.After(last) {
		return last
	}
	return until
}
