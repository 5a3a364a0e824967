// Package wasmtest writes small modules of WebAssembly for tests, so that tests need no compiler and
// the repository has no binaries.
//
// Read [Guest] and [Echo] first, then [Module] for what else a module may have. The package must not
// know what reads the modules.
package wasmtest

// Types of values.
const (
	I32 = 0x7f
	I64 = 0x7e
)

// A Func is a function. Its name exports it, unless it is empty.
type Func struct {
	Name    string
	Params  []byte
	Results []byte
	Code    []byte // without the end
}

// An Import is a function that is imported.
type Import struct {
	Module, Name    string
	Params, Results []byte
}

// A Module is what to write. Imports have the first indices of functions.
type Module struct {
	Imports []Import
	Funcs   []Func
	Pages   int // of memory, which is exported; 0 for none
	Table   int // elements; 0 for none
	Names   []string
}

// Bytes returns the module.
func (m Module) Bytes() []byte {
	var types, imports, funcs, exports, code [][]byte
	typeOf := func(params, results []byte) []byte {
		types = append(types, join([]byte{0x60}, sized(params), sized(results)))
		return Number(len(types) - 1)
	}
	for _, i := range m.Imports {
		imports = append(imports, join(sized([]byte(i.Module)), sized([]byte(i.Name)), []byte{0}, typeOf(i.Params, i.Results)))
	}
	for i, f := range m.Funcs {
		funcs = append(funcs, typeOf(f.Params, f.Results))
		if f.Name != "" {
			exports = append(exports, join(sized([]byte(f.Name)), []byte{0}, Number(len(m.Imports)+i)))
		}
		code = append(code, sized(join([]byte{0}, f.Code, []byte{0x0b})))
	}
	out := []byte("\x00asm\x01\x00\x00\x00")
	section := func(id byte, list [][]byte) {
		if len(list) > 0 {
			out = join(out, []byte{id}, sized(join(append([][]byte{Number(len(list))}, list...)...)))
		}
	}
	section(1, types)
	section(2, imports)
	section(3, funcs)
	if m.Table > 0 {
		section(4, [][]byte{join([]byte{0x70, 0}, Number(m.Table))})
	}
	if m.Pages > 0 {
		section(5, [][]byte{join([]byte{0}, Number(m.Pages))})
		exports = append(exports, join(sized([]byte("memory")), []byte{2, 0}))
	}
	section(7, exports)
	section(10, code)
	if len(m.Names) > 0 {
		list := Number(len(m.Names))
		for i, name := range m.Names {
			list = join(list, Number(i), sized([]byte(name)))
		}
		out = join(out, []byte{0}, sized(join(sized([]byte("name")), []byte{1}, sized(list))))
	}
	return out
}

// Guest returns a module with what the interface asks for, whose uniflow_call has the code: its
// parameters are the place and the length of the payload. It takes any config. Its memory has two
// pages, and payloads come to 1024.
func Guest(code ...byte) Module {
	return Module{
		Pages: 2,
		Funcs: []Func{
			{Name: "uniflow_abi", Results: []byte{I32}, Code: Int32(1)},
			{Name: "uniflow_alloc", Params: []byte{I32}, Results: []byte{I32}, Code: Int32(1024)},
			{Name: "uniflow_call", Params: []byte{I32, I32}, Results: []byte{I64}, Code: code},
			{Name: "uniflow_config", Params: []byte{I32, I32}, Results: []byte{I64}, Code: Int64(0)},
		},
	}
}

// Echo returns a module that answers each payload with itself.
func Echo() Module {
	return Guest(
		0x20, 0, // local.get 0
		0xad,     // i64.extend_i32_u
		0x42, 32, // i64.const 32
		0x86,    // i64.shl
		0x20, 1, // local.get 1
		0xad, // i64.extend_i32_u
		0x84, // i64.or
	)
}

// Constant returns a module that answers each payload with a text of JSON.
func Constant(text string) Module {
	const at = 2048
	var code []byte
	for i := range len(text) {
		code = join(code, Int32(int32(at+i)), Int32(int32(text[i])), []byte{0x3a, 0, 0}) // i32.store8
	}
	return Guest(join(code, Int64(at<<32|int64(len(text))))...)
}

// Int32 returns the instruction for a constant.
func Int32(n int32) []byte { return append([]byte{0x41}, signed(int64(n))...) }

// Int64 returns the instruction for a constant.
func Int64(n int64) []byte { return append([]byte{0x42}, signed(n)...) }

// Number returns a number without a sign, as modules write it.
func Number(n int) (b []byte) {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func signed(n int64) (b []byte) {
	for {
		low := byte(n) & 0x7f
		n >>= 7
		if n == 0 && low&0x40 == 0 || n == -1 && low&0x40 != 0 {
			return append(b, low)
		}
		b = append(b, low|0x80)
	}
}

func sized(b []byte) []byte { return join(Number(len(b)), b) }

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}
