package wasm

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	shownFrames = 8 // of the stack of a module, in a message
	mostStatus  = 599
)

// failure returns the error of a call that did not return: with the code trap, timeout or exit,
// and with the functions of the module that were running as data.stack.
func (i *instance) failure(what string, err error) error {
	text, stack := split(err)
	fail := func(code, format string, args ...any) error {
		message := what + ": " + fmt.Sprintf(format, args...)
		if i.said != "" {
			message += ": " + i.said
		}
		if len(stack) > 0 {
			message += " (in " + strings.Join(stack[:min(len(stack), shownFrames)], ", in ") + ")"
		}
		names := make([]value.Value, len(stack))
		for at, name := range stack {
			names[at] = value.String(name)
		}
		return &node.Error{Err: errors.New(message), Code: code, Data: value.Map(value.Field{Name: "stack", Value: value.List(names...)})}
	}
	var exit *sys.ExitError
	var stop *stopped
	switch {
	case errors.As(err, &exit):
		return fail("exit", "the module ended itself with the status %d", exit.ExitCode())
	case errors.Is(err, errTimeout):
		return fail("timeout", "the module took longer than %v", i.timeout)
	case errors.As(err, &stop) && (i.call.Err() != nil || i.guest.closing.Load()):
		return stop.err // of the process
	}
	return fail("trap", "the module trapped: %s", text)
}

// bad returns the error of a module that breaks the rules of the interface.
func (i *instance) bad(format string, args ...any) error {
	return &node.Error{Err: fmt.Errorf(format, args...), Code: "answer"}
}

// split returns the message of an error of the runtime, and the names in its stack.
func split(err error) (text string, stack []string) {
	text, trace, _ := strings.Cut(err.Error(), "\nwasm stack trace:\n")
	text = strings.TrimSuffix(strings.TrimPrefix(text, "wasm error: "), " (recovered by wazero)")
	trace, _, _ = strings.Cut(trace, "\n\n") // a stack of Go follows
	for line := range strings.Lines(trace) {
		name := strings.TrimSpace(line)
		if at := strings.LastIndexByte(name, '('); at > 0 { // its parameters
			name = name[:at]
		}
		name = strings.TrimPrefix(name, ".") // the name of the module, which is empty
		if name != "" && name != hostModule+"."+interruptName {
			stack = append(stack, readable(name))
		}
	}
	return text, stack
}

// ownError returns the error that a function has answered: a map with message, and code, status,
// public, permanent and data if it has more to say.
func (i *instance) ownError(answer []byte) error {
	v, err := value.ParseJSON(answer)
	if err != nil {
		return i.bad("the module reports an error that is not JSON: %v", err)
	}
	field := func(name string) value.Value {
		f, _ := v.Get(name)
		return f
	}
	message, ok := field("message").AsString()
	if !ok || message == "" {
		return i.bad("the module reports an error without a message")
	}
	e := &node.Error{Err: errors.New(message), Data: field("data")}
	e.Code, _ = field("code").AsString()
	if status, ok := field("status").AsInt(); ok && status >= 100 && status <= mostStatus {
		e.Status = int(status)
	}
	e.Public = field("public").Truth()
	e.Permanent = field("permanent").Truth()
	return e
}

// readable returns a name as it is written in Rust: _ZN5price4call17h0123456789abcdefE is price::call. Other
// names stay as they are.
func readable(name string) string {
	rest, ok := strings.CutPrefix(name, "_ZN")
	if !ok {
		return name
	}
	var parts []string
	for rest != "E" {
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		n, err := strconv.Atoi(rest[:digits])
		if err != nil || n > len(rest)-digits {
			return name
		}
		parts = append(parts, rest[digits:digits+n])
		rest = rest[digits+n:]
	}
	if last := len(parts) - 1; last > 0 && len(parts[last]) == 17 && parts[last][0] == 'h' { // a hash
		parts = parts[:last]
	}
	return strings.Join(parts, "::")
}
