package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/redis/client"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A commander is a node of the kind redis.
type commander struct {
	settings    *client.Settings
	config      schema.Config
	pool        *node.Pool
	log         *slog.Logger
	timeout     time.Duration
	most        int
	commands    [][]template.Template // nil if the payload has them
	several     bool                  // the answer is a list
	transaction bool

	conn    *client.Conn
	release func() error
}

func newCommander(o stream.Options, init *node.Init) (node.Node, error) {
	c := init.Config
	s, err := client.NewSettings(c)
	if err != nil {
		return nil, err
	}
	s.MaxAnswer = c.Int("max_answer")
	n := &commander{
		settings: s, config: c, pool: init.Pool, log: init.Log, timeout: c.Duration("timeout"), most: int(c.Int("max_in_flight")), transaction: c.Bool("transaction"),
	}
	if !c.Has("command") {
		return n, nil
	}
	raw := c.Raw("command")
	if raw.Kind != schema.RawList || len(raw.Items) == 0 {
		return nil, c.Errorf("command", diag.CodeBadValue, "want a list").WithHint("write a command such as [GET, 'user:${self.id}']")
	}
	list := []*schema.Raw{raw}
	if n.several = raw.Items[0].Kind == schema.RawList; n.several {
		list = raw.Items
	}
	for _, item := range list {
		command, err := newCommand(c, item, template.Compiler(o.Languages, o.Language))
		if err != nil {
			return nil, err
		}
		n.commands = append(n.commands, command)
	}
	return n, nil
}

// newCommand compiles the arguments of a command.
func newCommand(c schema.Config, raw *schema.Raw, compile template.CompileFunc) (command []template.Template, err error) {
	if raw.Kind != schema.RawList || len(raw.Items) == 0 {
		return nil, c.Errorf("command", diag.CodeBadValue, "each command of a list is a list").WithHint("write [[SET, a, 1], [SET, b, 2]]")
	}
	for _, item := range raw.Items {
		if item.Kind == schema.RawList || item.Kind == schema.RawMap {
			return nil, c.Errorf("command", diag.CodeBadValue, "an argument is a text or a number").WithHint("write an expression such as ${self.tags} for a list of arguments")
		}
		t, err := template.New(item, compile)
		if err != nil {
			return nil, template.Place(c, "command", err)
		}
		command = append(command, t)
	}
	if !command[0].Constant() {
		return command, nil
	}
	name, err := command[0].Text(context.Background(), value.Null())
	if err != nil {
		return nil, err
	}
	second := ""
	if len(command) > 1 && command[1].Constant() {
		second, err = command[1].Text(context.Background(), value.Null())
	}
	if problem := refusal([]string{name, second}); problem != "" && err == nil {
		return nil, c.Errorf("command", diag.CodeBadValue, "%s", problem).WithHint("use redis_source to subscribe, transaction for MULTI, and the fields of the connection for the rest")
	}
	return command, err
}

// bound are commands that change the connection, which others use as well, or that need one of
// their own.
var bound = []string{
	"AUTH", "ASKING", "DISCARD", "EXEC", "HELLO", "MONITOR", "MULTI", "PSUBSCRIBE", "PSYNC", "PUNSUBSCRIBE", "QUIT", "READONLY", "READWRITE", "RESET",
	"SELECT", "SSUBSCRIBE", "SUBSCRIBE", "SUNSUBSCRIBE", "SYNC", "UNSUBSCRIBE", "UNWATCH", "WATCH",
}

// boundClient are such commands of CLIENT.
var boundClient = []string{"CACHING", "REPLY", "TRACKING"}

// refusal returns why a command must not run; empty if it may.
func refusal(command []string) string {
	if command[0] == "" {
		return "the name of the command is empty"
	}
	name := strings.ToUpper(command[0])
	if name == "CLIENT" && len(command) > 1 && slices.Contains(boundClient, strings.ToUpper(command[1])) {
		name += " " + strings.ToUpper(command[1])
	} else if !slices.Contains(bound, name) {
		return ""
	}
	return name + " changes the connection, which other nodes share"
}

// openTimeout is how long a start waits for a server. After that, connecting goes on in the
// background.
const openTimeout = 5 * time.Second

// Open connects, or takes the connection of another node with the same settings.
func (n *commander) Open(ctx context.Context) error {
	var err error
	if n.conn, n.release, err = n.settings.Acquire(n.pool); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	err = n.conn.Live(ctx)
	var refused *stream.RefusedError
	switch {
	case errors.As(err, &refused):
		return errors.Join(field.Place(refused, n.config), n.release())
	case err != nil:
		n.log.Warn("connecting failed", "error", err)
	}
	return nil
}

