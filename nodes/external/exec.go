package external

import (
	"context"
	_ "embed"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed exec.md
var execPage string

func execDef() *node.Def {
	return &node.Def{
		Kind:    "exec",
		Summary: "Passes packets to a program, a line of JSON each, and its answers on.",
		Page:    node.ReadPage(execPage),
		Config: schema.Fields(append([]*schema.Field{
			schema.Strings("command").Required().Doc("The program and its arguments. No shell reads them."),
			schema.Enum("mode", "lines", "each").Default("lines").Doc("With `lines`, a program answers many packets. With `each`, it runs once for each."),
			schema.Enum("format", "json", "text", "bytes").Default("json").Doc("With `mode: each`, what the program reads and writes: JSON, text, or bytes."),
			schema.String("dir").Doc("The folder that the program runs in; by default that of this process."),
		}, processFields("30s")...)...),
		In:     []node.Port{{Name: "in", Doc: "Any payload."}},
		Out:    []node.Port{{Name: "out", Doc: "What the program answers."}},
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			if len(c.Strings("command")) == 0 || c.Strings("command")[0] == "" {
				return nil, c.Errorf("command", diag.CodeBadValue, "the command is empty").WithHint("write a list that begins with a program: [jq, .total]")
			}
			s, err := newSettings(c)
			if err != nil {
				return nil, err
			}
			s.Command, s.Dir = c.Strings("command"), c.String("dir")
			if c.String("mode") == "each" {
				return newEach(init, s, c.String("format"))
			}
			if c.Has("format") {
				return nil, c.Errorf("format", diag.CodeBadValue, "with mode: lines, all is JSON").WithHint("leave format out, or add mode: each")
			}
			return newLines(init, s), nil
		},
	}
}

// processFields are those of all kinds that run a program.
func processFields(timeout string) []*schema.Field {
	return []*schema.Field{
		schema.Any("environment").Secret().Doc("Variables of the environment of the program, as a map. It inherits `PATH`, `HOME`, `LANG` and no others."),
		schema.Int("processes").Range(1, 1024).Doc("How many processes may run, at most; the number of processors unless set. The first starts with the node, others when it is busy."),
		schema.Int("in_flight").Default(64).Range(1, 100_000).Doc("How many packets one process may have at a time. Others wait."),
		schema.Duration("timeout").Default(timeout).Range(0, float64(24*time.Hour)).Doc("How long an answer may take, in real time. Then the packet fails, and the process is killed. 0 means no limit."),
		schema.Bytes("max_line").Default("16MiB").Range(1<<10, 1<<30).Doc("The size of a line or an output, at most."),
		field.NewBackoff(field.Backoff{Initial: 100 * time.Millisecond, Factor: 2, Max: 30 * time.Second, Jitter: 0.2}, "The wait before a program starts again that has ended without an answer.", "The longest wait."),
		sandboxField(),
	}
}

// settings say what runs, and how. Equal settings share processes.
type settings struct {
	Command   []string
	Dir       string
	Env       []string // NAME=VALUE, sorted
	Processes int
	InFlight  int
	Timeout   time.Duration
	MaxLine   int
	Backoff   field.Backoff
	Sandbox   *sandbox
	First     string // a line that each process gets first; empty for none
	Each      bool
	Ready     bool   // a process says when it is ready
	Version   string // of the files of the program
}

func newSettings(c schema.Config) (*settings, error) {
	s := &settings{
		Processes: int(c.Int("processes")), InFlight: int(c.Int("in_flight")), Timeout: c.Duration("timeout"),
		MaxLine: int(c.Int("max_line")),
	}
	if s.Processes == 0 {
		s.Processes = runtime.GOMAXPROCS(0)
	}
	var err error
	if s.Backoff, err = field.BackoffOf(c); err != nil {
		return nil, err
	}
	if s.Env, err = environment(c); err != nil {
		return nil, err
	}
	s.Sandbox, err = newSandbox(c)
	return s, err
}

// inherited are the variables of the environment that a program gets. Without the later ones, programs
// do not run on Windows.
var inherited = []string{"PATH", "HOME", "LANG", "SystemRoot", "SystemDrive", "TEMP", "TMP", "PATHEXT", "USERPROFILE"}

// environment returns the variables of a program.
func environment(c schema.Config) ([]string, error) {
	names := inherited
	if runtime.GOOS != "windows" {
		names = names[:3]
	}
	all := make(map[string]string)
	for _, name := range names {
		if text, ok := os.LookupEnv(name); ok {
			all[name] = text
		}
	}
	own := c.Value("environment")
	bad := c.Errorf("environment", diag.CodeBadValue, "must be a map of text").WithHint("write one such as {API_TOKEN: …}")
	if !own.IsNull() && own.Kind() != value.KindMap {
		return nil, bad
	}
	for name, v := range own.Fields() {
		text, ok := v.AsString()
		if !ok || name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(text, "\x00") {
			return nil, bad
		}
		all[name] = text
	}
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env, nil
}

// A lines is a node whose packets are lines that a pool of processes answers.
type lines struct {
	init     *node.Init
	settings *settings

	// failure adds to the error that the program has answered with; nil adds nothing.
	failure func(answer value.Value, e *node.Error) error

	ports []string // that an answer may name; the first unless it does

	pool    *pool
	release func() error
}

func newLines(init *node.Init, s *settings) *lines {
	return &lines{init: init, settings: s, ports: []string{"out"}}
}

// Open starts the first process, or takes the pool of another node with the same settings.
func (n *lines) Open(ctx context.Context) error {
	key := "exec " + field.Sum(n.settings.plain())
	if err := n.init.PermitProgram(key); err != nil {
		return err
	}
	var err error
	n.pool, n.release, err = node.Acquire(n.init.Pool, key, func() (*pool, error) { return newPool(ctx, n.init, n.settings) })
	return err
}

// plain returns what [field.Sum] can print: without pointers.
func (s *settings) plain() any {
	box := sandbox{}
	if s.Sandbox != nil {
		box = *s.Sandbox
	}
	plain := *s
	plain.Sandbox = nil
	return [...]any{plain, s.Sandbox != nil, box}
}

// Ready implements [node.Readier].
func (n *lines) Ready() error { return n.pool.ready() }

// Close lets go of the pool.
func (n *lines) Close() error { return n.release() }

// Concurrency implements [node.Concurrent].
func (n *lines) Concurrency() int { return n.settings.Processes * n.settings.InFlight }

// Receive implements [node.Node].
func (n *lines) Receive(_ node.Process, pkt node.Packet) node.Result {
	data, err := pkt.Payload.AppendJSON(n.pool.buffer())
	if err != nil {
		return node.Fail(node.Unusable("encode", err))
	}
	if len(data) > n.settings.MaxLine {
		return node.Fail(node.Unusable("too_long", fmt.Errorf("the payload is %d bytes of JSON, and max_line is %d", len(data), n.settings.MaxLine)))
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		n.pool.give(ctx, &call{payload: data, of: n}, done)
	})
}

// A call is a packet that waits for the answer of a process.
type call struct {
	state.Wait
	payload []byte // JSON; nil once it is written
	of      *lines
	size    int64 // of payload, as it is counted
	proc    *process
	id      uint64
	next    *call // that waits after it
}
