package mqtt

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.golang/packets"

	"github.com/uniflow-labs/uniflow/node/field"
)

// A session is one connection, from CONNECT to its end. One goroutine reads, and another one
// says that the client is there. Any goroutine may send.
type session struct {
	settings  *settings
	conn      net.Conn
	in        *bufio.Reader
	granted   limits
	forgotten bool                         // its reader takes nothing more from it, and guards this
	handle    func(*packets.ControlPacket) // called for each packet, one after the other; it may block
	flooded   chan struct{}                // closed by flood: more has come than its reader has room for
	flood     func()
	ended     chan struct{} // closed when the connection has ended
	work      sync.WaitGroup

	out struct {
		sync.Mutex
		*bufio.Writer
	}
	mu struct {
		sync.Mutex
		err error // why it has ended
	}
}

// limits are what a broker takes.
type limits struct {
	receive int // messages that are not acknowledged
	packet  int // bytes
	qos     byte
	retain  bool
	present bool // the broker has kept the session
}

// silent is how long a broker may say nothing: it answers what the client sends in half of
// keepAlive.
const silent = keepAlive + keepAlive/2

// connect opens a session. handle gets what comes, at first perhaps before connect returns.
func (s *settings) connect(ctx context.Context, c *packets.Connect, handle func(*session, *packets.ControlPacket)) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, s.explain(err)
	}
	n := &session{settings: s, conn: conn, in: bufio.NewReaderSize(conn, 32<<10), ended: make(chan struct{})}
	n.flooded = make(chan struct{})
	n.flood = sync.OnceFunc(func() { close(n.flooded) })
	n.out.Writer = bufio.NewWriterSize(conn, 32<<10)
	n.handle = func(p *packets.ControlPacket) { handle(n, p) }
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := n.open(c); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, s.explain(err)
	}
	n.work.Go(n.read)
	n.work.Go(n.ping)
	return n, nil
}

// open says CONNECT, and reads what the broker answers.
func (n *session) open(c *packets.Connect) error {
	s := n.settings
	c.ProtocolName, c.ProtocolVersion, c.KeepAlive = "MQTT", 5, uint16(keepAlive/time.Second)
	c.UsernameFlag, c.Username, c.PasswordFlag, c.Password = s.user != "", s.user, s.password != "", []byte(s.password)
	if err := n.conn.SetReadDeadline(time.Now().Add(silent)); err != nil {
		return err
	}
	if err := n.send(packet(packets.CONNECT, c)); err != nil {
		if _, said := n.in.Peek(1); said != nil && field.IsTLSError(said) { // a broker that refuses the certificate says so, and reads no more
			return said
		}
		return err
	}
	p, err := n.next()
	if err != nil {
		return err
	}
	ack, ok := p.Content.(*packets.Connack)
	if !ok {
		return errors.New("what answers is not a broker of MQTT")
	}
	if ack.ReasonCode != packets.ConnackSuccess {
		return s.refusal(ack)
	}
	n.granted = limits{receive: longest, packet: 256 << 20, qos: 2, retain: true, present: ack.SessionPresent}
	if most := ack.Properties.ReceiveMaximum; most != nil {
		n.granted.receive = max(1, int(*most)) // a broker must not say 0
	}
	if most := ack.Properties.MaximumPacketSize; most != nil {
		n.granted.packet = int(*most)
	}
	if most := ack.Properties.MaximumQOS; most != nil {
		n.granted.qos = *most
	}
	if retain := ack.Properties.RetainAvailable; retain != nil {
		n.granted.retain = *retain != 0
	}
	return nil
}

// read reads until the connection has ended.
func (n *session) read() {
	defer close(n.ended)
	for {
		if err := n.conn.SetReadDeadline(time.Now().Add(silent)); err != nil {
			n.end(err)
			return
		}
		p, err := n.next()
		if err != nil {
			n.end(err)
			return
		}
		if d, ok := p.Content.(*packets.Disconnect); ok {
			n.end(errors.New(reasonText(d.ReasonCode, d.Properties)))
			return
		}
		n.handle(p)
	}
}

// next reads a packet.
func (n *session) next() (*packets.ControlPacket, error) {
	if err := checkFrame(n.in); err != nil {
		return nil, err
	}
	return n.settings.wire.read(n.in)
}

// ping sends something at half of keepAlive until the connection has ended.
func (n *session) ping() {
	tick := time.NewTicker(keepAlive / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := n.send(packet(packets.PINGREQ, new(packets.Pingreq))); err != nil {
				n.end(err)
				return
			}
		case <-n.ended:
			return
		}
	}
}

// send writes packets. What has been written by write is sent with them.
func (n *session) send(all ...*packets.ControlPacket) error {
	n.out.Lock()
	defer n.out.Unlock()
	for _, p := range all {
		if err := n.settings.wire.write(n.out.Writer, p); err != nil {
			return n.settings.lostError(err)
		}
	}
	if err := n.out.Flush(); err != nil {
		return n.settings.lostError(err)
	}
	return nil
}

// write writes a packet, which send sends.
func (n *session) write(p *packets.ControlPacket) error {
	n.out.Lock()
	defer n.out.Unlock()
	if err := n.settings.wire.write(n.out.Writer, p); err != nil {
		return n.settings.lostError(err)
	}
	return nil
}

// end notes why the connection has ended, unless it is known, and ends it.
func (n *session) end(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.err == nil {
		n.mu.err = n.settings.lostError(err)
	}
	n.conn.Close()
}

// reason returns why the connection has ended.
func (n *session) reason() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.err == nil {
		return n.settings.lostError(net.ErrClosed)
	}
	return n.mu.err
}

// abort ends the connection without a word. The broker keeps the session.
func (n *session) abort() {
	n.end(net.ErrClosed)
	n.work.Wait()
}

// close ends the connection. It waits until the broker has read all, unless ctx ends before
// that: a connection with something unread would take back what was sent.
func (n *session) close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { n.conn.Close() })
	defer stop()
	if n.send(packet(packets.DISCONNECT, &packets.Disconnect{Properties: new(packets.Properties)})) == nil {
		select {
		case <-n.ended:
		case <-ctx.Done():
		}
	}
	n.abort()
}

// closeTimeout is how long a broker may take to end a connection.
const closeTimeout = 250 * time.Millisecond