// Ready implements [node.Readier].
func (n *commander) Ready() error { return n.conn.Ready() }

// Close lets go of the connection, which others may use.
func (n *commander) Close() error { return n.release() }

// Concurrency implements [node.Concurrent].
func (n *commander) Concurrency() int { return n.most }

// Receive implements [node.Node].
func (n *commander) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result {
		ctx, cancel := context.WithTimeout(ctx, n.timeout)
		defer cancel()
		out, err := n.do(ctx, pkt.Payload)
		if err != nil {
			return node.Fail(client.Failure(err, n.timeout))
		}
		return node.Send(0, out)
	})
}

// do runs the commands for a payload.
func (n *commander) do(ctx context.Context, payload value.Value) (out value.Value, err error) {
	commands, several, err := n.render(ctx, payload)
	if err != nil {
		return out, err
	}
	if n.transaction {
		commands = slices.Concat([][]string{{"MULTI"}}, commands, [][]string{{"EXEC"}})
	} else if !several {
		m, err := n.conn.Do(ctx, commands[0]...)
		if err != nil {
			return out, err
		}
		return answerValue(&m)
	}
	answers := n.conn.DoMulti(ctx, commands...)
	for i, a := range answers {
		if a.Err != nil {
			return out, numbered(i, len(answers), n.transaction, a.Err)
		}
	}
	if n.transaction {
		out, err = answerValue(&answers[len(answers)-1].Message)
		if err == nil && !several && out.Len() == 1 {
			return out.At(0), nil
		}
		return out, err
	}
	list := make([]value.Value, len(answers))
	for i := range answers {
		if list[i], err = answerValue(&answers[i].Message); err != nil {
			return out, err
		}
	}
	return value.List(list...), nil
}

// numbered says which command of several an error is of.
func numbered(i, n int, transaction bool, err error) error {
	var e *node.Error
	if !errors.As(err, &e) || n == 1 {
		return err // the connection is why, and not a command
	}
	if transaction {
		if i--; i < 0 || i == n-2 {
			return err
		}
	}
	again := *e
	again.Err = fmt.Errorf("command %d: %w", i+1, e.Err)
	return &again
}

// render makes the commands for a payload. several says that the answer is a list.
func (n *commander) render(ctx context.Context, payload value.Value) (commands [][]string, several bool, err error) {
	if n.commands == nil {
		return commandsOf(payload)
	}
	for _, templates := range n.commands {
		var command []string
		for i := range templates {
			v, _, err := templates[i].Render(ctx, payload)
			if err != nil {
				return nil, false, err
			}
			if v.Kind() != value.KindList {
				command = append(command, bytesOf(v)) // null is empty, as in other texts
				continue
			}
			for _, e := range v.Elems() {
				command = append(command, bytesOf(e))
			}
		}
		if err := check(command); err != nil {
			return nil, false, err
		}
		commands = append(commands, command)
	}
	return commands, n.several, nil
}

func check(command []string) error {
	if len(command) == 0 {
		return node.Unusable("", errors.New("a command is an empty list"))
	}
	if problem := refusal(command); problem != "" {
		return node.Unusable("", errors.New(problem))
	}
	return nil
}

// commandsOf reads the commands that a payload is.
func commandsOf(payload value.Value) (commands [][]string, several bool, err error) {
	if payload.Kind() != value.KindList || payload.Len() == 0 {
		return nil, false, node.Unusable("", fmt.Errorf("the payload must be a command, a list such as [\"GET\", \"a\"], got %s; or set command", payload.Kind()))
	}
	list := []value.Value{payload}
	if several = payload.At(0).Kind() == value.KindList; several {
		list = list[:0]
		for _, e := range payload.Elems() {
			list = append(list, e)
		}
	}
	for i, v := range list {
		if v.Kind() != value.KindList {
			return nil, false, node.Unusable("", fmt.Errorf("command %d: must be a list, got %s", i+1, v.Kind()))
		}
		var command []string
		for j, e := range v.Elems() {
			if e.IsNull() {
				return nil, false, node.Unusable("", fmt.Errorf("command %d: argument %d is null", i+1, j))
			}
			command = append(command, bytesOf(e))
		}
		if err := check(command); err != nil {
			return nil, false, err
		}
		commands = append(commands, command)
	}
	return commands, several, nil
}
