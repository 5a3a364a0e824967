package module

// The instructions that the rewriter writes or looks at.
const (
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opEnd          = 0x0b
	opCall         = 0x10
	opCallIndirect = 0x11
	opLocalGet     = 0x20
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opI32Const     = 0x41
	opI32LtS       = 0x48
	opI32Sub       = 0x6b
	opI32ShrU      = 0x76
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVector       = 0xfd

	blockEmpty = 0x40
)

// mostWork bounds the time that a compiler takes, which grows with the blocks of a function times its blocks and
// its local variables: 10,000 blocks took 3 s and 40,000 took 100 s, 1,000 blocks with 1,000 variables 2 s and
// 2,000 with 2,000 took 16 s. The work of a module of Go of 3 MB is 36 million.
const mostWork = 400_000_000

func (r *rewriter) code(in *reader) []byte {
	w := make(writer, 0, len(in.data)*5/4)
	n := in.u32()
	w.u32(n)
	for i := range n {
		body := &reader{data: in.take(int(in.u32()))}
		if int64(i) >= int64(len(r.m.functions)) {
			in.failf("has more code than functions")
		}
		w.sized(r.body(body, r.m.typeAt(r.m.functions[i]).params))
	}
	return w
}

// body rewrites the code of a function. A local variable is added where instructions copy or
// fill, which take as long as they are told to.
func (r *rewriter) body(in *reader, params int) []byte {
	groups := in.u32()
	from := in.at
	size := uint32(params)
	for range groups {
		n := in.u32()
		if size += n; size > 50_000 || n > 50_000 {
			in.failf("has a function of more than 50,000 local variables")
		}
		in.valueType()
	}
	first := in.at
	calls, bulk, blocks := in.survey()
	if r.work += blocks * (blocks + 60*int(size)); r.work > mostWork {
		in.failf("has functions that take minutes to compile: one has %d blocks and %d local variables", blocks, size)
	}
	in.at = first

	w := make(writer, 0, len(in.data)+64)
	if bulk {
		w.u32(groups + 1)
		w.bytes(in.data[from:first]...)
		w.bytes(1, 0x7f)
	} else {
		w.u32(groups)
		w.bytes(in.data[from:first]...)
	}
	if calls {
		r.step(&w)
	}
	for in.more() {
		at := in.at
		switch op := in.byte(); op {
		case opCall, opRefFunc:
			w.bytes(op)
			w.u32(r.function(in.u32()))
			continue
		case opLoop:
			in.blockType()
			w.bytes(in.data[at:in.at]...)
			r.step(&w)
			continue
		case opMisc:
			if in.bulk() {
				r.steps(&w, size)
			}
		default:
			in.immediates(op)
		}
		w.bytes(in.data[at:in.at]...)
	}
	return w
}

// survey reads over the instructions of a function, and reports whether it calls others, whether it
// copies or fills, and how many blocks it has. A function that calls none cannot be part of a recursion.
func (r *reader) survey() (calls, bulk bool, blocks int) {
	for r.more() {
		switch op := r.byte(); op {
		case opMisc:
			bulk = r.bulk() || bulk
		case opCall, opCallIndirect:
			calls = true
			r.immediates(op)
		case opBlock, opLoop, opIf:
			blocks++
			r.immediates(op)
		default:
			r.immediates(op)
		}
	}
	return calls, bulk, blocks
}

// step writes the counting of one step.
func (r *rewriter) step(w *writer) {
	w.bytes(opGlobalGet)
	w.u32(r.counter)
	w.bytes(opI32Const, 1, opI32Sub)
	r.count(w)
}

// steps writes the counting of as many steps as there are KiB in the number on the stack, which
// stays there.
func (r *rewriter) steps(w *writer, local uint32) {
	w.bytes(opLocalTee)
	w.u32(local)
	w.bytes(opGlobalGet)
	w.u32(r.counter)
	w.bytes(opLocalGet)
	w.u32(local)
	w.bytes(opI32Const, 10, opI32ShrU, opI32Sub)
	r.count(w)
}

// count sets the counter to the number on the stack, and calls the host if it is used up.
func (r *rewriter) count(w *writer) {
	w.bytes(opGlobalSet)
	w.u32(r.counter)
	w.bytes(opGlobalGet)
	w.u32(r.counter)
	w.bytes(opI32Const, 1, opI32LtS, opIf, blockEmpty, opCall)
	w.u32(r.host)
	w.bytes(opGlobalSet)
	w.u32(r.counter)
	w.bytes(opEnd)
}

// bulk reads over the rest of an instruction of the group opMisc, and reports whether it takes the
// longer the larger the number on top of the stack is.
func (r *reader) bulk() bool {
	switch op := r.u32(); op {
	case 0, 1, 2, 3, 4, 5, 6, 7: // conversions
		return false
	case 9, 13, 15, 16: // drops; the growth and the size of tables, which are bounded
		r.skip()
		return false
	case 11, 17: // fills
		r.skip()
	case 8, 10, 12, 14: // copies
		r.skip()
		r.skip()
	default:
		r.failf("has the unknown instruction 0xfc %d", op)
	}
	return true
}

// immediates reads over what belongs to an instruction.
func (r *reader) immediates(op byte) {
	switch {
	case op == 0x00, op == 0x01, op == 0x05, op == opEnd, op == 0x0f, op == 0x1a, op == 0x1b, op >= 0x45 && op <= 0xc4, op == 0xd1:
	case op == opBlock, op == opLoop, op == opIf:
		r.blockType()
	case op == 0xd0: // a null of a type
		r.valueType()
	case op == 0x0c, op == 0x0d, op == opCall, op >= opLocalGet && op <= 0x26,
		op == 0x3f, op == 0x40, op == opI32Const, op == 0x42, op == opRefFunc:
		r.skip()
	case op == 0x0e: // a branch by a table
		for range r.u32() {
			r.skip()
		}
		r.skip()
	case op == opCallIndirect, op >= 0x28 && op <= 0x3e: // loads and stores
		r.skip()
		r.skip()
	case op == 0x1c: // a selection by type
		for range r.u32() {
			r.valueType()
		}
	case op == 0x43:
		r.take(4)
	case op == 0x44:
		r.take(8)
	case op == opMisc:
		r.bulk()
	case op == opVector:
		r.vector()
	default:
		r.failf("has the instruction %#x, which is not of WebAssembly 2.0", op)
	}
}

// vector reads over the rest of an instruction on vectors.
func (r *reader) vector() {
	switch op := r.u32(); {
	case op <= 11, op == 92, op == 93: // loads and stores
		r.skip()
		r.skip()
	case op == 12, op == 13: // a constant, a shuffle
		r.take(16)
	case op >= 21 && op <= 34: // lanes
		r.take(1)
	case op >= 84 && op <= 91: // loads and stores of lanes
		r.skip()
		r.skip()
		r.take(1)
	case op > 255:
		r.failf("has the vector instruction %d, which is not of WebAssembly 2.0", op)
	}
}
