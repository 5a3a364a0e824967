// Package reference has a small message server and its connectors: the example for
// authors of connectors, and what the conformance kit is tested with.
//
// [Server] keeps messages in lanes, in memory, and speaks a protocol of frames over TCP.
// [Queue] is a source that acknowledges each message, and gets those that it gives back
// again. [Log] is one that commits a position for each lane. [Sink] puts messages.
//
// Read queue.go, log.go and sink.go; client.go is the client library that another system
// would come with.
package reference

import (
	"bufio"
	"encoding/gob"
	"hash/fnv"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// Lanes is how many lanes a server has.
const Lanes = 4

// Password is what the server expects of its clients.
const Password = "correct horse"

// Forbidden is a key that the server refuses to take.
const Forbidden = "forbidden"

// Operations of the protocol, with the fields that they use.
const (
	opHello  = iota + 1 // Text (password), Mode; answered with opHello, or opRefuse and Text
	opRefuse            // Text
	opCredit            // Number more messages, of Size more bytes, may come
	opPut               // Number (of the client), Key, Body; answered with it, Lane and Offset, or Text
	opSend              // Number (of the delivery), Lane, Offset, Key, Body, Attempt
	opAck               // Number
	opBack              // Number, Delay
	opCommit            // Lane, Offset: all up to it, itself included, are settled
)

// Modes of a connection.
const (
	modeQueue = iota + 1
	modeLog
	modePut
)

// A frame is what is sent in either direction.
type frame struct {
	Op, Mode, Attempt int
	Lane              int32
	Number, Offset    int64
	Size              int64
	Delay             time.Duration
	Key, Text         string
	Body              []byte
}

// An entry is a message that the server keeps.
type entry struct {
	frame
	holder *session // a queue that it was sent to, and that has not settled it
}

// A Server keeps messages. It ends with the test. Any goroutine may call its methods.
type Server struct {
	Addr string // host and port; stays after a Restart

	work sync.WaitGroup
	mu   struct {
		sync.Mutex
		listen     net.Listener
		sessions   map[*session]struct{}
		lanes      [Lanes][]*entry
		committed  [Lanes]int64     // the first offset that is not
		ready      []*entry         // for queues, in order
		out        map[int64]*entry // by the number of the delivery
		deliveries int64
		settled    int // by queues
		timers     map[*time.Timer]struct{}
		closed     bool
	}
}

// NewServer starts a server on a free port of this machine, which it keeps when it restarts.
func NewServer(t testing.TB) *Server {
	t.Helper()
	s := &Server{Addr: freeport.Addr(t)}
	s.mu.sessions = make(map[*session]struct{})
	s.mu.out = make(map[int64]*entry)
	s.mu.timers = make(map[*time.Timer]struct{})
	s.start(t)
	t.Cleanup(func() { s.stop(true) })
	return s
}

func (s *Server) start(t testing.TB) {
	t.Helper()
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Addr = l.Addr().String()
	s.mu.listen = l
	s.work.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			s.work.Go(func() { s.serve(c) })
		}
	})
}

// stop resets all connections and waits for them.
func (s *Server) stop(last bool) {
	s.mu.Lock()
	s.mu.closed = last
	_ = s.mu.listen.Close() // nothing was written to it
	for x := range s.mu.sessions {
		faultproxy.Reset(x.conn)
	}
	for timer := range s.mu.timers {
		timer.Reset(0)
	}
	s.mu.Unlock()
	s.work.Wait()
}

// Restart ends the server as a crash does, and starts it again at the same address. It
// keeps its messages, and what was settled.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.stop(false)
	s.start(t)
}

// Put adds a message. Messages of one key are in one lane.
func (s *Server) Put(key string, body []byte) (lane int32, offset int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	lane = int32(h.Sum32() % Lanes)
	offset = int64(len(s.mu.lanes[lane]))
	e := &entry{frame: frame{Op: opSend, Lane: lane, Offset: offset, Key: key, Body: body}}
	s.mu.lanes[lane] = append(s.mu.lanes[lane], e)
	s.mu.ready = append(s.mu.ready, e)
	s.sendLocked()
	return lane, offset
}

// Messages calls f for each message, lane by lane, in order.
func (s *Server) Messages(f func(key string, body []byte)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, lane := range s.mu.lanes {
		for _, e := range lane {
			f(e.Key, e.Body)
		}
	}
}

// Unsettled returns how many messages no queue has acknowledged, and how many are above
// the committed positions.
func (s *Server) Unsettled() (queue, log int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, lane := range s.mu.lanes {
		log += len(lane) - int(s.mu.committed[i])
		queue += len(lane)
	}
	return queue - s.mu.settled, log
}

// Ahead returns how many messages have been sent and are not settled.
func (s *Server) Ahead() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.mu.out)
	for x := range s.mu.sessions {
		if x.mode == modeLog {
			for i, next := range x.next {
				n += int(next - s.mu.committed[i])
			}
		}
	}
	return n
}

// A session is one connection. All but conn is guarded by the server's mu.
type session struct {
	conn   net.Conn
	mode   int
	credit int64 // messages that may be sent
	bytes  int64 // likewise; one message may be larger
	next   [Lanes]int64
	outbox []frame // at most what the client allows, and an answer for each of its puts
	wake   chan struct{}
	ended  bool
}

