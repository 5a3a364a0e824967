package wasm_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/wasm"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// newFlow returns a flow in a folder of its own with a module as guest.wasm.
func newFlow(t testing.TB, module []byte) *flowtest.Flow {
	t.Helper()
	dir := t.TempDir()
	switch t := t.(type) {
	case *testing.T:
		t.Chdir(dir)
	case *testing.B:
		t.Chdir(dir)
	}
	write(t, "guest.wasm", module)
	return flowtest.New(t, wasm.Defs(stream.Options{})...)
}

func write(t testing.TB, name string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func bytes(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// code is instructions as bytes.
func code(b ...byte) []byte { return b }

// TestFailures is what modules do wrong. After each, the next call has a fresh instance.
func TestFailures(t *testing.T) {
	forever := code(0x03, 0x40, 0x0c, 0, 0x0b, 0x00) // loop, br 0, end, unreachable
	fill := bytes(code(0x03, 0x40), wasmtest.Int32(0), wasmtest.Int32(1), wasmtest.Int32(1<<17), code(0xfc, 11, 0, 0x0c, 0, 0x0b, 0x00))
	grow := bytes(code(0x03, 0x40), wasmtest.Int32(1), code(0x40, 0), wasmtest.Int32(-1), code(0x47, 0x0d, 0, 0x0b, 0x00)) // until it fails
	tree := wasmtest.Guest(code(0x20, 1, 0x10, 4, 0xac)...)                                                                // of calls, 2^60 of them
	tree.Funcs = append(tree.Funcs, wasmtest.Func{
		Params: []byte{wasmtest.I32}, Results: []byte{wasmtest.I32},
		Code: bytes(code(0x20, 0), wasmtest.Int32(60), code(0x4a, 0x04, 0x7f), wasmtest.Int32(1), code(0x05, 0x20, 0), wasmtest.Int32(1), code(0x6a, 0x10, 4, 0x20, 0), wasmtest.Int32(1), code(0x6a, 0x10, 4, 0x6a, 0x0b)),
	})
	deep := wasmtest.Guest(code(0x20, 0, 0x20, 1, 0x10, 2)...)
	exit := wasmtest.Guest(bytes(wasmtest.Int32(3), code(0x10, 0, 0x00))...)
	exit.Imports = []wasmtest.Import{{Module: "wasi_snapshot_preview1", Name: "proc_exit", Params: []byte{wasmtest.I32}}}
	logs := wasmtest.Guest(bytes(wasmtest.Int32(3), wasmtest.Int32(-1), wasmtest.Int32(100), code(0x10, 0, 0x00))...)
	logs.Imports = []wasmtest.Import{{Module: "uniflow", Name: "log", Params: []byte{wasmtest.I32, wasmtest.I32, wasmtest.I32}}}
	named := wasmtest.Guest(0x00)
	named.Names = []string{"abi", "alloc", "shop.price"}
	nowhere := wasmtest.Echo()
	nowhere.Funcs[1].Code = wasmtest.Int32(-8)
	table := wasmtest.Guest(bytes(code(0xd0, 0x70), wasmtest.Int32(1<<30), code(0xfc, 15, 0), code(0xac), wasmtest.Int64(1<<34), code(0x84))...)
	table.Table = 1
	for _, test := range []struct {
		name   string
		module wasmtest.Module
		want   string
	}{
		{"loop", wasmtest.Guest(forever...), "timeout: uniflow_call: the module took longer than 100ms (in uniflow_call)"},
		{"recursion", tree, "timeout: uniflow_call: the module took longer than 100ms (in $5, in $5"},
		{"fill", wasmtest.Guest(fill...), "timeout: uniflow_call: the module took longer than 100ms"},
		{"deep", deep, "trap: uniflow_call: the module trapped: stack overflow"},
		{"grow", wasmtest.Guest(grow...), "trap: uniflow_call: the module trapped: unreachable"},
		{"trap", named, "trap: uniflow_call: the module trapped: unreachable (in shop.price)"},
		{"exit", exit, "exit: uniflow_call: the module ended itself with the status 3"},
		{"log", logs, "trap: uniflow_call: the module trapped: the module logs 100 bytes at 0xffffffff, which are outside of its memory"},
		{"alloc", nowhere, "answer: uniflow_alloc returned 0xfffffff8 for 7 bytes, which is not in its memory of 131072 bytes"},
		{"pointer", wasmtest.Guest(wasmtest.Int64(0x7ffffff0_00000010)...), "answer: uniflow_call returned 16 bytes at 0x7ffffff0, which are not in its memory of 131072 bytes"},
		{"length", wasmtest.Guest(wasmtest.Int64(0x10_7fffffff)...), "answer: uniflow_call returned 2147483647 bytes at 0x10, which are not in its memory of 131072 bytes"},
		{"error length", wasmtest.Guest(wasmtest.Int64(0x10_ffffffff)...), "answer: uniflow_call returned 2147483647 bytes at 0x10"},
		{"nothing", wasmtest.Guest(wasmtest.Int64(0)...), "answer: uniflow_call returned 0 bytes that are not JSON"},
		{"zeros", wasmtest.Guest(wasmtest.Int64(0x10_00000004)...), "answer: uniflow_call returned 4 bytes that are not JSON"},
		{"no error", wasmtest.Guest(wasmtest.Int64(0x400_80000007)...), "answer: the module reports an error without a message"},
		{"table", table, "answer: uniflow_call returned 2147483647 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFlow(t, test.module.Bytes())
			timeout := "100ms"
			if test.name == "deep" {
				timeout = "1m"
			}
			f.Load(`
- {kind: wasm, name: n, module: guest.wasm, timeout: ` + timeout + `, memory: 1MiB, instances: 1, ports: {error: [{name: e}]}}`)
			f.Probe("e")
			for range 3 {
				before := len(f.Arrivals())
				f.Send("n", value.Map(value.Field{Name: "a", Value: value.Int(1)}))
				arrivals := f.Arrivals()
				if len(arrivals) != before+1 {
					t.Fatalf("got %d errors, want %d", len(arrivals), before+1)
				}
				got := flat(arrivals[before].Payload)
				if !strings.HasPrefix(got, test.want) {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}
		})
	}
}

// flat returns an error as CODE: MESSAGE.
func flat(v value.Value) string {
	m := value.ErrorMap(v)
	code, _ := m.Get("code")
	message, _ := m.Get("message")
	c, _ := code.AsString()
	text, _ := message.AsString()
	return c + ": " + text
}

// TestMistakes is what is found when a document is checked.
func TestMistakes(t *testing.T) {
	without := func(i int) []byte {
		m := wasmtest.Echo()
		m.Funcs[i].Name = "x"
		return m.Bytes()
	}
	typed := wasmtest.Echo()
	typed.Funcs[1].Params, typed.Funcs[1].Code = []byte{wasmtest.I64}, wasmtest.Int32(1024)
	imports := func(module, name string, params ...byte) []byte {
		m := wasmtest.Echo()
		m.Imports = []wasmtest.Import{{Module: module, Name: name, Params: params}}
		return m.Bytes()
	}
	program := wasmtest.Module{Funcs: []wasmtest.Func{{Name: "_start"}}}
	large := wasmtest.Echo()
	large.Pages = 100
	hidden := wasmtest.Echo()
	hidden.Pages = 0
	table := wasmtest.Echo()
	table.Table = 100_000_000
	echo := wasmtest.Echo().Bytes()
	for _, test := range []struct {
		name     string
		module   []byte
		fields   string
		at, want string
	}{
		{"text", []byte("hello, world"), "", "module", "it is not a module of WebAssembly"},
		{"empty", nil, "", "module", "it is not a module of WebAssembly"},
		{"component", []byte("\x00asm\x0d\x00\x01\x00"), "", "module", "a component or of another version"},
		{"cut", echo[:len(echo)-3], "", "module", "ends too early"},
		{"no abi", without(0), "", "module", "does not export the function uniflow_abi() -> i32"},
		{"no alloc", without(1), "", "module", "does not export the function uniflow_alloc(i32) -> i32"},
		{"no call", without(2), "", "module", "does not export the function uniflow_call(i32, i32) -> i64"},
		{"function", echo, "function: price", "function", "does not export the function price(i32, i32) -> i64"},
		{"a function of another type", echo, "function: uniflow_abi", "function", "the function uniflow_abi of the module is () -> i32, it must be (i32, i32) -> i64"},
		{"type", typed.Bytes(), "", "module", "uniflow_alloc of the module is (i64) -> i32, it must be (i32) -> i32"},
		{"config", without(3), "config: null", "config", "does not export the function uniflow_config(i32, i32) -> i64"},
		{"import", imports("env", "abort"), "", "module", "imports the function env.abort"},
		{"unknown", imports("uniflow", "exec"), "", "module", "imports uniflow.exec, which there is not"},
		{"inner", imports("uniflow", "interrupt"), "", "module", "imports uniflow.interrupt, which there is not"},
		{"wrong type", imports("uniflow", "log", wasmtest.I64), "", "module", "imports uniflow.log as (i64) -> nothing, it is (i32, i32, i32) -> nothing"},
		{"of WASI", imports("wasi_snapshot_preview1", "sock_open"), "", "module", "imports wasi_snapshot_preview1.sock_open, which there is not"},
		{"program", program.Bytes(), "", "module", "it is a program, which runs once"},
		{"memory", large.Bytes(), "memory: 1MiB", "memory", "begins with 6553600 bytes of memory, more than 1048576"},
		{"no memory", hidden.Bytes(), "", "module", "does not export its memory"},
		{"table", table.Bytes(), "", "module", "has a table of 100000000 elements"},
		{"invalid", wasmtest.Guest(0x20, 1, 0xad, 0xad).Bytes(), "", "module", "the module is not valid"},
		{"tail call", wasmtest.Guest(0x12, 0).Bytes(), "", "module", "has the instruction 0x12, which is not of WebAssembly 2.0"},
		{"blocks", wasmtest.Guest(append([]byte(strings.Repeat("\x02\x40\x0b", 20_001)), wasmtest.Int64(0)...)...).Bytes(), "", "module", "functions that take minutes to compile: one has 20001 blocks and 2 local variables"},
		{"missing", echo, "module: other.wasm", "module", `"other.wasm": no such file`},
		{"folder", echo, "module: .", "module", "it is not a file"},
		{"outside", echo, "module: ../x.wasm", "module", "escapes"},
		{"env", echo, "wasi: {env: {A: 1}}", "wasi.env", "the variables must be texts"},
		{"read", echo, "wasi: {read: [data]}", "wasi.read", `"data": no such file`},
		{"read outside", echo, "wasi: {read: [..]}", "wasi.read", "escapes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFlow(t, test.module)
			fields := test.fields
			if !strings.Contains(fields, "module:") {
				fields = strings.TrimSuffix("module: guest.wasm, "+fields, ", ")
			}
			list := f.Check("- {kind: wasm, name: n, " + fields + "}")
			if len(list) != 1 {
				t.Fatalf("got %v, want one finding", list)
			}
			if got := list[0]; got.Path != test.at || !strings.Contains(got.Msg, test.want) || !got.Pos.IsValid() {
				t.Errorf("got %s %s: %s\nwant %s: %s", got.Pos, got.Path, got.Msg, test.at, test.want)
			}
		})
	}
}

// TestBounded is the memory of a module that takes all it gets, in all of its instances.
func TestBounded(t *testing.T) {
	// Grows by a page until that fails, and echoes.
	m := wasmtest.Echo()
	m.Funcs[2].Code = append(bytes(code(0x03, 0x40), wasmtest.Int32(1), code(0x40, 0), wasmtest.Int32(-1), code(0x47, 0x0d, 0, 0x0b)), m.Funcs[2].Code...)
	f := newFlow(t, m.Bytes())
	f.Load("- {kind: wasm, name: n, module: guest.wasm, memory: 8MiB, instances: 2}")
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		if got := f.SendJSON("n", `{"a":1}`); got != `{"a":1}` {
			t.Fatalf("got %s", got)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 20<<20 {
		t.Errorf("got %d MiB, want at most 2 x 8", grown>>20)
	}
}

// TestSlowStart is a module that loops before its first call, while the time of who opens it is limited.
func TestSlowStart(t *testing.T) {
	m := wasmtest.Echo()
	m.Funcs[0].Code = code(0x03, 0x40, 0x0c, 0, 0x0b, 0x00) // loop, br 0, end, unreachable
	f := newFlow(t, m.Bytes())
	f.Load("[]")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := f.Engine().Apply(ctx, uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte("- {kind: wasm, name: n, module: guest.wasm}")}}})
	const want = `node "n" (flow.yaml:1:3): the module "guest.wasm" did not become ready in time; what it does before its first call took too long: context deadline exceeded`
	if got := fmt.Sprint(err); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestReload is that a module stays compiled while the file is the same, and that another file is read.
