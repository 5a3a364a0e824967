package main

import (
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// made returns a profile of stacks, innermost first and with spaces between, and
// how often each was seen.
func made(stacks map[string]int64) *profile.Profile {
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 1e7,
	}
	functions := make(map[string]*profile.Location)
	for stack, n := range stacks {
		s := &profile.Sample{Value: []int64{n, n * 1e7}}
		for name := range strings.FieldsSeq(stack) {
			loc := functions[name]
			if loc == nil {
				f := &profile.Function{ID: uint64(len(functions) + 1), Name: name}
				loc = &profile.Location{ID: f.ID, Line: []profile.Line{{Function: f}}}
				functions[name] = loc
				p.Function, p.Location = append(p.Function, f), append(p.Location, loc)
			}
			s.Location = append(s.Location, loc)
		}
		p.Sample = append(p.Sample, s)
	}
	return p
}

// TestDiffAllocations takes the count of allocations, not their bytes, nor what of
// them is still in use.
func TestDiffAllocations(t *testing.T) {
	p := made(map[string]int64{"example.com/m/run.frame" + outer: 1, "example.com/m/run.big" + outer: 1})
	p.SampleType = []*profile.ValueType{
		{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
		{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"},
	}
	for _, s := range p.Sample {
		s.Value = []int64{30, 300, 0, 0}
		if s.Location[0].Line[0].Function.Name == "example.com/m/run.big" {
			s.Value = []int64{10, 100_000, 1, 100_000}
		}
	}
	got := Diff(made(nil), p, "example.com/m", 5)
	if len(got) != 2 || got[0].Name != "run.frame" || got[0].Flat.Head != 0.75 || got[1].Name != "run.big" {
		t.Errorf("got %v, want run.frame with 75 %% before run.big", got)
	}
}

func TestFlat(t *testing.T) {
	p := made(map[string]int64{
		"example.com/m/run.drain" + outer: 30,
		"runtime.mallocgc runtime.newobject example.com/m/run.frame example.com/m/run.drain" + outer: 10,
		"runtime.scanobject runtime.gcBgMarkWorker runtime.goexit":                                   60,
	})
	for _, f := range p.Function {
		f.Filename = "f.go"
	}
	got := Flat(p, "example.com/m")
	want := map[string]float64{"run.drain": 0.3, "run.frame": 0.1}
	for name, share := range want {
		if s := got[name]; s.Share != share || len(s.Places) != 1 || s.Places[0].File != "f.go" {
			t.Errorf("%s: got %v, want a share of %g at one place", name, s, share)
		}
	}
	if len(got) != len(want) {
		t.Errorf("got %v, want functions of the module only", got)
	}
}

const outer = " example.com/m/run_test.Benchmark testing.(*B).runN testing.(*B).launch"

func TestDiff(t *testing.T) {
	base := made(map[string]int64{
		"example.com/m/run.drain" + outer: 80,
		"runtime.mallocgc runtime.newobject example.com/m/run.frame example.com/m/run.drain" + outer:   10,
		"runtime.scanobject runtime.gcDrain runtime.systemstack runtime.gcBgMarkWorker runtime.goexit": 10,
	})
	head := made(map[string]int64{
		"example.com/m/run.drain" + outer: 40,
		"runtime.mallocgc runtime.newobject example.com/m/run.frame example.com/m/run.drain" + outer:                                                     10,
		"runtime.futex runtime.lock2 internal/sync.(*Mutex).lockSlow sync.(*Mutex).Lock example.com/m/run.(*table).open example.com/m/run.start" + outer: 20,
		"runtime.mallocgc runtime.mapassign example.com/m/run.(*table).open example.com/m/run.start" + outer:                                             10,
		"example.com/m/run.(*table).open example.com/m/run.start" + outer:                                                                                5,
		"runtime.scanobject runtime.gcDrain runtime.systemstack runtime.gcBgMarkWorker runtime.goexit":                                                   15,
	})
	got := Diff(base, head, "example.com/m", 5)
	want := []string{
		"run.(*table).open: flat 0.0 % → 35.0 %, cumulative 0.0 % → 35.0 %; of it sync.(*Mutex).Lock 0.0 % → 20.0 %, runtime.mapassign 0.0 % → 10.0 %",
		"runtime.gcBgMarkWorker: flat 10.0 % → 15.0 %, cumulative 10.0 % → 15.0 %",
	}
	if len(got) != len(want) {
		t.Fatalf("got %v, want %d functions", got, len(want))
	}
	for i, w := range want {
		if got[i].String() != w {
			t.Errorf("got  %s\nwant %s", got[i], w)
		}
	}
	if got := Diff(base, head, "example.com/m", 1); len(got) != 1 {
		t.Errorf("got %v, want one", got)
	}
	if got := Diff(base, base, "example.com/m", 1); len(got) != 1 || got[0].Name != "run.drain" || len(got[0].Callees) != 0 {
		t.Errorf("the same: got %v, want what is most", got)
	}
	if got := Diff(made(nil), made(nil), "example.com/m", 5); len(got) != 0 {
		t.Errorf("of nothing: got %v, want nothing", got)
	}
}

// TestNames checks what a module's functions are called, the root package's
// included, and recursion, which counts once.
func TestNames(t *testing.T) {
	got := Diff(made(nil), made(map[string]int64{
		"example.com/m.Run example.com/m.Run main.main":   60,
		"example.com/mm.Other example.com/m/value.String": 40,
	}), "example.com/m", 5)
	if len(got) != 2 || got[0].Name != "m.Run" || got[0].Cumulative.Head != 0.6 || got[1].Name != "value.String" || len(got[1].Callees) != 1 || got[1].Callees[0].Name != "example.com/mm.Other" {
		t.Errorf("got %v", got)
	}
}
