package wasm

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/wasm/module"
	"github.com/uniflow-labs/uniflow/value"
)

// The functions of a module, see the page of the kind.
const (
	abiName    = "uniflow_abi"
	allocName  = "uniflow_alloc"
	callName   = "uniflow_call"
	configName = "uniflow_config"
)

const (
	pageSize   = 64 << 10
	mostModule = 32 << 20 // bytes of a file
)

// Settings are what a node is made from.
type Settings struct {
	// Folder is that of the document, or the document itself. Module and Read are relative to it,
	// and must be in it.
	Folder string
	Module string
	Hidden bool // a template has made the name of the module, so it must not be shown

	Function  string        // that is called; empty for uniflow_call
	Config    value.Value   // for uniflow_config
	HasConfig bool          // whether there is one: it may be null
	Memory    int64         // of an instance, in bytes; 0 for 64 MiB
	Timeout   time.Duration // of a call; 0 for a second
	Instances int           // at most; 0 for the number of processors
	Env       map[string]string
	Read      []string // folders
	Valid     *Valid   // modules that are known to be valid; nil for none
}

// A Mistake is an error in [Settings].
type Mistake struct {
	Field   string // as the kind wasm calls it, such as module or wasi.read
	Message string
	Hint    string // may be empty
}

func (m *Mistake) Error() string { return m.Message }

// Valid remembers modules by content, so that a document that is checked again and again, as in an
// editor, does not compile them each time. The zero Valid is empty. Any goroutine may use it.
type Valid struct {
	mu   sync.Mutex
	sums map[[sha256.Size]byte]bool
}

func (v *Valid) has(sum [sha256.Size]byte) bool {
	if v == nil {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sums[sum]
}

func (v *Valid) add(sum [sha256.Size]byte) {
	if v == nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.sums == nil || len(v.sums) >= 256 {
		v.sums = make(map[[sha256.Size]byte]bool)
	}
	v.sums[sum] = true
}

// New makes a node that calls a module: it has one in-port, and sends results on out-port 0. It reads
// the module and compiles it, unless an open node has it already. An error in the settings is a
// [*Mistake].
func New(init *node.Init, s Settings) (node.Node, error) {
	s.Function, s.Memory, s.Timeout = cmp.Or(s.Function, callName), cmp.Or(s.Memory, 64<<20), cmp.Or(s.Timeout, time.Second)
	s.Instances = cmp.Or(s.Instances, runtime.GOMAXPROCS(0))
	g := &guest{s: s, init: init, queue: queue{clock: init.Clock}}
	root, err := open(s.Folder)
	if err != nil {
		return nil, &Mistake{"module", err.Error(), "modules are read from the folder of the document"}
	}
	defer root.Close()
	if g.folders, err = mounts(root, s.Read); err != nil {
		return nil, err
	}
	binary, err := read(root, s.Module)
	if err != nil {
		return nil, &Mistake{"module", s.named() + ": " + err.Error(), "the path is relative to the document, and in its folder"}
	}
	g.sum = sha256.Sum256(binary)
	m, err := module.Parse(binary)
	if err != nil {
		return nil, &Mistake{"module", err.Error(), "a module is the .wasm file that a compiler writes"}
	}
	if err := s.check(m); err != nil {
		return nil, err
	}
	g.least = int64(m.Pages) * pageSize
	if s.HasConfig {
		if g.config, err = s.Config.AppendJSON(nil); err != nil {
			return nil, &Mistake{"config", err.Error(), ""}
		}
	}
	g.compile = func() (*program, error) { return compile(m) }
	if s.Valid.has(g.sum) || g.isOpen() {
		return g, nil
	}
	p, err := compile(m)
	if err != nil {
		return nil, err
	}
	s.Valid.add(g.sum)
	// If the node is never opened, the machine code goes with the next collection of garbage.
	g.compile = func() (*program, error) { return p, nil }
	return g, nil
}

// named is the name of the module, for messages.
func (s *Settings) named() string {
	if s.Hidden {
		return "the module"
	}
	return "the module " + strconv.Quote(s.Module)
}

// check looks for the functions of a module.
func (s *Settings) check(m *module.Module) error {
	const howto = "docs/wasm.md shows how to write and build a module"
	if _, ok := m.Exports[abiName]; !ok && m.Exports["_start"] != "" {
		return &Mistake{"module", "it is a program, which runs once, and not a module with functions", "build it as a library: in Go with -buildmode=c-shared, in Rust as a cdylib"}
	}
	need := []struct {
		field, name string
		want        module.Signature
	}{{"module", abiName, ":i"}, {"module", allocName, "i:i"}, {"function", s.Function, "ii:I"}}
	if s.HasConfig {
		need = append(need, struct {
			field, name string
			want        module.Signature
		}{"config", configName, "ii:I"})
	}
	for _, n := range need {
		got, ok := m.Exports[n.name]
		if field := n.field; !ok || got != n.want {
			if field == "function" && n.name == callName {
				field = "module"
			}
			if !ok {
				return &Mistake{field, fmt.Sprintf("the module does not export the function %s%s", n.name, n.want), howto}
			}
			return &Mistake{field, fmt.Sprintf("the function %s of the module is %s, it must be %s", n.name, got, n.want), howto}
		}
	}
	if !m.Memory {
		return &Mistake{"module", "the module does not export its memory as memory", howto}
	}
	if least := int64(m.Pages) * pageSize; least > s.Memory {
		return &Mistake{"memory", fmt.Sprintf("the module begins with %d bytes of memory, more than %d", least, s.Memory), "raise memory"}
	}
	return nil
}

// A mount is a folder that a module sees.
type mount struct{ host, guest string }

func mounts(root *os.Root, folders []string) (list []mount, err error) {
	for _, f := range folders {
		info, err := root.Stat(filepath.FromSlash(f))
		switch {
		case err != nil:
			return nil, &Mistake{"wasi.read", fmt.Sprintf("%q: %v", f, reason(err)), "folders are relative to the document, and in its folder"}
		case !info.IsDir():
			return nil, &Mistake{"wasi.read", fmt.Sprintf("%q: not a folder", f), ""}
		}
		list = append(list, mount{filepath.Join(root.Name(), f), path.Clean("/" + filepath.ToSlash(f))})
	}
	return list, nil
}

// A guest is a node that calls a module.
type guest struct {
	s       Settings
	init    *node.Init
	folders []mount
	sum     [sha256.Size]byte // of the module
	config  []byte            // JSON; nil for none
	least   int64             // bytes of memory that an instance begins with
	compile func() (*program, error)

	program *program
	release func() error // of the program
	account *node.Account
	roots   []*os.Root
	closing atomic.Bool

	queue queue
}

func (g *guest) key() string { return fmt.Sprintf("wasm %x", g.sum) }

var errNotOpen = errors.New("no node with this module is open")

// isOpen reports whether an open node has the module compiled.
func (g *guest) isOpen() bool {
	_, release, err := node.Acquire(g.init.Pool, g.key(), func() (*program, error) { return nil, errNotOpen })
	if err == nil {
		err = release()
	}
	return err == nil
}

// Open makes the first instance, so that a module that cannot be started is found before the first
// packet.
func (g *guest) Open(ctx context.Context) (err error) {
	g.program, g.release, err = node.Acquire(g.init.Pool, g.key(), g.compile)
	if err != nil {
		return err
	}
	g.compile = nil
	g.account = g.init.Memory.Account("wasm")
	for _, m := range g.folders {
		root, err := os.OpenRoot(m.host)
		if err != nil {
			return errors.Join(err, g.end())
		}
		g.roots = append(g.roots, root)
	}
	first, err := g.instantiate(ctx)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) { // of the context
			err = fmt.Errorf("%s did not become ready in time; what it does before its first call took too long: %w", g.s.named(), err)
		}
		return errors.Join(err, g.end())
	}
	g.queue.mu.room = g.s.Instances - 1
	g.queue.give(first)
	return nil
}

