package wasm

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	failedBit   = 1 << 31          // of the length of an answer that is an error
	startTime   = 10 * time.Second // for what a module does before its first call
	keptInput   = 64 << 10         // bytes of memory for a payload that an idle instance keeps
	abi         = 1
	mostNesting = 512
)

// An instance is a module with memory of its own. One goroutine at a time uses it.
//
// It is the context of the functions of the host, which costs nothing: a context with a value would
// be allocated for each call.
type instance struct {
	context.Context // never ends

	guest  *guest
	module api.Module
	memory api.Memory
	linear *linear

	alloc, function api.Function

	stack [2]uint64 // arguments and results
	input []byte

	// Of the call that runs.
	call     context.Context
	timeout  time.Duration
	deadline time.Time // zero until the module was asked for the first time
	asked    bool      // for the time, or for chance
	said     string    // the first error that it has written to the log
	logged   int
}

type instanceKey struct{}

// Value implements [context.Context].
func (i *instance) Value(key any) any {
	if key == (instanceKey{}) {
		return i
	}
	return nil
}

func (i *instance) begin(ctx context.Context, timeout time.Duration) {
	i.call, i.timeout, i.deadline, i.asked, i.said, i.logged = ctx, timeout, time.Time{}, false, "", 0
}

// instantiate makes an instance. What the module does then is bounded, as calls are.
func (g *guest) instantiate(ctx context.Context) (*instance, error) {
	i := &instance{Context: context.Background(), guest: g, linear: &linear{account: g.account, most: uint64(g.s.Memory)}}
	i.begin(ctx, startTime)
	if !i.linear.grow(uint64(g.least)) {
		return nil, &node.Error{Err: fmt.Errorf("no memory is left for %d bytes of an instance", g.least), Status: http.StatusServiceUnavailable, Code: "memory"}
	}
	if err := i.start(); err != nil {
		return nil, errors.Join(err, i.close())
	}
	return i, nil
}

func (i *instance) start() (err error) {
	g := i.guest
	i.module, err = g.program.runtime.InstantiateModule(experimental.WithMemoryAllocator(i, i.linear), g.program.code, i.config())
	switch {
	case err != nil:
		i.module = nil
		return i.failure("starting the module", err)
	case i.module.IsClosed():
		return errors.New("the module has ended while it was started")
	}
	i.memory = i.module.ExportedMemory("memory")
	i.alloc, i.function = i.module.ExportedFunction(allocName), i.module.ExportedFunction(g.s.Function)
	if err := i.module.ExportedFunction(abiName).CallWithStack(i, i.stack[:]); err != nil {
		return i.failure(abiName, err)
	}
	if got := uint32(i.stack[0]); got != abi {
		return fmt.Errorf("the module has the version %d of the interface, this program has version %d: build it with the files for that", got, abi)
	}
	if g.config == nil {
		return nil
	}
	answer, failed, err := i.send(i.module.ExportedFunction(configName), configName, g.config)
	if err == nil && failed {
		err = fmt.Errorf("the module refuses its config: %w", i.ownError(answer))
	}
	return err
}

func (i *instance) close() (err error) {
	if i.module != nil {
		err = i.module.Close(context.Background())
	}
	i.linear.Free() // of an instance that was never started, or again
	return err
}

// answer calls the module with a payload. An instance that is not good any more must be closed.
func (i *instance) answer(ctx context.Context, payload value.Value) (r node.Result, good bool) {
	i.begin(ctx, i.guest.s.Timeout)
	defer func() { i.call = nil }()
	in, err := payload.AppendJSON(i.input[:0])
	if err != nil {
		return node.Fail(node.Unusable("payload", err)), true
	}
	if cap(in) <= keptInput {
		i.input = in
	}
	if most := i.guest.s.Memory; int64(len(in)) > most {
		return node.Fail(node.Unusable("payload", fmt.Errorf("the payload has %d bytes, and the memory of the module %d at most: raise memory", len(in), most))), true
	}
	out, failed, err := i.send(i.function, i.guest.s.Function, in)
	if err != nil {
		return node.Fail(err), false
	}
	if failed {
		return node.Fail(i.ownError(out)), true
	}
	v, err := value.ParseJSON(out)
	if err != nil {
		return node.Fail(i.bad("%s returned %d bytes that are not JSON: %v", i.guest.s.Function, len(out), err)), false
	}
	return node.Send(0, v), true
}

// send calls a function with bytes, and returns its answer, which is in the memory of the module
// until the next call, and whether that is an error.
func (i *instance) send(f api.Function, name string, in []byte) (out []byte, failed bool, err error) {
	i.stack[0] = uint64(len(in))
	if err := i.alloc.CallWithStack(i, i.stack[:]); err != nil {
		return nil, false, i.failure(allocName, err)
	}
	at := uint32(i.stack[0])
	if at == 0 || !i.memory.Write(at, in) {
		return nil, false, i.bad("%s returned %#x for %d bytes, which is not in its memory of %d bytes", allocName, at, len(in), i.memory.Size())
	}
	i.stack[0], i.stack[1] = uint64(at), uint64(len(in))
	if err := f.CallWithStack(i, i.stack[:]); err != nil {
		return nil, false, i.failure(name, err)
	}
	at, n := uint32(i.stack[0]>>32), uint32(i.stack[0])&^failedBit
	failed = i.stack[0]&failedBit != 0
	if i.stack[0] == 0 && name == configName {
		return nil, false, nil
	}
	out, ok := i.memory.Read(at, n)
	if !ok {
		return nil, false, i.bad("%s returned %d bytes at %#x, which are not in its memory of %d bytes", name, n, at, i.memory.Size())
	}
	return out, failed, nil
}

// A linear is the memory of an instance. It grows by a quarter at a time, so that a module that asks
// for a page again and again does not copy all that it has each time.
type linear struct {
	account *node.Account
	most    uint64
	bytes   []byte
}

// Allocate implements [experimental.MemoryAllocator]. The memory to begin with is there already.
func (l *linear) Allocate(_, most uint64) experimental.LinearMemory {
	l.most = min(l.most, most)
	return l
}

// Reallocate implements [experimental.LinearMemory]: nil makes the growth fail in the module.
func (l *linear) Reallocate(size uint64) []byte {
	if size > l.most || size > uint64(cap(l.bytes)) && !l.grow(min(l.most, max(size, uint64(cap(l.bytes))*5/4))) && !l.grow(size) {
		return nil
	}
	l.bytes = l.bytes[:size]
	return l.bytes
}

// grow makes room, and reports whether there is some.
func (l *linear) grow(size uint64) bool {
	if !l.account.Take(int64(size) - int64(cap(l.bytes))) {
		return false
	}
	bytes := make([]byte, len(l.bytes), size)
	copy(bytes, l.bytes)
	l.bytes = bytes
	return true
}

// Free implements [experimental.LinearMemory].
func (l *linear) Free() {
	l.account.Free(int64(cap(l.bytes)))
	l.bytes = nil
}
