package main

import (
	"strings"
	"testing"
)

func ten(v float64) []float64 {
	var all []float64
	for i := range 10 {
		all = append(all, v*(1+float64(i)/1000))
	}
	return all
}

func setOf(base, head sample) *set {
	s := new(set)
	s.Time.Base, s.Time.Head = ten(base.ns), ten(head.ns)
	for range 10 {
		s.Allocs.Base, s.Allocs.Head = append(s.Allocs.Base, base.allocs), append(s.Allocs.Head, head.allocs)
		s.Bytes.Base, s.Bytes.Head = append(s.Bytes.Base, base.bytes), append(s.Bytes.Head, head.bytes)
	}
	return s
}

func TestTable(t *testing.T) {
	slow := setOf(sample{120, 0, 0}, sample{360, 2, 64})
	rows := []*row{
		{ID: "value.CodecMapEncode/compiled", First: setOf(sample{986.9, 3, 624}, sample{987.2, 3, 624})},
		{
			ID: "internal/run.Parallel", First: slow, Second: slow,
			Blame: []suspects{{profileCPU, []Suspect{
				{Name: "internal/run.(*table).open", Flat: Pair{Head: 0.35}, Cumulative: Pair{Head: 0.36},
					Callees: []Callee{{Name: "sync.(*Mutex).Lock", Share: Pair{Head: 0.2}}}},
			}}},
		},
		{ID: "lang/builtin.Eval/javascript/map", First: setOf(sample{8195, 52, 3336}, sample{8601, 52, 3336})},
		{ID: pingRate, rate: true, First: setOf(sample{20000, 0, 0}, sample{16000, 0, 0})},
	}
	for _, r := range rows {
		r.allow(0.1, budgetList{})
	}
	decide(rows)
	var b strings.Builder
	if err := table(&b, rows); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"\ninternal/run.Parallel             120.5 ns  361.6 ns  +200.0 %  0.000   0 → 2  0 → 64  SLOWER, ALLOCATES\n",
		"\nping.rate                          49776/s   62220/s   +25.0 %  0.000                  faster\n",
		"\nFAIL internal/run.Parallel: 120.5 ns → 361.6 ns, +200.0 % (limit +10 %), p = 5.8e-11\n",
		"\nFAIL internal/run.Parallel: 0 → 2 allocations/op (limit: no more), p = 5.8e-11\n",
		"\n    internal/run.(*table).open: flat 0.0 % → 35.0 %, cumulative 0.0 % → 36.0 %; of it sync.(*Mutex).Lock 0.0 % → 20.0 %\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("got\n%s\nwant %q in it", b.String(), want)
		}
	}
}
