package wasm

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
	"github.com/uniflow-labs/uniflow/value"
)

func newGuest(t *testing.T, init *node.Init, module []byte, s Settings) *guest {
	t.Helper()
	s.Folder, s.Module = t.TempDir(), "guest.wasm"
	if err := os.WriteFile(filepath.Join(s.Folder, s.Module), module, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := New(init, s)
	if err != nil {
		t.Fatal(err)
	}
	return n.(*guest)
}

// TestCompiledOnce is that a module that an open node has is not compiled again, and that one that is
// known to be valid is not compiled to be checked.
func TestCompiledOnce(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	init := &node.Init{Pool: new(node.Pool), Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler)}
	module := wasmtest.Echo().Bytes()
	made := func(s Settings) float64 {
		g := newGuest(t, init, module, s)
		s = g.s
		return testing.AllocsPerRun(3, func() {
			if _, err := New(init, s); err != nil {
				t.Fatal(err)
			}
		})
	}
	compiled := made(Settings{})
	if valid := made(Settings{Valid: new(Valid)}); valid > compiled/4 {
		t.Errorf("got %v allocations for a module that is valid, and %v to compile it", valid, compiled)
	}
	g := newGuest(t, init, module, Settings{})
	if err := g.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if open := made(Settings{}); open > compiled/4 {
		t.Errorf("got %v allocations for a module that is open, and %v to compile it", open, compiled)
	}
	next := newGuest(t, init, module, Settings{})
	if err := errors.Join(next.Open(t.Context()), g.Close()); err != nil {
		t.Fatal(err)
	}
	if next.program != g.program {
		t.Error("two nodes with a module do not share it")
	}
	if r, good := next.queue.try().answer(t.Context(), value.Int(7)); !good {
		t.Errorf("got %v after the other node was closed", r)
	}
	next.queue.mu.room++
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

// TestStarts are modules that cannot be started.
func TestStarts(t *testing.T) {
	abi := wasmtest.Echo()
	abi.Funcs[0].Code = wasmtest.Int32(2)
	refuses := wasmtest.Echo()
	refuses.Funcs[3].Code = wasmtest.Int64(1024<<32 | failedBit | 22) // the config itself
	loops := wasmtest.Echo()
	loops.Funcs[0].Code = []byte{0x00}
	for _, test := range []struct {
		module wasmtest.Module
		want   string
	}{
		{abi, "the module has the version 2 of the interface, this program has version 1"},
		{refuses, "the module refuses its config: too much"},
		{loops, "uniflow_abi: the module trapped: unreachable"},
	} {
		init := &node.Init{Pool: new(node.Pool), Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler), Memory: node.NewMemory(64 << 20)}
		g := newGuest(t, init, test.module.Bytes(), Settings{HasConfig: true, Config: value.Map(value.Field{Name: "message", Value: value.String("too much")})})
		if err := g.Open(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %s", err, test.want)
		}
	}
}

// TestMemory is that the memory of instances counts, and is given back.
func TestMemory(t *testing.T) {
	memory := node.NewMemory(512 << 10)
	init := &node.Init{Pool: new(node.Pool), Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler), Memory: memory}
	g := newGuest(t, init, wasmtest.Echo().Bytes(), Settings{Instances: 2})
	if err := g.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held := g.account.Held(); held != 2*pageSize {
		t.Errorf("got %d bytes, want 2 pages", held)
	}
	for range 3 { // more than there is, one after the other
		i, err := g.instantiate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := i.close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := g.instantiate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.instantiate(t.Context()); err == nil || !strings.Contains(err.Error(), "no memory is left") {
		t.Errorf("got %v, want that no memory is left", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestReadable(t *testing.T) {
	for name, want := range map[string]string{
		"_ZN5price4call17h140fbc558bb0d5f8E": "price::call",
		"main.price":                         "main.price",
		"_ZN5price":                          "_ZN5price",
		"_ZN99xE":                            "_ZN99xE",
		"_ZN":                                "_ZN",
	} {
		if got := readable(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
