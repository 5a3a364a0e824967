// Package module reads modules of WebAssembly, and rewrites them so that a host can interrupt them.
//
// Machine code that a module was compiled to runs until it returns: the scheduler of Go cannot
// preempt it, so a loop without end would stop the garbage collection, and with it the program. The
// runtime's own remedy leaves the machine code at each turn of a loop: a call took 8.2 µs and not
// 0.7, and a hash 8 µs and not 1.2; and it does not see a recursion. So [Module.Interruptible] puts
// a counter into the module, which calls the host when it is used up.
//
// Read [Parse] first, then [Module.Interruptible]. The package must not know which runtime runs
// modules, nor what they are for.
package module

import (
	"errors"
	"fmt"
	"slices"
)

// The sections of a module, in the order in which they may occur; data counts come before code.
const (
	custom = iota
	types
	imports
	functions
	tables
	memories
	globals
	exports
	start
	elements
	code
	data
	dataCounts
)

// mostTable is how many elements a table may have. Tables are memory of the host.
const mostTable = 1 << 20

// A Signature is the type of a function, in letters: i and I for integers of 32 and 64 bits, f and F
// for numbers with a point, and ? for all else. The results follow a colon.
type Signature string

// An Import is a function that a module needs.
type Import struct {
	Module, Name string
	Type         Signature
}

// A Module is a module that was read. It shares memory with the bytes that it was read from.
type Module struct {
	Imports []Import             // of functions
	Exports map[string]Signature // of functions
	Memory  bool                 // whether it exports a memory as "memory"
	Pages   uint32               // of 64 KiB, that its memory begins with

	sections  []section
	types     []functionType
	functions []uint32          // type of each function that is not imported
	indexes   map[string]uint32 // of the functions that are exported
	globals   int               // with those that are imported
}

type section struct {
	id   byte
	body []byte
}

type functionType struct {
	signature Signature
	params    int
}

// ErrNot is the error of bytes that are not a module.
var ErrNot = errors.New("it is not a module of WebAssembly: it does not begin with \\0asm")

// Parse reads what a module needs and has. Whether its code is valid is not looked at.
func Parse(binary []byte) (m *Module, err error) {
	if len(binary) < 8 || string(binary[:4]) != "\x00asm" {
		return nil, ErrNot
	}
	if string(binary[4:8]) != "\x01\x00\x00\x00" {
		return nil, errors.New("it is a component or of another version of WebAssembly, not a core module of version 1")
	}
	defer recoverBroken(&err)
	m = &Module{Exports: map[string]Signature{}, indexes: map[string]uint32{}}
	r := &reader{data: binary, at: 8}
	for r.more() {
		id := r.byte()
		s := section{id, r.take(int(r.u32()))}
		m.sections = append(m.sections, s)
		m.read(id, &reader{data: s.body})
	}
	return m, nil
}

func (m *Module) read(id byte, r *reader) {
	switch id {
	case types:
		for range r.u32() {
			m.types = append(m.types, r.functionType())
		}
	case imports:
		for range r.u32() {
			m.readImport(r)
		}
	case functions:
		for range r.u32() {
			m.functions = append(m.functions, r.u32())
		}
	case memories:
		for range r.u32() {
			least, _, _ := r.limits()
			m.Pages = least
		}
	case globals:
		m.globals += int(r.u32())
	case exports:
		for range r.u32() {
			name, kind, index := r.text(), r.byte(), r.u32()
			switch kind {
			case 0:
				m.Exports[name], m.indexes[name] = m.typeOf(index).signature, index
			case 2:
				m.Memory = m.Memory || name == "memory"
			}
		}
	}
}

func (m *Module) readImport(r *reader) {
	module, name := r.text(), r.text()
	switch kind := r.byte(); kind {
	case 0:
		m.Imports = append(m.Imports, Import{module, name, m.typeAt(r.u32()).signature})
	case 3:
		r.take(2)
		m.globals++
		r.failf("imports the global %s.%s: only functions can be imported", module, name)
	default:
		r.failf("imports the %s %s.%s: only functions can be imported", map[byte]string{1: "table", 2: "memory"}[kind], module, name)
	}
}

// typeAt returns a type by its index.
func (m *Module) typeAt(i uint32) functionType {
	if int64(i) >= int64(len(m.types)) {
		panic(broken{fmt.Errorf("names the type %d, and there are %d", i, len(m.types))})
	}
	return m.types[i]
}

// typeOf returns the type of a function by its index among all of them.
func (m *Module) typeOf(function uint32) functionType {
	if i := int(function); i < len(m.Imports) {
		return functionType{signature: m.Imports[i].Type}
	} else if i -= len(m.Imports); i < len(m.functions) {
		return m.typeAt(m.functions[i])
	}
	panic(broken{fmt.Errorf("names the function %d, which is not there", function)})
}

// letter returns a type of values as it is in a [Signature].
func letter(valueType byte) byte {
	switch valueType {
	case 0x7f:
		return 'i'
	case 0x7e:
		return 'I'
	case 0x7d:
		return 'f'
	case 0x7c:
		return 'F'
	}
	return '?'
}

func (r *reader) functionType() functionType {
	if form := r.byte(); form != 0x60 {
		r.failf("has a type of the form %#x, not of a function", form)
	}
	var s []byte
	list := func() {
		for range r.u32() {
			s = append(s, letter(r.valueType()))
		}
	}
	list()
	n := len(s)
	s = append(s, ':')
	list()
	return functionType{Signature(s), n}
}

// String returns the signature as documents write it, such as (i32, i32) -> i64.
func (s Signature) String() string {
	names := map[byte]string{'i': "i32", 'I': "i64", 'f': "f32", 'F': "f64", '?': "?"}
	text := "("
	colon := slices.Index([]byte(s), ':')
	for i := range len(s) {
		switch {
		case i == colon:
			text += ") -> "
			if i == len(s)-1 {
				text += "nothing"
			}
		default:
			if i > 0 && i != colon+1 {
				text += ", "
			}
			text += names[s[i]]
		}
	}
	return text
}
