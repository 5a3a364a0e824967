// Package faultproxy passes TCP connections on to a server, and breaks them, for tests of
// programs that must survive that.
//
// A [Proxy] breaks a connection at a given byte as its [Plan] says; and, with
// [Proxy.Disturb], all connections that there are, until [Proxy.Heal].
package faultproxy

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy passes bytes of TCP connections on, until its Plan says otherwise. It
// ends with the test.
type Proxy struct {
	// Addr is the host and port it listens on.
	Addr string

	listen  net.Listener
	work    sync.WaitGroup
	quit    chan struct{}
	closing sync.Once
	mu      struct {
		sync.Mutex
		target  string
		plan    func(n int) Plan
		conns   map[net.Conn]struct{}
		seen    int
		open    int
		trouble Trouble
		changed chan struct{} // closed when trouble changes
	}
}

// Trouble is what happens to all connections. The zero value is none.
type Trouble struct {
	// Hole passes nothing on, in any direction, and says so to neither side. What was
	// sent meanwhile arrives after it, as it does when packets were lost.
	Hole bool
	// Rate is how many bytes pass in a second, in each direction of each connection; 0
	// means no limit.
	Rate int
	// Refuse resets new connections. Those that there are stay.
	Refuse bool
}

// A Plan is what happens to one connection.
type Plan struct {
	Up   Leg // from the client
	Down Leg // to the client
}

// A Leg is what happens to one direction of a connection. The zero value passes
// everything on.
type Leg struct {
	// Do is what happens after After bytes.
	Do    Break
	After int64
	// Delay holds back each piece of data.
	Delay time.Duration
	// Rate is how many bytes pass in a second; 0 means no limit.
	Rate int
}

// A Break is how a connection ends.
type Break uint8

const (
	// Pass leaves the connection as it is.
	Pass Break = iota
	// Sever resets both sides with a RST.
	Sever
	// Half closes the connection to the receiving side for writing: nothing more passes
	// in this direction.
	Half
	// Hole passes nothing more in this direction, and the other side does not see it.
	Hole
)

// Severs returns a plan that resets connections at random bytes: of one in the direction to the
// client, after at most so many, and of the next in that from it, after a tenth of them. A client
// that sends nothing loses that one, too.
func Severs(rnd *rand.Rand, most int64) func(n int) Plan {
	var mu sync.Mutex
	return func(n int) Plan {
		mu.Lock()
		defer mu.Unlock()
		leg := Leg{Do: Sever, After: rnd.Int64N(most) + 1}
		if n%2 == 1 {
			return Plan{Down: leg}
		}
		leg.After = max(leg.After/10, 1)
		return Plan{Up: leg, Down: Leg{Do: Sever, After: 5 * most}}
	}
}

// New starts a proxy to the server at the address target. plan is asked for
// each connection, which are counted from 1; nil passes everything on.
func New(t testing.TB, target string, plan func(n int) Plan) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	p := &Proxy{Addr: l.Addr().String(), listen: l, quit: make(chan struct{})}
	p.mu.target = target
	p.mu.changed = make(chan struct{})
	p.mu.conns = make(map[net.Conn]struct{})
	p.Set(plan)
	p.work.Go(p.accept)
	t.Cleanup(p.Close)
	return p
}

// Set changes the plan for connections that come from now on.
func (p *Proxy) Set(plan func(n int) Plan) {
	if plan == nil {
		plan = func(int) Plan { return Plan{} }
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.plan = plan
}

// Retarget makes connections that come from now on go to another address.
func (p *Proxy) Retarget(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.target = target
}

// Disturb makes trouble for all connections, open and new ones. It replaces the trouble
// before.
func (p *Proxy) Disturb(t Trouble) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.trouble = t
	close(p.mu.changed)
	p.mu.changed = make(chan struct{})
}

// Heal ends what Disturb began.
func (p *Proxy) Heal() { p.Disturb(Trouble{}) }

// Seen returns how many connections have come since the proxy was made.
func (p *Proxy) Seen() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.seen
}

// Open returns how many connections there are.
func (p *Proxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.open
}

// Break resets all connections. New ones are accepted.
func (p *Proxy) Break() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.mu.conns {
		Reset(c)
	}
}

