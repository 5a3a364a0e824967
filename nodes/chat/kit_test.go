package chat_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A bot is what the kind test_bot does with messages: the test decides.
type bot struct {
	mu     sync.Mutex
	answer func(ctx context.Context, waits node.Waits, m value.Value) (value.Value, error)
	got    []value.Value
}

func (b *bot) texts() (texts []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.got {
		texts = append(texts, textAt(m, "text"))
	}
	return texts
}

func textAt(v value.Value, path ...string) string {
	for _, name := range path {
		v, _ = v.Get(name)
	}
	s, _ := v.AsString()
	return s
}

func (b *bot) def() *node.Def {
	return &node.Def{
		Kind: "test_bot", Summary: "Answers as a test has it.",
		In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
		Traits: node.Fixed(node.Traits{Is: node.SendsParts}),
		New: func(init *node.Init) (node.Node, error) {
			return node.ReceiverFunc(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Block(func(ctx context.Context) node.Result {
					b.mu.Lock()
					b.got = append(b.got, pkt.Payload)
					answer := b.answer
					b.mu.Unlock()
					v, err := answer(ctx, init.Waits, pkt.Payload)
					switch {
					case err != nil:
						return node.Fail(err)
					case v.IsNull():
						return node.None()
					}
					return node.Answer(v)
				})
			}), nil
		},
	}
}

// part sends a piece of the answer.
func part(ctx context.Context, v value.Value) error {
	p, ok := node.PartsOf(ctx)
	if !ok {
		return errors.New("no parts")
	}
	return p.Part(ctx, v)
}

// ask asks a question and waits for the answer, as the kind ask does.
func ask(ctx context.Context, waits node.Waits, question value.Value) (value.Value, error) {
	key, ok := node.ConversationOf(ctx)
	if !ok {
		return value.Value{}, errors.New("no conversation")
	}
	type result struct {
		v   value.Value
		err error
	}
	got := make(chan result, 1)
	waits.Wait(ctx, key, time.Now().Add(time.Minute), func(v value.Value, err error) { got <- result{v, err} })
	if err := part(ctx, question); err != nil {
		return value.Value{}, err
	}
	r := <-got
	return r.v, r.err
}

// A site is a workflow with a bot.
type site struct {
	*flowtest.Flow
	t   testing.TB
	bot bot
}

const secret = "a secret of the tests"

// serve starts a workflow of a chat at /chat and a bot, which says what the function says.
func serve(t testing.TB, fields, more string, answer func(ctx context.Context, waits node.Waits, m value.Value) (value.Value, error)) *site {
	t.Helper()
	return serveDocument(t, chatDocument(fields, more), answer)
}

