//go:build wasip1

// Package uniflow is what a module in Go needs to be called by Uniflow. Copy it into your module.
package uniflow

import (
	"encoding/json"
	"errors"
	"unsafe"
)

// An Error of your function has more to say than a message. It becomes the error of the node.
type Error struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`   // for programs
	Status  int    `json:"status,omitempty"` // the status of HTTP for a client
	Public  bool   `json:"public,omitempty"` // a client may see the message
	Data    any    `json:"data,omitempty"`   // details for programs
}

func (e *Error) Error() string { return e.Message }

var (
	input, output []byte
	call, config  func(in []byte) ([]byte, error)
)

// A Done is the result of what is called to make a variable: main does not run in a module.
type Done struct{}

// Handle makes f what uniflow_call calls.
func Handle[In, Out any](f func(In) (Out, error)) Done {
	call = typed(f)
	return Done{}
}

// Configure makes f what gets the field config, once, before the first call.
func Configure[In any](f func(In) error) Done {
	config = typed(func(in In) (any, error) { return nil, f(in) })
	return Done{}
}

func typed[In, Out any](f func(In) (Out, error)) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		var in In
		if err := json.Unmarshal(text, &in); err != nil {
			return nil, err
		}
		out, err := f(in)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
}

//go:wasmexport uniflow_abi
func abi() int32 { return 1 }

//go:wasmexport uniflow_alloc
func alloc(n uint32) unsafe.Pointer {
	if int(n) > cap(input) || input == nil {
		input = make([]byte, max(n, 1024))
	}
	return unsafe.Pointer(unsafe.SliceData(input))
}

//go:wasmexport uniflow_call
func uniflowCall(_ unsafe.Pointer, n uint32) uint64 { return answer(call, n) }

//go:wasmexport uniflow_config
func uniflowConfig(_ unsafe.Pointer, n uint32) uint64 {
	if config == nil {
		return 0
	}
	return answer(config, n)
}

const failed = 1 << 31

func answer(f func([]byte) ([]byte, error), n uint32) uint64 {
	out, err := f(input[:n])
	flag := uint64(0)
	if err != nil {
		var e *Error
		if !errors.As(err, &e) {
			e = &Error{Message: err.Error()}
		}
		flag = failed
		if out, err = json.Marshal(e); err != nil {
			out = []byte(`{"message":"the data of an error is not JSON"}`)
		}
	}
	output = out // stays until the next call
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(out))))<<32 | uint64(len(out)) | flag
}

//go:wasmimport uniflow log
func log(level int32, text unsafe.Pointer, n uint32)

// Log writes to the log of the node. Levels: 0 debug, 1 info, 2 warn, 3 error.
func Log(level int, text string) {
	log(int32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}
