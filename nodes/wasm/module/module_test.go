package module_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/wasm/module"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
)

func TestMain(m *testing.M) { leak.Main(m) }

// full is a module with a part of each kind: types, an import, a table, a memory, a global, a start
// function, elements of several forms, data, names, and instructions with immediates of all forms.
func full() []byte {
	sized := func(body []byte) []byte { return append(wasmtest.Number(len(body)), body...) }
	section := func(id byte, body ...byte) []byte { return append([]byte{id}, sized(body)...) }
	function := func(code ...byte) []byte { return sized(append(code, 0x0b)) }
	first := function(
		1, 2, 0x7f, // two locals
		0x02, 0x40, 0x03, 0x7f, 0x41, 0, 0x0e, 1, 1, 1, 0x0b, 0x1a, 0x0b, // block, loop, br_table
		0x41, 0, 0x41, 0, 0x41, 4, 0xfc, 11, 0, // memory.fill
		0x41, 0, 0x41, 0, 0x41, 4, 0xfc, 8, 0, 0, // memory.init
		0xfc, 9, 0, // data.drop
		0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 14, 0, 0, // table.copy
		0xd2, 1, 0xd1, 0x1a, // ref.func, ref.is_null
		0x43, 0, 0, 0, 0, 0x1a, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a,
		0x41, 0, 0x41, 0, 0x41, 0, 0x1c, 1, 0x7f, 0x1a, // select of a type
		0x41, 0, 0x28, 2, 0, 0x1a, // i32.load
		0x41, 0, 0xfd, 0, 4, 0, 0xfd, 21, 3, 0x1a, // v128.load, a lane
		0xfd, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a,
		0x41, 0, 0x11, 0, 0, // call_indirect
		0x23, 0, 0x1a, 0x3f, 0, 0x1a, 0x41, 0, 0x40, 0, 0x1a,
		0x10, 0, 0x10, 2, // calls of the import and of the other one
	)
	second := function(0)
	return bytes.Join([][]byte{
		[]byte("\x00asm\x01\x00\x00\x00"),
		section(0, append([]byte{4}, "name\x01\x04\x01\x01\x01f"...)...), // comes first
		section(1, 1, 0x60, 0, 0),
		section(2, append([]byte{1}, "\x04host\x01f\x00\x00"...)...),
		section(3, 2, 0, 0),
		section(4, 1, 0x70, 0, 4),
		section(5, 1, 0, 1),
		section(6, 2, 0x7f, 1, 0x41, 7, 0x0b, 0x70, 0, 0xd2, 1, 0x0b),
		section(7, append([]byte{1}, "\x03run\x00\x02"...)...),
		section(8, 2),
		section(9, 4, 0, 0x41, 0, 0x0b, 2, 1, 2, 1, 0, 1, 1, 3, 0, 1, 2, 5, 0x70, 1, 0xd2, 1, 0x0b),
		section(12, 1),
		section(10, append(append([]byte{2}, first...), second...)...),
		section(11, 1, 1, 4, 'a', 'b', 'c', 'd'),
	}, nil)
}

// compile reports whether the runtime takes a module, and what is wrong with it.
func compile(binary []byte) error {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, binary)
	return err
}

func TestFull(t *testing.T) {
	if err := compile(full()); err != nil {
		t.Fatal(err)
	}
	m, err := module.Parse(full())
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Imports) != 1 || m.Imports[0].Name != "f" || m.Exports["run"] != ":" || m.Pages != 1 {
		t.Errorf("got %+v", m)
	}
	out, err := m.Interruptible("host", "interrupt")
	if err != nil {
		t.Fatal(err)
	}
	if err := compile(out); err != nil {
		t.Error(err)
	}
	m, err = module.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(m.Imports); n != 2 || m.Imports[1] != (module.Import{Module: "host", Name: "interrupt", Type: ":i"}) {
		t.Errorf("got %v", m.Imports)
	}
}

// FuzzInterruptible checks that a module that is valid stays so.
func FuzzInterruptible(f *testing.F) {
	f.Add(full())
	f.Add(wasmtest.Echo().Bytes())
	for _, name := range []string{"", "interrupt"} {
		m := wasmtest.Guest(0x03, 0x40, 0x0c, 0, 0x0b, 0x00)
		m.Imports = []wasmtest.Import{{Module: "uniflow", Name: name, Results: []byte{wasmtest.I32}}}
		f.Add(m.Bytes())
	}
	f.Fuzz(func(t *testing.T, binary []byte) {
		m, err := module.Parse(binary)
		if err != nil {
			return
		}
		out, err := m.Interruptible("host", "interrupt")
		if err != nil {
			return
		}
		if err := compile(binary); err != nil {
			return
		}
		if err := compile(out); err != nil {
			t.Errorf("%v\nof %x\nmade %x", err, binary, out)
		}
	})
}