func chatDocument(fields, more string) string {
	if fields != "" {
		fields = ", " + fields
	}
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: desk, port: in}]}}
- {kind: chat, name: desk, secret: %s%s, ports: {out: [{name: bot, port: in}], history: [{name: past, port: in}]}}
- {kind: test_bot, name: bot}
- {kind: snippet, name: past, language: cel, code: '[{"role": "user", "content": "earlier"}, {"role": "assistant", "content": "yes"}, {"role": "tool", "content": "no"}]'}
%s`, secret, fields, more)
}

func serveDocument(t testing.TB, document string, answer func(ctx context.Context, waits node.Waits, m value.Value) (value.Value, error)) *site {
	t.Helper()
	return serveClock(t, node.SystemClock{}, document, answer)
}

func serveClock(t testing.TB, clock node.Clock, document string, answer func(ctx context.Context, waits node.Waits, m value.Value) (value.Value, error)) *site {
	t.Helper()
	w := &site{t: t}
	w.bot.answer = answer
	w.Flow = flowtest.New(t, append(std.Defs(""), w.bot.def())...)
	w.Options.Clock = clock
	w.Serve(document)
	return w
}

// request returns the status, the header and the body of an answer.
func (w *site) request(method, path, body string, headers ...string) (int, http.Header, string) {
	w.t.Helper()
	set := make(map[string]string) // the last of a name counts
	for _, line := range headers {
		name, v, _ := strings.Cut(line, ": ")
		set[http.CanonicalHeaderKey(name)] = v
	}
	var header []string
	for name, v := range set {
		header = append(header, name, v)
	}
	reply := w.Request(method, path, body, header...)
	return reply.Status, reply.Header, reply.Body
}

// An event is what clients of a chat get.
type event struct {
	Type, Conversation, Title, Greeting, ID, Text, Code string
	Messages                                            []message
	Message                                             message
	Busy, Partial                                       bool
}

type message struct {
	ID, From, Text string
	Open, Failed   bool
	Buttons, Files []map[string]any
}

// A client is a WebSocket or a stream of events.
type client struct {
	t     testing.TB
	ws    *websocket.Conn // nil for events
	lines *bufio.Scanner
	token string
	seen  []event
}

// dial connects by a WebSocket, and takes part in a conversation, a new one without a token.
func (w *site) dial(token string, headers ...string) *client {
	w.t.Helper()
	header := http.Header{}
	for _, line := range headers {
		name, v, _ := strings.Cut(line, ": ")
		header.Set(name, v)
	}
	ws, _, err := websocket.Dial(w.t.Context(), "ws://"+w.Address()+"/chat/socket", &websocket.DialOptions{HTTPHeader: header, HTTPClient: w.Client()})
	if err != nil {
		w.t.Fatal(err)
	}
	ws.SetReadLimit(1 << 20)
	w.t.Cleanup(func() { ws.CloseNow() })
	c := &client{t: w.t, ws: ws}
	c.write(map[string]any{"conversation": token})
	c.token = c.hear("hello").Conversation
	return c
}

// listen takes part by a stream of events.
func (w *site) listen(token string) *client {
	w.t.Helper()
	data, err := json.Marshal(map[string]any{"conversation": token})
	if err != nil {
		w.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://"+w.Address()+"/chat/events", strings.NewReader(string(data)))
	if err != nil {
		w.t.Fatal(err)
	}
	resp, err := w.Client().Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		w.t.Fatalf("events: %s: %s; %s", resp.Status, text, w.Log())
	}
	c := &client{t: w.t, lines: bufio.NewScanner(resp.Body)}
	c.token = c.hear("hello").Conversation
	return c
}

func (c *client) write(v any) {
	c.t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = c.ws.Write(c.t.Context(), websocket.MessageText, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) say(id, text string) {
	c.t.Helper()
	c.write(map[string]any{"id": id, "text": text})
}

func (c *client) read() (f event, err error) {
	if c.ws != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, data, err := c.ws.Read(ctx)
		if err != nil {
			return f, err
		}
		return f, json.Unmarshal(data, &f)
	}
	for c.lines.Scan() {
		if data, ok := strings.CutPrefix(c.lines.Text(), "data: "); ok {
			return f, json.Unmarshal([]byte(data), &f)
		}
	}
	return f, io.EOF
}

// hear returns the next event of a type.
func (c *client) hear(typ string) event {
	c.t.Helper()
	for {
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("waiting for %s: %v after %+v", typ, err, c.seen)
		}
		c.seen = append(c.seen, f)
		if f.Type == typ {
			return f
		}
	}
}

// rest returns the events to the end of the answer, as "TYPE TEXT" each.
func (c *client) rest() (all []string) {
	c.t.Helper()
	for {
		f, err := c.read()
		if err != nil {
			c.t.Fatalf("%v after %v", err, all)
		}
		c.seen = append(c.seen, f)
		switch f.Type {
		case "message":
			text := "message " + f.Message.From + " " + f.Message.Text
			if f.Message.Open {
				text += "…"
			}
			if f.Message.Failed {
				text += " (failed)"
			}
			all = append(all, text)
		case "busy":
			if !f.Busy {
				return all
			}
		default:
			all = append(all, f.Type+" "+f.Text)
		}
	}
}

func echo(_ context.Context, _ node.Waits, m value.Value) (value.Value, error) {
	return value.String("you said " + textAt(m, "text")), nil
}
