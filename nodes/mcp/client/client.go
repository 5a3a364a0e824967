package client

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/value"
)

// backlog is how many reports of progress of a call may wait; more of them are dropped.
const backlog = 64

// A Client calls one server. It connects with the first call, and again when the
// connection is lost. Any goroutine may call its methods.
type Client struct {
	s    Settings
	life context.Context // ends with Close
	end  context.CancelFunc
	wg   sync.WaitGroup // of what the client has begun
	list chan struct{}  // of one: held by who asks for the list of tools

	mu struct {
		sync.Mutex
		closed   bool
		current  *session      // nil while there is none
		trying   chan struct{} // closed at the end of an attempt to connect; nil if there is none
		err      error         // of the last attempt
		failures int           // since the last that worked
		again    time.Time     // not before is another attempt
		tools    []Tool
		until    time.Time // of tools
		tokens   int       // given to calls
		progress map[string]chan value.Value
	}
}

// Open returns the client of these settings, which is shared with the generation before.
// It does not connect. Call release once; the last call ends the connection, and the
// program if there is one.
func (s *Settings) Open(pool *node.Pool) (c *Client, release func() error, err error) {
	loaded := *s
	if loaded.tls, err = s.tls.Load(); err != nil {
		return nil, nil, field.Place(err, s.config)
	}
	sum := field.Sum([]any{s.url, s.header, loaded.tls, s.command, s.env, s.dir, s.connect, s.timeout, s.most})
	if len(s.command) > 0 {
		if err := s.permit("mcp " + sum); err != nil {
			return nil, nil, err
		}
	}
	return node.Acquire(pool, "mcp.client "+s.owner+" "+sum, func() (*Client, error) {
		c := &Client{s: loaded, list: make(chan struct{}, 1)}
		c.life, c.end = context.WithCancel(context.Background())
		c.mu.progress = make(map[string]chan value.Value)
		return c, nil
	})
}

// Close ends the connection, and waits for the program if there is one.
func (c *Client) Close() error {
	c.mu.Lock()
	c.mu.closed = true
	s := c.mu.current
	c.mu.current = nil
	c.mu.Unlock()
	if s != nil {
		s.close()
	}
	c.end()
	c.wg.Wait()
	return nil
}

// Call calls a tool and returns what it answers. The error is a [*ToolError] if the tool
// says that it has failed. progress, if it is set, gets what the tool reports meanwhile:
// maps of progress, total and message. It is called by the goroutine of the caller; while
// it waits, reports may be dropped.
func (c *Client) Call(ctx context.Context, tool string, arguments value.Value, progress func(value.Value)) (Result, error) {
	ctx, cancel := c.limit(ctx)
	defer cancel()
	data, err := arguments.MarshalJSON()
	if err != nil {
		return Result{}, fmt.Errorf("arguments: %w", err)
	}
	params := &sdk.CallToolParams{Name: tool, Arguments: rawJSON(data)}
	if progress == nil {
		return c.call(ctx, params)
	}
	token, reports := c.listen()
	defer c.forget(token)
	params.SetProgressToken(token)
	type outcome struct {
		result Result
		err    error
	}
	answered := make(chan outcome, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		result, err := c.call(ctx, params)
		answered <- outcome{result, err}
	})
	defer wg.Wait()
	for {
		select {
		case v := <-reports:
			progress(v)
		case o := <-answered:
			for len(reports) > 0 {
				progress(<-reports)
			}
			return o.result, o.err
		}
	}
}

func (c *Client) call(ctx context.Context, params *sdk.CallToolParams) (r Result, err error) {
	var answer *sdk.CallToolResult
	err = c.use(ctx, func(s *session) (err error) {
		answer, err = s.CallTool(ctx, params)
		return err
	})
	if err != nil {
		return Result{}, c.describe(ctx, err)
	}
	return resultOf(answer)
}

// limit returns a context that ends when a call has taken too long.
func (c *Client) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx = watchLength(ctx)
	if c.s.timeout == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.s.timeout)
}

// use calls f with a connection. If the server has forgotten it, f is called once more
// with another: nothing has been done then.
func (c *Client) use(ctx context.Context, f func(*session) error) error {
	for first := true; ; first = false {
		s, err := c.connection(ctx)
		if err != nil {
			return err
		}
		err = f(s)
		var answered *jsonrpc.Error
		if err != nil && ctx.Err() == nil && !errors.As(err, &answered) {
			if s.tooLong.Load() { // it has no request of its own
				tooLongOf(ctx).Store(true)
			}
			c.lose(s)
		}
		if !first || !errors.Is(err, sdk.ErrSessionMissing) {
			return err
		}
	}
}

// listen makes a token for the progress of a call.
func (c *Client) listen() (token string, reports chan value.Value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.tokens++
	token, reports = strconv.Itoa(c.mu.tokens), make(chan value.Value, backlog)
	c.mu.progress[token] = reports
	return token, reports
}

func (c *Client) forget(token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mu.progress, token)
}

// report passes progress on. It does not wait, as answers to others come the same way.
func (c *Client) report(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
	token, ok := r.Params.ProgressToken.(string)
	if !ok {
		return
	}
	fields := []value.Field{{Name: "progress", Value: value.Float(r.Params.Progress)}}
	if r.Params.Total != 0 {
		fields = append(fields, value.Field{Name: "total", Value: value.Float(r.Params.Total)})
	}
	if r.Params.Message != "" {
		fields = append(fields, value.Field{Name: "message", Value: value.String(r.Params.Message)})
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case c.mu.progress[token] <- value.Map(fields...):
	default: // also where nothing is asked for
	}
}
