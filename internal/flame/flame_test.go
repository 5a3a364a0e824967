package flame

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

// A met is a stack that a made profile has.
type met struct {
	owner string // NODE KIND NAMESPACE, or empty
	stack string // outermost first, separated by blanks
	ms    int64
}

// makeProfile returns a profile of a second, one sample for each 10 ms.
func makeProfile(all ...met) *profile.Profile {
	p := &profile.Profile{
		SampleType:    []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType:    &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:        1e7,
		DurationNanos: 1e9,
	}
	at := make(map[string]*profile.Location)
	for _, m := range all {
		s := &profile.Sample{Value: []int64{m.ms / 10, m.ms * 1e6}}
		if owner := strings.Fields(m.owner); len(owner) == 3 {
			s.Label = map[string][]string{"node": {owner[0]}, "kind": {owner[1]}, "namespace": {owner[2]}}
		}
		for _, name := range strings.Fields(m.stack) {
			loc := at[name]
			if loc == nil {
				id := uint64(len(p.Function) + 1)
				f := &profile.Function{ID: id, Name: name}
				loc = &profile.Location{ID: id, Address: id, Line: []profile.Line{{Function: f}}}
				p.Function, p.Location = append(p.Function, f), append(p.Location, loc)
				at[name] = loc
			}
			s.Location = append([]*profile.Location{loc}, s.Location...)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

func encode(tb testing.TB, p *profile.Profile) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		tb.Fatal(err)
	}
	return b.Bytes()
}

func read(t *testing.T, made *profile.Profile) *Profile {
	t.Helper()
	p, err := Read(bytes.NewReader(encode(t, made)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func small() *profile.Profile {
	const js, list = "pong snippet default", "in listener default"
	return makeProfile(
		met{js, "net/http.(*conn).serve example.com/js.Run runtime.mallocgc", 300},
		met{js, "net/http.(*conn).serve example.com/js.Run", 100},
		met{js, "net/http.(*conn).serve example.com/js.Run example.com/js.Run", 50},
		met{list, "net/http.(*conn).serve syscall.Write", 200},
		met{"pong snippet other", "example.com/js.Run", 40},
		met{"", "runtime.gcBgMarkWorker runtime.scanobject", 30},
		met{"", "runtime.mcall runtime.findRunnable", 20},
		met{"", "net/http.(*Server).Serve net.accept", 10},
	)
}

func TestNodes(t *testing.T) {
	p := read(t, small())
	if p.Samples != 75 || p.CPU != 750*time.Millisecond || p.Wall != time.Second {
		t.Errorf("got %d samples, %v in %v, want 75, 750ms in 1s", p.Samples, p.CPU, p.Wall)
	}
	if got, want := p.Summary(), "75 samples, 750 ms of CPU in 1.00 s: 0.75 processors"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var got []string
	for _, r := range p.Nodes() {
		got = append(got, fmt.Sprintf("%s %s %s %v %.3f %v", r.Node, r.Kind, r.Namespace, r.Time, r.Share, r.Functions))
	}
	want := []string{
		"pong snippet default 450ms 0.600 [{example.com/js.Run 450ms 1}]",
		"in listener default 200ms 0.267 [{net/http.(*conn).serve 200ms 1}]",
		"pong snippet other 40ms 0.053 [{example.com/js.Run 40ms 1}]",
		"(garbage collection)   30ms 0.040 [{runtime.scanobject 30ms 1}]",
		"(runtime)   20ms 0.027 [{runtime.findRunnable 20ms 1}]",
		"(outside)   10ms 0.013 [{net.accept 10ms 1}]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestKinds(t *testing.T) {
	got := read(t, small()).Kinds()[:3]
	want := []KindRow{
		{Kind: "snippet", Time: 490e6, Share: 490. / 750, Count: 2, Nodes: []Part{{"pong", 490e6, 1}}},
		{Kind: "listener", Time: 200e6, Share: 200. / 750, Count: 1, Nodes: []Part{{"in", 200e6, 1}}},
		{Kind: "(garbage collection)", Time: 30e6, Share: 30. / 750},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFunctions(t *testing.T) {
	got := read(t, small()).Functions()
	want := []FunctionRow{
		{"runtime.mallocgc", 300e6, 0.4, 300e6, 0.4, Owner{"pong", "snippet", "default"}, 1},
		{"syscall.Write", 200e6, 200. / 750, 200e6, 200. / 750, Owner{"in", "listener", "default"}, 1},
		{"example.com/js.Run", 190e6, 190. / 750, 490e6, 490. / 750, Owner{"pong", "snippet", "default"}, 450. / 490}, // counted once though it calls itself
	}
	if !reflect.DeepEqual(got[:3], want) {
		t.Errorf("got %+v, want %+v", got[:3], want)
	}
	if last := got[len(got)-1]; last.Function != "net/http.(*Server).Serve" || last.Flat != 0 || last.Cumulative != 10e6 {
		t.Errorf("got %+v at the end, want net/http.(*Server).Serve", last)
	}
}

func TestOwners(t *testing.T) {
	f := func(want, stack string) {
		t.Helper()
		p := read(t, makeProfile(met{"", stack, 10}))
		if got := p.Nodes()[0].Node; got != want {
			t.Errorf("%s: got %s, want %s", stack, got, want)
		}
	}
	f(Collector, "runtime.gcBgMarkWorker runtime.systemstack runtime.gcDrain")
	f(Collector, "runtime.bgsweep")
	f(Collector, "runtime._GC")
	f(Collector, "main.main runtime.GC runtime.gcStart")
	f(Runtime, "runtime.mcall runtime.park_m runtime.schedule internal/runtime/atomic.Load")
	f(Runtime, "runtime._ExternalCode")
	f(Runtime, "")
	f(Profiling, "runtime/pprof.profileWriter runtime/pprof.(*profileBuilder).addCPUData")
	f(Profiling, "net/http.(*conn).serve runtime/pprof.Do runtime/pprof.Do.func1 runtime/pprof.StopCPUProfile")
	f(Outside, "runtime/pprof.Do example.com/batch.(*sender).request")
	f(Outside, "example.com/x.Work runtime/pprof.SetGoroutineLabels")
	f(Outside, "main.main example.com/x.Work runtime.gcAssistAlloc")
	f(Outside, "example.com/runtime.Work")
}

func TestShort(t *testing.T) {
	f := func(name, short, path string) {
		t.Helper()
		if s, p := Short(name), PackageOf(name); s != short || p != path {
			t.Errorf("%s: got %q of %q, want %q of %q", name, s, p, short, path)
		}
	}
	f("net/http.(*conn).serve", "net/http.(*conn).serve", "net/http")
	f("main.main", "main.main", "main")
	f("github.com/a/b.(*T).M.func1", "b.(*T).M.func1", "github.com/a/b")
	f("github.com/a/b/v2.F", "b/v2.F", "github.com/a/b/v2")
	f("gopkg.in/yaml%2ev3.Decode", "yaml.v3.Decode", "gopkg.in/yaml.v3")
	f("slices.SortFunc[go.shape.[]github.com/a/b.T,go.shape.int]", "slices.SortFunc[…]", "slices")
	f("example.com/x.(*Set[...]).Add", "x.(*Set[…]).Add", "example.com/x")
	f("0x4f", "0x4f", "")
	f("(unknown)", "(unknown)", "")
	f("]a.b[", "]a.b[…]", "]a")
	f(".", ".", "")
	f("", "", "")
}

// TestReal reads what the runtime writes, labels among it.
func TestReal(t *testing.T) {
	for d := 100 * time.Millisecond; ; d *= 2 { // until this process gets a processor for long enough
		var b bytes.Buffer
		if err := pprof.StartCPUProfile(&b); err != nil {
			t.Fatal(err)
		}
		pprof.Do(t.Context(), pprof.Labels("node", "busy", "kind", "snippet", "namespace", "default"), func(context.Context) { burn(d) })
		pprof.StopCPUProfile()
		p, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		rows := p.Nodes()
		if len(rows) > 0 && rows[0].Owner == (Owner{"busy", "snippet", "default"}) && strings.Contains(rows[0].Functions[0].Name, "flame.burn") {
			return
		}
		if d > 2*time.Second {
			t.Fatalf("got %+v, want what burn has spent for busy", rows)
		}
	}
}

func burn(d time.Duration) (sum float64) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		for i := range 100000 {
			sum += math.Sqrt(float64(i))
		}
	}
	return sum
}

func TestReadErrors(t *testing.T) {
	f := func(data []byte, want error, message string) {
		t.Helper()
		p, err := Read(bytes.NewReader(data))
		if p != nil || !errors.Is(err, want) || !strings.Contains(err.Error(), message) {
			t.Errorf("%.20q: got %v, %v, want %v: %s", data, p, err, want, message)
		}
	}
	f(nil, ErrFormat, "not a profile")
	f([]byte("<html>"), ErrFormat, "not a profile")
	f([]byte{0x1f, 0x8b, 0}, ErrFormat, "not a profile")
	f(encode(t, small())[:40], ErrFormat, "unexpected EOF")
	heap := small()
	heap.SampleType = []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"}}
	f(encode(t, heap), ErrNotCPU, "it holds alloc_objects, alloc_space")
	f(encode(t, &profile.Profile{}), ErrFormat, "")
	large := makeProfile(met{"", "main.main", 10}, met{"", "main.main", 10})
	large.Sample[0].Value[1] = math.MaxInt64
	f(encode(t, large), ErrFormat, "more time than there is")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 3<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := readUpTo(&packed, 2<<20); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "more than 2 MiB") {
		t.Errorf("got %v, want it refused for its size", err)
	}
	if _, err := Read(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("got %v, want %v", err, errBroken)
	}
}

type broken struct{}

var errBroken = errors.New("broken")

func (broken) Read([]byte) (int, error) { return 0, errBroken }

// TestDeep has a stack that is deeper than any that Go takes.
func TestDeep(t *testing.T) {
	p := read(t, makeProfile(met{"", strings.Repeat("example.com/a.A example.com/b.B ", 2000), 10}))
	if got := len(p.samples[0].stack); got != maxDepth {
		t.Errorf("got %d frames, want %d", got, maxDepth)
	}
	if rows := p.Functions(); rows[0].Function != "example.com/b.B" {
		t.Errorf("got %+v, want the innermost first", rows)
	}
	geometry(t, p.SVG())
}

// FuzzRead reads, adds up and draws anything.
func FuzzRead(f *testing.F) {
	unpacked := func(p *profile.Profile) []byte {
		var b bytes.Buffer
		if err := p.WriteUncompressed(&b); err != nil {
			f.Fatal(err)
		}
		return b.Bytes()
	}
	f.Add(unpacked(small()))
	f.Add(unpacked(makeProfile()))
	f.Add(unpacked(makeProfile(met{"<b> ]]> \x1b", "a.b", 10})))
	f.Add(encode(f, small()))
	f.Add(binary.AppendUvarint([]byte{0x0a}, math.MaxUint64))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Read(bytes.NewReader(data))
		if err != nil {
			return
		}
		var nodes, kinds, flat time.Duration
		for _, r := range p.Nodes() {
			nodes += r.Time
		}
		for _, r := range p.Kinds() {
			kinds += r.Time
		}
		for _, r := range p.Functions() {
			flat += r.Flat
		}
		if nodes != p.CPU || kinds != p.CPU || flat != p.CPU {
			t.Errorf("got %v of nodes, %v of kinds, %v of functions, want %v", nodes, kinds, flat, p.CPU)
		}
		svg := p.SVG()
		geometry(t, svg)
		if again, err := Read(bytes.NewReader(data)); err != nil || !bytes.Equal(again.SVG(), svg) {
			t.Errorf("got another picture the second time, or %v", err)
		}
		if i := slices.IndexFunc([]byte(p.Summary()), func(b byte) bool { return b < ' ' }); i >= 0 {
			t.Errorf("got %q", p.Summary())
		}
	})
}
