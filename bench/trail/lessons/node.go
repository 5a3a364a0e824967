package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A message is what goes over a stream, as it is.
type message []byte

// rawCodec leaves messages as they are.
type rawCodec struct{}

// Name is what the content type of calls says.
func (rawCodec) Name() string { return "raw" }

// Marshal returns the bytes of a *message.
func (rawCodec) Marshal(v any) ([]byte, error) {
	m, ok := v.(*message)
	if !ok {
		return nil, fmt.Errorf("a %T is no message", v)
	}
	return *m, nil
}

// Unmarshal makes a *message of bytes, which belong to the caller.
func (rawCodec) Unmarshal(data []byte, v any) error {
	m, ok := v.(*message)
	if !ok {
		return fmt.Errorf("a %T is no message", v)
	}
	*m = append((*m)[:0], data...)
	return nil
}

// method is the one call of a node: a request, then one reply.
const (
	service = "lessons.Node"
	method  = "/lessons.Node/Ask"
)

// A node is a data node: shards, which are stores of their own, and a server that
// answers from some or all of them on one stream.
type node struct {
	shards  []*trail.Store
	queries []*query.Query
	server  *grpc.Server
	addr    string
	served  sync.WaitGroup
}

// start has the node listen; close must follow.
func (n *node) start() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	n.addr = l.Addr().String()
	n.server = grpc.NewServer(grpc.ForceServerCodec(rawCodec{}))
	n.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: service,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: "Ask", ServerStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return n.answer(s) },
		}},
	}, n)
	n.served.Go(func() {
		_ = n.server.Serve(l) // it ends with close; what else may happen the callers see
	})
	return nil
}

func (n *node) close() {
	n.server.Stop()
	n.served.Wait()
}

// answer folds the shards that the request means into one reply.
func (n *node) answer(s grpc.ServerStream) error {
	var m message
	if err := s.RecvMsg(&m); err != nil {
		return err
	}
	ask, err := readAsk(m)
	if err != nil {
		return err
	}
	if ask.query >= len(n.queries) || ask.count == 0 || ask.from+ask.count > len(n.shards) {
		return fmt.Errorf("there is no question %d of shards %d to %d", ask.query, ask.from, ask.from+ask.count)
	}
	total, err := n.fold(s.Context(), n.queries[ask.query], n.shards[ask.from:ask.from+ask.count])
	if err != nil {
		return err
	}
	reply := message(total.bytes())
	return s.SendMsg(&reply)
}

// fold asks shards and adds up what they answer; with a few of them on all
// processors, so that it makes no difference on how many streams they are asked.
func (n *node) fold(ctx context.Context, q *query.Query, shards []*trail.Store) (partial, error) {
	workers := min(runtime.GOMAXPROCS(0), len(shards))
	var next atomic.Int64
	totals, errs := make([]partial, workers), make([]error, workers)
	work := func(w int) {
		totals[w] = partial{}
		for i := next.Add(1) - 1; int(i) < len(shards); i = next.Add(1) - 1 {
			a, err := shards[i].Query(ctx, q, trail.QueryOptions{Workers: 1})
			if err != nil {
				errs[w] = err
				return
			}
			totals[w].add(partialOf(a))
		}
	}
	var others sync.WaitGroup
	for w := 1; w < workers; w++ {
		others.Go(func() { work(w) })
	}
	work(0)
	others.Wait()
	for _, t := range totals[1:] {
		totals[0].add(t)
	}
	return totals[0], errors.Join(errs...)
}

// A client is a connection to a node. It counts what it receives and sends.
type client struct {
	conn  *grpc.ClientConn
	bytes *atomic.Int64
}

// dial connects to a node; what goes over the connection is added to bytes.
func dial(addr string, bytes *atomic.Int64) (*client, error) {
	conn, err := grpc.NewClient("passthrough:///"+addr,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(rawCodec{})),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			return counted{c, bytes}, err
		}))
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, bytes: bytes}, nil
}

// ask asks on a stream of its own.
func (c *client) ask(ctx context.Context, a ask) (partial, error) {
	s, err := c.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	m := message(a.bytes())
	if err := s.SendMsg(&m); err != nil {
		return nil, err
	}
	if err := s.CloseSend(); err != nil {
		return nil, err
	}
	var reply message
	if err := s.RecvMsg(&reply); err != nil {
		return nil, err
	}
	got, err := readPartial(reply)
	if err != nil {
		return nil, err
	}
	// The end of the stream, without which it would stay open.
	if err := s.RecvMsg(&reply); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more than one reply: %w", err)
	}
	return got, nil
}

// A counted connection adds what goes over it to bytes.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

// Read counts what it reads.
func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

// Write counts what it writes.
func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}
