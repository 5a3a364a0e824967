package module

import "fmt"

// A reader reads the parts of a module. What it cannot read, it panics about with a broken.
type reader struct {
	data []byte
	at   int
}

type broken struct{ err error }

// recoverBroken makes an error of the panic of a reader.
func recoverBroken(err *error) {
	switch r := recover().(type) {
	case nil:
	case broken:
		*err = r.err
	default:
		panic(r)
	}
}

func (r *reader) failf(format string, args ...any) { panic(broken{fmt.Errorf(format, args...)}) }

func (r *reader) more() bool { return r.at < len(r.data) }

func (r *reader) byte() byte {
	if !r.more() {
		r.failf("ends too early")
	}
	r.at++
	return r.data[r.at-1]
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.data)-r.at {
		r.failf("ends too early: %d bytes are missing", n-(len(r.data)-r.at))
	}
	r.at += n
	return r.data[r.at-n : r.at]
}

// u32 reads a number of up to 32 bits, in groups of seven, the lowest first.
func (r *reader) u32() (n uint32) {
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		n |= uint32(b&0x7f) << shift
		if b < 0x80 {
			return n
		}
	}
	r.failf("has a number of more than 32 bits")
	return 0
}

// skip reads over a number of any size and sign.
func (r *reader) skip() {
	for range 10 {
		if r.byte() < 0x80 {
			return
		}
	}
	r.failf("has a number of more than 64 bits")
}

// valueType reads a type of values. Later versions have types of several bytes.
func (r *reader) valueType() byte {
	t := r.byte()
	switch t {
	case 0x7f, 0x7e, 0x7d, 0x7c, 0x7b, 0x70, 0x6f:
	default:
		r.failf("has values of the type %#x, which is not of WebAssembly 2.0", t)
	}
	return t
}

// blockType reads over the type of a block: none, one value, or the index of a type.
func (r *reader) blockType() {
	if !r.more() {
		r.failf("ends too early")
	}
	switch b := r.data[r.at]; {
	case b == blockEmpty:
		r.at++
	case b < 0x80 && b >= 0x40:
		r.valueType()
	default:
		r.u32()
	}
}

func (r *reader) text() string { return string(r.take(int(r.u32()))) }

func (r *reader) limits() (least, most uint32, bounded bool) {
	flags := r.byte()
	if flags > 1 {
		r.failf("has a memory or a table that is shared, or of 64 bits")
	}
	least = r.u32()
	if flags == 1 {
		return least, r.u32(), true
	}
	return least, 0, false
}

// A writer writes parts of a module.
type writer []byte

func (w *writer) bytes(b ...byte) { *w = append(*w, b...) }

func (w *writer) u32(n uint32) {
	for n >= 0x80 {
		w.bytes(byte(n) | 0x80)
		n >>= 7
	}
	w.bytes(byte(n))
}

func (w *writer) text(s string) {
	w.u32(uint32(len(s)))
	*w = append(*w, s...)
}

func (w *writer) sized(body []byte) {
	w.u32(uint32(len(body)))
	*w = append(*w, body...)
}