func TestReload(t *testing.T) {
	f := newFlow(t, wasmtest.Echo().Bytes())
	document := "- {kind: wasm, name: n, module: guest.wasm, timeout: 1s}"
	f.Load(document)
	if got := f.SendJSON("n", `7`); got != "7" {
		t.Errorf("got %s, want 7", got)
	}
	write(t, "guest.wasm", wasmtest.Constant(`"other"`).Bytes())
	f.Load(strings.ReplaceAll(document, "1s", "2s"))
	if got := f.SendJSON("n", `7`); got != `"other"` {
		t.Errorf("got %s, want what the other module answers", got)
	}
}

// TestWaits is that calls wait for an instance, and get it in their order.
func TestWaits(t *testing.T) {
	f := newFlow(t, wasmtest.Echo().Bytes())
	f.Load("- {kind: wasm, name: n, module: guest.wasm, instances: 2}")
	var calls []*flowtest.Call
	for i := range 200 {
		calls = append(calls, f.Start("n", value.Int(int64(i))))
	}
	for i, call := range calls {
		if got, want := flowtest.Show(call.Response()), strconv.Itoa(i); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestCancelled is a call whose process ends while it runs.
func TestCancelled(t *testing.T) {
	f := newFlow(t, wasmtest.Guest(0x03, 0x40, 0x0c, 0, 0x0b, 0x00).Bytes())
	f.Load("- {kind: wasm, name: n, module: guest.wasm, timeout: 1h, instances: 1}")
	began := time.Now()
	call := f.Start("n", value.Int(1))
	call.Cancel()
	if got := flowtest.Show(call.Response()); !strings.Contains(got, "cancel") {
		t.Errorf("got %s, want that it is cancelled", got)
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("took %v", d)
	}
}

// TestCollects is that a garbage collection ends while a module loops. It waits for all machine code.
func TestCollects(t *testing.T) {
	f := newFlow(t, wasmtest.Guest(0x03, 0x40, 0x0c, 0, 0x0b, 0x00).Bytes())
	f.Load("- {kind: wasm, name: n, module: guest.wasm, timeout: 1h, instances: 1}")
	call := f.Start("n", value.Int(1))
	for range 5 {
		runtime.GC()
	}
	call.Cancel()
	if got := flowtest.Show(call.Response()); !strings.Contains(got, "cancel") {
		t.Errorf("got %s, want that it is cancelled", got)
	}
}