// Close resets all connections and returns when all goroutines have ended.
func (p *Proxy) Close() {
	p.closing.Do(func() {
		close(p.quit)
		_ = p.listen.Close() // nothing was written to it
		p.Break()
	})
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listen.Accept()
		if err != nil {
			return // closed
		}
		plan, ok := p.meet(c)
		if !ok {
			Reset(c)
			continue // Accept fails if the proxy has ended
		}
		p.work.Go(func() { p.join(c.(*net.TCPConn), plan) })
	}
}

func (p *Proxy) meet(c net.Conn) (Plan, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.trouble.Refuse {
		return Plan{}, false
	}
	p.mu.seen++
	return p.mu.plan(p.mu.seen), p.keepLocked(c)
}

// keepLocked adds the connection to the open ones, which Break and Close end, unless
// the proxy has ended.
func (p *Proxy) keepLocked(c net.Conn) bool {
	select {
	case <-p.quit:
		return false
	default:
		p.mu.conns[c] = struct{}{}
		return true
	}
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.mu.conns, c)
}

// join connects a client with the target until both directions have ended.
func (p *Proxy) join(client *net.TCPConn, plan Plan) {
	defer p.forget(client)
	defer client.Close()
	p.mu.Lock()
	target := p.mu.target
	p.mu.Unlock()
	conn, err := net.Dial("tcp", target)
	if err != nil {
		Reset(client) // as if the target were here
		return
	}
	server := conn.(*net.TCPConn)
	defer server.Close()
	p.mu.Lock()
	ok := p.keepLocked(server)
	p.mu.open++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.mu.open--
	}()
	if !ok {
		return
	}
	defer p.forget(server)
	sever := func() {
		Reset(client)
		Reset(server)
	}
	var legs sync.WaitGroup
	legs.Go(func() { p.pass(server, client, plan.Up, sever) })
	legs.Go(func() { p.pass(client, server, plan.Down, sever) })
	legs.Wait()
}

func (p *Proxy) pass(to, from *net.TCPConn, leg Leg, sever func()) {
	buf := make([]byte, 32<<10)
	left := leg.After
	for {
		if leg.Do != Pass && left == 0 {
			switch leg.Do {
			case Sever:
				sever()
				return
			case Half:
				_ = to.CloseWrite() // the other side may be gone
			case Hole:
			}
			// The rest is read and dropped, so that the sender does not block.
			_, _ = io.Copy(io.Discard, from)
			return
		}
		room := buf
		if leg.Do != Pass {
			room = room[:min(int64(len(room)), left)]
		}
		if leg.Rate > 0 {
			room = room[:min(len(room), max(1, leg.Rate/20))]
		}
		n, err := from.Read(room)
		left -= int64(n)
		wait := leg.Delay
		if leg.Rate > 0 {
			wait += time.Duration(n) * time.Second / time.Duration(leg.Rate)
		}
		if !waited(wait, p.quit) {
			return
		}
		for rest := room[:n]; len(rest) > 0; {
			k := p.allowed(len(rest))
			if k == 0 {
				return
			}
			if _, err := to.Write(rest[:k]); err != nil {
				sever()
				return
			}
			rest = rest[k:]
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				_ = to.CloseWrite() // the other side may be gone
				return
			}
			sever()
			return
		}
	}
}

// allowed waits until trouble lets bytes pass, and returns how many of them may; 0 if the
// proxy has ended.
func (p *Proxy) allowed(n int) int {
	for {
		p.mu.Lock()
		trouble, changed := p.mu.trouble, p.mu.changed
		p.mu.Unlock()
		var turn <-chan time.Time
		k := n
		switch {
		case trouble.Hole:
		case trouble.Rate > 0:
			k = min(n, max(1, trouble.Rate/20))
			timer := time.NewTimer(time.Duration(k) * time.Second / time.Duration(trouble.Rate))
			defer timer.Stop()
			turn = timer.C
		default:
			return n
		}
		select {
		case <-turn:
			return k
		case <-changed:
		case <-p.quit:
			return 0
		}
	}
}

// waited waits, and reports whether quit is still open.
func waited(d time.Duration, quit <-chan struct{}) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-quit:
		return false
	}
}

// Reset closes a connection so that the other side sees a RST.
func Reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // fails only on a connection that is gone
	}
	_ = c.Close() // the same
}
