// Package javascript evaluates JavaScript and TypeScript on payloads, in an
// interpreter inside of the process.
//
// A function is a module that exports one, as its default or as module.exports;
// it is given the payload and may be async. An expression sees the payload as
// self and, if it is a map, its keys as variables.
//
// Read [Language] first, then bundle.go, which turns the code into one script
// when the workflow is compiled, then program.go, which runs it, and runtime.go,
// which keeps the runtimes that it runs in. input.go and output.go are how
// payloads and JavaScript's values become one another. What bounds a run is in
// guard.go and its neighbours, regexp.go and rewrite.go; what bounds the compiler
// is in scan.go. isolated.go runs code in processes of its own, for which worker.go
// is the other side; wire.go is what they say to one another.
//
// Invariants. A run sees nothing that another has left behind: everything that
// a runtime has by itself is frozen before the first run (bootstrap.js), and a
// module runs anew each time, so its variables are fresh. Code has no way out:
// there is no timer, no process, no file and no network, require is bundled away,
// and console writes to a log that the caller gives. An interrupt that one run
// causes cannot reach the next.
//
// Numbers: an integer within ±(2^53 - 1) is a number and comes back as an
// integer; one beyond is a BigInt and comes back as an integer too; any number
// of JavaScript that is integral is an integer. A duration is a number of
// milliseconds, a time a Date, a binary a Uint8Array. undefined is null.
//
// What is bounded: time, by the context and the timeout; the depth of calls; what
// a single call of a native function may make or visit (see maxText); the time of
// a regular expression; the result; and how much the heap of the process may grow
// meanwhile. What is not: one operation on large operands, such as a product of
// two BigInts of millions of digits, and how large texts get between two looks at
// the heap, which are pollEvery apart. Isolated code is bounded in these, too. docs/workflows.md has the figures.
//
// What differs from other engines: all code is strict; prototypes and globals
// are frozen, though an object's own toString, constructor and the like can be
// assigned; eval is indirect; objects and arrays of the payload cannot be frozen
// or given accessors, copies of them can.
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

// New returns JavaScript. worker is the command line, beginning with a name, with
// which the executable of this process calls [Serve] and then exits. Without it, no
// code can be isolated.
func New(worker ...string) *Language { return &Language{pool: newPool(), worker: worker} }

// TypeScript returns TypeScript, whose programs share their runtimes with l's.
// Types are taken out, not checked.
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