// Close waits for calls that go on although their processes are cancelled: they end at their next
// step.
func (g *guest) Close() error {
	g.closing.Store(true)
	var errs []error
	for range g.s.Instances {
		i, err := g.queue.take(context.Background())
		if i != nil {
			err = errors.Join(err, i.close())
		}
		errs = append(errs, err)
	}
	return errors.Join(append(errs, g.end())...)
}

func (g *guest) end() error {
	var errs []error
	for _, root := range g.roots {
		errs = append(errs, root.Close())
	}
	g.account.Close()
	return errors.Join(append(errs, g.release())...)
}

// Receive calls the module immediately if an instance is free. Otherwise the packet waits for one,
// in the order in which packets come.
func (g *guest) Receive(p node.Process, pkt node.Packet) node.Result {
	if i := g.queue.try(); i != nil {
		r, asked := g.call(p.Context(), i, pkt.Payload)
		return noted(p, r, asked)
	}
	return node.Block(func(ctx context.Context) node.Result {
		i, err := g.queue.take(ctx)
		if err != nil {
			return node.Fail(err)
		}
		r, asked := g.call(ctx, i, pkt.Payload)
		if !asked {
			return r
		}
		return node.After(node.None(), func(p node.Process, _ node.Response) node.Result { return noted(p, r, asked) })
	})
}

// noted returns a result that must be recorded if the module has asked for the time or for chance.
func noted(p node.Process, r node.Result, asked bool) node.Result {
	if asked {
		if run, durable := node.RunOf(p); durable {
			run.Keep()
		}
	}
	return r
}

// call calls the module with a payload, and gives the instance back, or makes room for another one
// if it has failed. A nil instance is one to be made.
func (g *guest) call(ctx context.Context, i *instance, payload value.Value) (r node.Result, asked bool) {
	if i == nil {
		var err error
		if i, err = g.instantiate(ctx); err != nil {
			g.queue.give(nil)
			return node.Fail(err), false
		}
	}
	r, good := i.answer(ctx, payload)
	asked = i.asked
	if good {
		g.queue.give(i)
		return r, asked
	}
	if err := i.close(); err != nil {
		g.init.Log.Warn("closing an instance of a module", "error", err)
	}
	g.queue.give(nil)
	return r, asked
}

// Concurrency lets the packets of one process use all instances.
func (g *guest) Concurrency() int { return g.s.Instances }
