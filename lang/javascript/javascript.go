// Package javascript evaluates JavaScript and TypeScript on payloads, with an interpreter
// in this process.
//
// A function is a module that exports a function, as its default or as module.exports. It
// gets the payload and may be async. An expression sees the payload as self and, if it is
// a map, its keys as variables.
//
// Read [Language] first, then bundle.go, which makes one script when the workflow is
// compiled, program.go, which runs it, and runtime.go, which keeps runtimes. input.go and
// output.go convert between payloads and JavaScript values. guard*.go, regexp.go and
// rewrite.go limit a run; scan.go limits the compiler. isolated.go runs code in processes
// of its own, and worker.go is the other side; wire.go has their protocol.
//
// Invariants. A run sees nothing of other runs: the built-in objects of a runtime are
// frozen before the first run (bootstrap.js), and a module runs again each time, so its
// variables are new. Code cannot reach outside: there are no timers, processes, files or
// network, the bundler replaces require, and console writes to a log of the caller. An
// interrupt of one run cannot reach the next.
//
// Numbers: an integer within ±(2^53 - 1) is a number and comes back as an integer. A
// larger one is a BigInt and comes back as an integer too. Any integral number is an
// integer. A duration is a number of milliseconds, a time is a Date, a binary a
// Uint8Array. undefined is null.
//
// Limits apply to time, by the context and the timeout; the depth of calls; what one call
// of a native function may make or visit (see maxText); the time of a regular expression;
// the result; and the growth of the heap during a run. No limit applies to one operation
// on large operands, such as a product of BigInts with millions of digits, and to the
// growth of texts between two checks of the heap, every pollEvery. Isolated code is
// limited in these too. docs/workflows.md has the figures.
//
// Differences from other engines: all code is strict; prototypes and globals are frozen,
// but an object's own toString, constructor and the like can be assigned; eval is
// indirect; objects and arrays of the payload cannot be frozen or get accessors, but
// copies can.
//
// The package must not know nodes, processes or how documents are parsed.
package javascript

import (
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
)

// A Language compiles JavaScript or TypeScript. Make one with [New]; it is safe
// for concurrent use.
type Language struct {
	pool       *pool
	worker     []string
	typescript bool
}

// New returns JavaScript. worker is the command line, with a name first, with which the
// executable of this process calls [Serve] and then exits. Without it, code cannot be
// isolated.
func New(worker ...string) *Language { return &Language{pool: newPool(), worker: worker} }

// TypeScript returns TypeScript. Its programs share the runtimes of l. Types are removed,
// not checked.
func (l *Language) TypeScript() *Language {
	return &Language{pool: l.pool, worker: l.worker, typescript: true}
}

// Compile implements [lang.Language].
func (l *Language) Compile(code diag.Text, opts lang.Options) (lang.Program, error) {
	if opts.Mode == lang.ModeExpression {
		return l.compileExpression(code, opts)
	}
	return l.compileFunction(code, opts)
}
