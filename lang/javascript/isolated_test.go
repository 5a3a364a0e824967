package javascript

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// isolate isolates a function until the test ends.
func isolate(t testing.TB, code string, opts lang.Options) *isolated {
	t.Helper()
	p, err := New(workerName).Isolate(diag.PlainText(code), opts)
	if err != nil {
		t.Fatalf("isolate %s: got error %v", code, err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p.(*isolated)
}

// pids returns the process IDs of the idle workers.
func (p *isolated) pids() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	var pids []int
	for _, w := range p.mu.idle {
		pids = append(pids, w.cmd.Process.Pid)
	}
	return pids
}

func wantPid(t *testing.T, p *isolated) int {
	t.Helper()
	pids := p.pids()
	if len(pids) != 1 {
		t.Fatalf("got idle workers %v, want one", pids)
	}
	return pids[0]
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

// A function returns the same value in a worker and in this process.
func TestIsolatedValues(t *testing.T) {
	whole := isolate(t, "export default i => i", lang.Options{})
	part := isolate(t, "export default i => ({ part: i.part })", lang.Options{})
	zone := time.FixedZone("XYZ", 5400)
	f := func(v value.Value) {
		t.Helper()
		for _, want := range []value.Value{v, value.Map(value.Field{Name: "part", Value: v})} {
			p := lang.Program(whole)
			if v.Kind() != want.Kind() || v.Kind() == value.KindMap {
				p = part
			}
			here := compile(t, language, "export default i => i", lang.Options{})
			if p == part {
				here = compile(t, language, "export default i => ({ part: i.part })", lang.Options{})
			}
			got, err := p.Eval(t.Context(), want)
			same, errHere := here.Eval(t.Context(), want)
			if err != nil || errHere != nil || !got.Equal(same) || got.Kind() != same.Kind() || got.String() != same.String() {
				t.Errorf("%s %s: got %s %s, %v, want %s %s, %v", want.Kind(), want, got.Kind(), got, err, same.Kind(), same, errHere)
			}
		}
	}
	f(value.Null())
	f(value.Bool(true))
	f(value.Bool(false))
	f(value.Int(-1))
	f(value.Int(1<<53 + 1))
	f(value.Int(-1 << 63))
	f(value.Uint(1<<64 - 1))
	f(value.Float(0.1))
	f(value.Float(-5e300))
	f(value.Duration(1500 * time.Millisecond))
	f(value.Time(time.Date(2024, 2, 29, 23, 59, 59, 123456789, time.UTC)))
	f(value.List(value.Time(time.Date(1900, 1, 1, 0, 0, 0, 5, zone)))) // unchanged, with its zone
	f(value.List(value.Duration(1), value.Float(3), value.Binary([]byte{0, 255})))
	f(value.String(""))
	f(value.String("a\x00é\xff"))
	f(value.Binary([]byte{0, 1, 255}))
	f(value.List())
	f(value.Map())
	f(value.List(value.Map(value.Field{Name: "b", Value: value.Int(1)}, value.Field{Name: "a", Value: value.List(value.Null())})))
	f(fromJSON(t, `{"part": {"z": 1, "a": [1.5, "x", {"": null}]}}`))
	deep := value.List()
	for range 900 {
		deep = value.List(deep)
	}
	f(deep)
	f(value.String(strings.Repeat("long ", 1<<20)))
}

// An error of the payload stays the same error; an error made by the code is the same as
// in this process.
func TestIsolatedErrorValues(t *testing.T) {
	first, second := errors.New("first"), &lang.Thrown{Message: "second", Status: 404, Code: "gone", Public: true}
	in := value.List(value.Error(first), value.Map(value.Field{Name: "e", Value: value.Error(second)}))
	p := isolate(t, "export default i => [i[1].e, i[0], i[1].e.status, i[0].message, Object.assign(new Error('third'), {status: 418, code: 'tea', public: true})]", lang.Options{})
	got, err := p.Eval(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	if e := got.At(0).AsError(); e != second {
		t.Errorf("got %#v, want the second error itself", e)
	}
	if e := got.At(1).AsError(); e != first {
		t.Errorf("got %#v, want the first error itself", e)
	}
	if !got.At(2).Equal(value.Int(404)) || !got.At(3).Equal(value.String("first")) {
		t.Errorf("got %s, want 404 and first", got)
	}
	var third *lang.Thrown
	if !errors.As(got.At(4).AsError(), &third) || *third != (lang.Thrown{Message: "third", Status: 418, Code: "tea", Public: true}) {
		t.Errorf("got %#v, want the third error with its fields", got.At(4).AsError())
	}
}

// No limit in a process stops these: the timeout or the memory limit ends the worker, this
// process stays small, and the next evaluation works.
func TestIsolatedAttacks(t *testing.T) {
	f := func(limit time.Duration, code, want string) {
		t.Helper()
		p := isolate(t, "export default i => { if (i === 'well?') return 'well'; "+code+" }", lang.Options{Timeout: limit})
		began := time.Now()
		before := allocated()
		_, err := p.Eval(t.Context(), fromJSON(t, `{"n": 300000000}`))
		took, grown := time.Since(began), allocated()-before
		t.Logf("%8s %3d MiB allocated here: %v: %s", took.Round(time.Millisecond), grown>>20, err, code)
		var timeout *lang.Timeout
		if err == nil || errors.As(err, &timeout) != (want == "") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want a timeout or %q", code, err, want)
		}
		if took > 30*time.Second { // 30 times the short timeout
			t.Errorf("%s: got an answer after %v", code, took)
		}
		if grown > 64<<20 {
			t.Errorf("%s: %d bytes were allocated in this process", code, grown)
		}
		if got, err := p.Eval(t.Context(), value.String("well?")); err != nil || !got.Equal(value.String("well")) {
			t.Errorf("%s: then got %v, %v, want an answer", code, got, err)
		}
	}
	f(time.Second, "for (;;);", "")
	f(time.Second, "return String(Function('n', 'return 3n ** n')(BigInt(i.n)) % 7n)", "")
	f(time.Second, "const t = '9'.repeat(30000000); return 1n < t", "")
	f(300*time.Millisecond, "let x = 1n << 1000000n; for (let k = 0; k < 9; k++) x *= x; return String(x).length", "")
	if !invariant.Race { // with it, memory is not limited
		f(20*time.Second, "return String(Function('n', 'return 1n << n')(BigInt(i.n) * 100n) % 7n)", "memory")
	}
}

// allocated returns how many bytes this process has allocated so far.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// Errors are the same as without isolation: the message, the place in the document
// or in an imported file, and what the code has set.
func TestIsolatedErrors(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "other.ts"), []byte("export const fail = (x: number) => {\n  throw new Error('there')\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := func(code string) {
		t.Helper()
		opts := lang.Options{Timeout: 20 * time.Second}
		if strings.Contains(code, "for (;;)") || strings.Contains(code, "new Promise") { // no other ends by its timeout
			opts.Timeout = 200 * time.Millisecond
		}
		starts := make([]diag.Pos, 1+strings.Count(code, "\n"))
		for i := range starts {
			starts[i] = diag.Pos{File: filepath.Join(dir, "flow.yaml"), Line: 10 + i, Col: 5}
		}
		text := diag.NewText(code, filepath.Join(dir, "flow.yaml"), starts[0], starts)
		var want, got error
		here, want := New().TypeScript().Compile(text, opts)
		there, got := New(workerName).TypeScript().Isolate(text, opts)
		if want == nil && got == nil {
			_, want = here.Eval(t.Context(), value.Int(1))
			_, got = there.Eval(t.Context(), value.Int(1))
			if err := there.Close(); err != nil {
				t.Error(err)
			}
		}
		if want == nil || got == nil || got.Error() != want.Error() {
			t.Errorf("%s:\n got %v\nwant %v", code, got, want)
			return
		}
		var a, b *lang.Thrown
		if errors.As(want, &a) != errors.As(got, &b) || a != nil && *a != *b {
			t.Errorf("%s:\n got %+v\nwant %+v", code, b, a)
		}
		if errors.Is(want, context.DeadlineExceeded) != errors.Is(got, context.DeadlineExceeded) {
			t.Errorf("%s: got %v, want %v", code, got, want)
		}
		var d, e *diag.Diagnostic
		if errors.As(want, &d) != errors.As(got, &e) || d != nil && (d.Pos != e.Pos || d.Hint != e.Hint || d.Code != e.Code) {
			t.Errorf("%s:\n got %+v\nwant %+v", code, e, d)
		}
	}
	f("export default i => {\n  throw Object.assign(new Error('no'), {status: 409, code: 'busy', public: true})\n}")
	f("export default i => {\n  return i.a.b\n}")
	f("import {fail} from './other'\nexport default i => fail(i)")
	f("export default async i => { throw 'text' }")
	f("export default function g(n) { return g(n + 1) }")
	f("export default i => { for (;;); }")
	f("export default i => Symbol('x')")
	f("export default i => new Promise(() => {})")
	f("export default i => (")
	f("const a = 1")
	f("export default 7")
	f("\nnull.x\nexport default i => i")
	f("for (;;);\nexport default i => i")
	f("import x from './none'\nexport default i => x")
}

func TestIsolatedNeedsWorker(t *testing.T) {
	_, err := New().Isolate(diag.PlainText("export default i => i"), lang.Options{})
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != diag.CodeBadValue || d.Hint == "" {
		t.Errorf("got %v, want a diagnostic with a hint", err)
	}
	if _, err := New("no-such-worker", "-test.run=^$").Isolate(diag.PlainText("export default i => i"), lang.Options{}); err == nil {
		t.Error("got a program whose worker does not work, want an error")
	}
}

// A worker that was killed between two evaluations is replaced. If it is killed during an
// evaluation, that begins again.
func TestIsolatedKilled(t *testing.T) {
	log := &syncLog{more: make(chan struct{}, 1)}
	p := isolate(t, "export default i => { if (i === 1) return i; console.log('begun', i); for (;;); }", lang.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	answer := func() {
		t.Helper()
		if got, err := p.Eval(t.Context(), value.Int(1)); err != nil || !got.Equal(value.Int(1)) {
			t.Fatalf("got %v, %v, want 1", got, err)
		}
	}
	answer()
	first := wantPid(t, p)
	answer()
	if again := wantPid(t, p); again != first {
		t.Errorf("got worker %d, want %d again", again, first)
	}
	p.mu.idle[0].kill()
	if _, err := p.mu.idle[0].out.Peek(1); err == nil { // wait until it has ended
		t.Fatal("got an answer to nothing")
	}
	answer()
	second := wantPid(t, p)
	if second == first || alive(first) {
		t.Errorf("got worker %d after %d was killed, which is alive: %v", second, first, alive(first))
	}

	w := p.mu.idle[0]
	gone := errors.New("the client has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	var evaluation sync.WaitGroup
	evaluation.Go(func() {
		if _, err := p.Eval(ctx, value.Int(2)); !errors.Is(err, gone) {
			t.Errorf("got %v, want %v", err, gone)
		}
	})
	<-log.more
	w.kill()
	<-log.more // again, in another worker
	cancel(gone)
	evaluation.Wait()
	if n := strings.Count(log.String(), `msg="begun 2" from=console`); n != 2 {
		t.Errorf("got log %q, want what the script wrote twice", log.String())
	}
	answer()
	if third := wantPid(t, p); third == second || alive(second) {
		t.Errorf("got worker %d after %d was killed, which is alive: %v", third, second, alive(second))
	}
}

// A syncLog reports writes on a channel.
type syncLog struct {
	sync.Mutex
	strings.Builder
	more chan struct{}
}

func (l *syncLog) Write(p []byte) (int, error) {
	l.Lock()
	defer l.Unlock()
	defer func() {
		select {
		case l.more <- struct{}{}:
		default:
		}
	}()
	return l.Builder.Write(p)
}

func (l *syncLog) String() string {
	l.Lock()
	defer l.Unlock()
	return l.Builder.String()
}

// An evaluation ends when its context does, or Close is called. After Close there are no
// processes and no evaluations.
func TestIsolatedStopped(t *testing.T) {
	log := &syncLog{more: make(chan struct{}, 1)}
	p := isolate(t, "export default i => { console.log(i); while (i > 1); return i }", lang.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	gone := errors.New("the client has left")
	hang := func(ctx context.Context, want error, end func()) {
		t.Helper()
		var evaluation sync.WaitGroup
		evaluation.Go(func() {
			if _, err := p.Eval(ctx, value.Int(2)); !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
		})
		<-log.more
		end()
		evaluation.Wait()
	}
	if _, err := p.Eval(t.Context(), value.Int(1)); err != nil {
		t.Fatal(err)
	}
	<-log.more
	first := wantPid(t, p)
	ctx, cancel := context.WithCancelCause(t.Context())
	hang(ctx, gone, func() { cancel(gone) })
	if alive(first) {
		t.Errorf("worker %d is alive after its evaluation was cancelled", first)
	}
	if _, err := p.Eval(ctx, value.Int(1)); !errors.Is(err, gone) {
		t.Errorf("got %v, want %v", err, gone)
	}

	if _, err := p.Eval(t.Context(), value.Int(1)); err != nil {
		t.Fatal(err)
	}
	<-log.more
	idle := wantPid(t, p)
	hang(t.Context(), errClosed, func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	if pids := p.pids(); len(pids) > 0 || alive(idle) {
		t.Errorf("got workers %v, worker %d alive: %v, want none after Close", pids, idle, alive(idle))
	}
	if _, err := p.Eval(t.Context(), value.Int(1)); !errors.Is(err, errClosed) {
		t.Errorf("got %v, want %v", err, errClosed)
	}
}

func TestIsolatedInherits(t *testing.T) {
	t.Setenv("SECRET_OF_THE_PARENT", "hunter2")
	p := isolate(t, "export default i => i", lang.Options{})
	if _, err := p.Eval(t.Context(), value.Int(1)); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS != "linux" {
		return // other systems have no such list
	}
	proc := filepath.Join("/proc", value.Int(int64(wantPid(t, p))).String())
	env, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil || strings.Contains(string(env), "SECRET") || !strings.Contains(string(env), "GOMAXPROCS=1") {
		t.Errorf("got environment %q, %v, want none of this process", env, err)
	}
	if dir, err := os.Readlink(filepath.Join(proc, "cwd")); err != nil || dir != "/" {
		t.Errorf("got working folder %q, %v, want /", dir, err)
	}
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, err := os.Readlink(filepath.Join(proc, "fd", f.Name()))
		if err == nil && !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "anon_inode:") && !strings.HasPrefix(to, "/sys/") {
			t.Errorf("got file %s as %s, want no files", to, f.Name())
		}
	}
}

// Concurrent evaluations use at most GOMAXPROCS workers.
func TestIsolatedConcurrently(t *testing.T) {
	p := isolate(t, "let n = 0; export default i => i + ++n", lang.Options{})
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			got, err := p.Eval(t.Context(), value.Int(int64(i)))
			if err != nil || !got.Equal(value.Int(int64(i+1))) {
				t.Errorf("got %v, %v, want %d", got, err, i+1)
			}
		})
	}
	all.Wait()
	if n := len(p.pids()); n < 1 || n > runtime.GOMAXPROCS(0) {
		t.Errorf("got %d workers, want at most %d", n, runtime.GOMAXPROCS(0))
	}
}

func BenchmarkIsolated(b *testing.B) {
	run := func(name string, in value.Value, p lang.Program) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Eval(b.Context(), in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	const code = "export default i => ({ status: 200, body: i })"
	small, large := payload(), value.String(strings.Repeat("a", 1<<20))
	here, there := compile(b, language, code, lang.Options{Timeout: time.Minute}), isolate(b, code, lang.Options{Timeout: time.Minute})
	run("small/here", small, here)
	run("small/isolated", small, there)
	run("1MiB/here", large, here)
	run("1MiB/isolated", large, there)
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			w, err := there.start(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			_ = w.end() // it was killed
		}
	})
}
