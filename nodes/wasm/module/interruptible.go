package module

import (
	"errors"
	"maps"
	"slices"
)

// Interruptible returns the module with a counter of steps: the turns of its loops, the calls of
// functions that call others, and each KiB that is copied or filled by one instruction. When it is
// used up, the module calls the function that it imports by the given names; the function returns
// for how many steps the module may go on, more than 0, or panics. In the beginning there are none.
//
// Tables get a limit of 1,048,576 elements. Sections that are not part of the code are left out,
// except for the names of functions.
func (m *Module) Interruptible(module, name string) (binary []byte, err error) {
	defer recoverBroken(&err)
	if len(m.types) == 0 {
		return nil, errors.New("has no functions")
	}
	r := rewriter{m: m, host: uint32(len(m.Imports)), counter: uint32(m.globals)}
	w := writer("\x00asm\x01\x00\x00\x00")
	put := func(id byte, body []byte) {
		w.bytes(id)
		w.sized(body)
	}
	var named []byte // comes last
	imported, counted := false, false
	before := func(id byte) { // id is of the next section
		if !imported && (id == 0xff || order(id) > order(imports)) {
			imported = true
			put(imports, r.imports(&reader{data: []byte{0}}, module, name))
		}
		if !counted && (id == 0xff || order(id) > order(globals)) {
			counted = true
			put(globals, r.globals(&reader{data: []byte{0}}))
		}
	}
	for _, s := range m.sections {
		in := &reader{data: s.body}
		if s.id == custom {
			if in.text() == "name" {
				named = r.names(in)
			}
			continue
		}
		if s.id > dataCounts {
			in.failf("has a section of the unknown kind %d", s.id)
		}
		before(s.id)
		switch s.id {
		case types:
			put(types, r.types(in))
		case imports:
			imported = true
			put(imports, r.imports(in, module, name))
		case tables:
			put(tables, r.tables(in))
		case globals:
			counted = true
			put(globals, r.globals(in))
		case exports:
			put(exports, r.exports(in))
		case start:
			var body writer
			body.u32(r.function(in.u32()))
			put(start, body)
		case elements:
			put(elements, r.elements(in))
		case code:
			put(code, r.code(in))
		default:
			put(s.id, s.body)
		}
	}
	before(0xff)
	if named == nil {
		named = r.exported()
	}
	put(custom, named)
	return w, nil
}

// order returns the place of a section among the others.
func order(id byte) int {
	if id == dataCounts {
		return code*2 - 1
	}
	return int(id) * 2
}

// A rewriter writes the parts of a module with one more import.
type rewriter struct {
	m       *Module
	host    uint32 // index of the function that is imported
	counter uint32 // index of the global that counts
	work    int    // see mostWork
}

// function returns the index that a function has now.
func (r *rewriter) function(i uint32) uint32 {
	if i >= r.host {
		return i + 1
	}
	return i
}

// more writes a list with one element more. Its elements follow.
func more(in *reader) writer {
	var w writer
	w.u32(in.u32() + 1)
	w.bytes(in.take(len(in.data) - in.at)...)
	return w
}

func (r *rewriter) types(in *reader) []byte {
	w := more(in)
	w.bytes(0x60, 0, 1, 0x7f) // of no parameters and one i32
	return w
}

func (r *rewriter) imports(in *reader, module, name string) []byte {
	w := more(in)
	w.text(module)
	w.text(name)
	w.bytes(0)
	w.u32(uint32(len(r.m.types)))
	return w
}

func (r *rewriter) globals(in *reader) []byte {
	var w writer
	n := in.u32()
	w.u32(n + 1)
	for range n {
		w.bytes(in.valueType(), in.byte())
		r.constant(in, &w)
	}
	w.bytes(0x7f, 1, opI32Const, 0, opEnd)
	return w
}

func (r *rewriter) tables(in *reader) []byte {
	var w writer
	n := in.u32()
	w.u32(n)
	for range n {
		w.bytes(in.valueType())
		least, most, bounded := in.limits()
		if least > mostTable {
			in.failf("has a table of %d elements: %d are the most", least, mostTable)
		}
		if !bounded {
			most = mostTable
		}
		w.bytes(1)
		w.u32(least)
		w.u32(min(most, mostTable))
	}
	return w
}

func (r *rewriter) exports(in *reader) []byte {
	var w writer
	n := in.u32()
	w.u32(n)
	for range n {
		w.text(in.text())
		kind, index := in.byte(), in.u32()
		if kind == 0 {
			index = r.function(index)
		}
		w.bytes(kind)
		w.u32(index)
	}
	return w
}

// elements rewrites what tables are filled with. The lowest bits of the first number say what
// follows: whether it is only there to be copied, whether it names its table, and whether its
// elements are expressions.
func (r *rewriter) elements(in *reader) []byte {
	var w writer
	n := in.u32()
	w.u32(n)
	for range n {
		flags := in.u32()
		if flags > 7 {
			in.failf("has elements of the unknown form %d", flags)
		}
		w.u32(flags)
		if flags&1 == 0 {
			if flags&2 != 0 {
				w.u32(in.u32())
			}
			r.constant(in, &w)
		}
		if flags&3 != 0 { // the kind of functions, or a type
			if flags&4 == 0 {
				w.bytes(in.byte())
			} else {
				w.bytes(in.valueType())
			}
		}
		count := in.u32()
		w.u32(count)
		for range count {
			if flags&4 != 0 {
				r.constant(in, &w)
			} else {
				w.u32(r.function(in.u32()))
			}
		}
	}
	return w
}

// constant rewrites an expression that makes a constant.
func (r *rewriter) constant(in *reader, w *writer) {
	for {
		from := in.at
		op := in.byte()
		if op == opRefFunc {
			w.bytes(op)
			w.u32(r.function(in.u32()))
			continue
		}
		in.immediates(op)
		w.bytes(in.data[from:in.at]...)
		if op == opEnd {
			return
		}
	}
}

// names keeps the names of functions, and leaves out those of all else.
func (r *rewriter) names(in *reader) []byte {
	var w writer
	w.text("name")
	for in.more() {
		id := in.byte()
		part := &reader{data: in.take(int(in.u32()))}
		if id != 1 {
			continue
		}
		var body writer
		n := part.u32()
		body.u32(n)
		for range n {
			body.u32(r.function(part.u32()))
			body.text(part.text())
		}
		w.bytes(id)
		w.sized(body)
	}
	return w
}

// exported names functions as they are exported, for modules without names.
func (r *rewriter) exported() []byte {
	byIndex := make(map[uint32]string)
	for name, index := range r.m.indexes {
		byIndex[r.function(index)] = max(name, byIndex[r.function(index)])
	}
	var list writer
	list.u32(uint32(len(byIndex)))
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		list.u32(index)
		list.text(byIndex[index])
	}
	var w writer
	w.text("name")
	w.bytes(1)
	w.sized(list)
	return w
}