func (s *Server) serve(c net.Conn) {
	x := &session{conn: c, wake: make(chan struct{}, 1)}
	s.mu.Lock()
	s.mu.sessions[x] = struct{}{}
	s.mu.Unlock()
	var writer sync.WaitGroup
	writer.Go(func() { s.write(x) })
	in := gob.NewDecoder(bufio.NewReader(c))
	for {
		var f frame
		if in.Decode(&f) != nil || !s.handle(x, f) {
			break
		}
	}
	s.leave(x)
	writer.Wait()
	_ = c.Close() // what the client has not read is sent again
}

// leave gives back what the session holds.
func (s *Server) leave(x *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x.ended = true
	x.poke()
	delete(s.mu.sessions, x)
	var back []*entry
	for number, e := range s.mu.out {
		if e.holder == x {
			delete(s.mu.out, number)
			e.holder = nil
			back = append(back, e)
		}
	}
	slices.SortFunc(back, func(a, b *entry) int { return int(a.Number - b.Number) })
	s.mu.ready = append(back, s.mu.ready...)
	s.sendLocked()
}

func (x *session) poke() {
	select {
	case x.wake <- struct{}{}:
	default: // it is awake
	}
}

// handle does what a client asks for, and reports whether the connection goes on.
func (s *Server) handle(x *session, f frame) bool {
	if f.Op == opPut && x.mode == modePut {
		if f.Key == Forbidden {
			f.Text = "the key is forbidden"
		} else {
			f.Lane, f.Offset = s.Put(f.Key, f.Body)
		}
		f.Body = nil
		s.mu.Lock()
		defer s.mu.Unlock()
		x.post(f)
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Op {
	case opHello:
		if f.Text != Password {
			x.post(frame{Op: opRefuse, Text: "wrong password"})
			return true // the client closes
		}
		x.mode = f.Mode
		if f.Mode == modeLog {
			x.next = s.mu.committed
			for other := range s.mu.sessions {
				if other != x && other.mode == modeLog {
					faultproxy.Reset(other.conn) // one reader at a time
				}
			}
		}
		x.post(frame{Op: opHello})
	case opCredit:
		x.credit += f.Number
		x.bytes += f.Size
	case opAck:
		if e := s.mu.out[f.Number]; e != nil {
			delete(s.mu.out, f.Number)
			e.holder = nil
			s.mu.settled++
		}
	case opBack:
		if e := s.mu.out[f.Number]; e != nil {
			delete(s.mu.out, f.Number)
			e.holder = nil
			s.laterLocked(e, f.Delay)
		}
	case opCommit:
		if x.mode == modeLog && int(f.Lane) < Lanes {
			s.mu.committed[f.Lane] = max(s.mu.committed[f.Lane], f.Offset+1)
		}
	default:
		return false
	}
	s.sendLocked()
	return true
}

// laterLocked makes a message ready after a time.
func (s *Server) laterLocked(e *entry, d time.Duration) {
	if d <= 0 {
		s.mu.ready = append(s.mu.ready, e)
		return
	}
	var timer *time.Timer
	s.work.Add(1)
	timer = time.AfterFunc(d, func() {
		defer s.work.Done()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.timers, timer)
		s.mu.ready = append(s.mu.ready, e)
		s.sendLocked()
	})
	s.mu.timers[timer] = struct{}{}
}

// sendLocked sends what clients have asked for.
func (s *Server) sendLocked() {
	for x := range s.mu.sessions {
		for x.mode == modeQueue && x.open() && len(s.mu.ready) > 0 {
			e := s.mu.ready[0]
			s.mu.ready = s.mu.ready[1:]
			s.mu.deliveries++
			e.Number, e.holder = s.mu.deliveries, x
			s.mu.out[e.Number] = e
			x.deliver(e.frame)
			e.Attempt++
		}
		for sent := true; sent && x.mode == modeLog; {
			sent = false
			for lane := range x.next {
				if next := x.next[lane]; x.open() && next < int64(len(s.mu.lanes[lane])) {
					x.deliver(s.mu.lanes[lane][next].frame)
					x.next[lane]++
					sent = true
				}
			}
		}
	}
}

func (x *session) open() bool { return x.credit > 0 && x.bytes > 0 && !x.ended }

func (x *session) deliver(f frame) {
	x.credit--
	x.bytes -= int64(len(f.Body))
	x.post(f)
}

func (x *session) post(f frame) {
	x.outbox = append(x.outbox, f)
	x.poke()
}

// write sends the outbox until the session has ended.
func (s *Server) write(x *session) {
	to := bufio.NewWriter(x.conn)
	out := gob.NewEncoder(to)
	for range x.wake {
		s.mu.Lock()
		frames, ended := x.outbox, x.ended
		x.outbox = nil
		s.mu.Unlock()
		if ended {
			return
		}
		for _, f := range frames {
			if out.Encode(f) != nil {
				faultproxy.Reset(x.conn) // ends the reading side, which calls leave
				break
			}
		}
		if to.Flush() != nil {
			faultproxy.Reset(x.conn)
		}
	}
}
