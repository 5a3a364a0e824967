package mutation_test

// ofTrail are what lets queries of trail leave rows out: with each of these, an answer
// would be too small, without an error.
func ofTrail() []mutation {
	const in = "trail/internal/exec"
	return []mutation{
		{name: "a decision asks its table", file: "trail/internal/exec/decision.go", in: in, test: "TestDecision",
			cuts: []cut{{"	case d.table != nil:\n		return d.table[c] != 0\n	case c == 0:", "	case c == 0:"}}},
		{name: "spans ask a table", file: "trail/internal/exec/decision.go", in: in, test: "TestPossible",
			cuts: []cut{{"		return bytes.IndexByte(d.table[lo:hi+1], pass) >= 0", "		return bytes.IndexByte(d.table[lo:hi+1], pass) > 0"}}},
		{name: "spans ask a set", file: "trail/internal/exec/decision.go", in: in, test: "TestPossible",
			cuts: []cut{{"	if d.set != nil {\n		first", "	if false {\n		first"}}},
		{name: "a span has its last code", file: "trail/internal/exec/decision.go", in: in, test: "TestPossible",
			cuts: []cut{{"d.table[lo:hi+1]", "d.table[lo:hi]"}}},
		{name: "a span has missing values", file: "trail/internal/exec/decision.go", in: in, test: "TestPossible",
			cuts: []cut{{"	case lo == 0 && d.missing:\n		return true\n", ""}}},
		{name: "a negation passes some", file: "trail/internal/exec/decision.go", in: in, test: "TestPossible",
			cuts: []cut{{"		return in < hi-lo+1", "		return in == 0"}}},
		{name: "texts are asked of the dictionary", file: "trail/internal/exec/selector.go", in: in, test: "TestLayouts",
			cuts: []cut{{"for c := uint32(1); c < codes; c++ {", "for c := uint32(1); c < codes-1; c++ {"}}},
		{name: "a set has 64 codes", file: "trail/internal/segment/blocks.go", in: in, test: "TestPossible",
			cuts: []cut{{"set |= 1 << (c & 63)", "set |= 1 << (c % 63)"}}},
		{name: "65 codes have no set", file: "trail/internal/segment/blocks.go", in: in, test: "TestPossible",
			cuts: []cut{{"const maxOccurs = 64", "const maxOccurs = 65"}}},
		{name: "64 codes have a set", file: "trail/internal/segment/blocks.go", in: in, test: "TestPossible",
			cuts: []cut{{"const maxOccurs = 64", "const maxOccurs = 63"}}},
		{name: "cohorts are not asked", file: "trail/internal/exec/stretch.go", in: in, test: "TestPossible",
			cuts: []cut{{"return l.cohort || l.same", "return l.same"}}},
		{name: "any of some filters", file: "trail/internal/exec/stretch.go", in: in, test: "TestPossible",
			cuts: []cut{{"	return slices.ContainsFunc(s.any, func(sub *selector) bool { return sub.possible(block) })", "	return !slices.ContainsFunc(s.any, func(sub *selector) bool { return !sub.possible(block) })"}}},
		{name: "each filter has its matchers", file: "trail/internal/exec/stretch.go", in: in, test: "TestPossible",
			cuts: []cut{{"			live &^= f.mask", "			live = 0"}}},
		{name: "each block by itself", file: "trail/internal/exec/stretch.go", in: in, test: "TestPossible",
			cuts: []cut{{"v.source.possible(block)", "v.source.possible(block &^ 1)"}}},
		{name: "presence of all filters alone", file: "trail/internal/exec/stretch.go", in: in, test: "TestPossible",
			cuts: []cut{{"	for _, sub := range s.all {\n		if l := sub.presence()", "	for _, sub := range append(s.all, s.any...) {\n		if l := sub.presence()"}}},
		{name: "presence where missing passes", file: "trail/internal/exec/stretch.go", in: in, test: "TestPossible",
			cuts: []cut{{"!l.bare && !l.missing && l.column.KeepsPresence()", "!l.bare && l.column.KeepsPresence()"}}},
		{name: "users with one of the events", file: "trail/internal/exec/stretch.go", in: in, test: "TestLayouts",
			cuts: []cut{{"			wanted |= 1 << i", "			wanted = 1 << i"}}},
		{name: "users with a required event", file: "trail/internal/exec/view.go", in: in, test: "TestLayouts",
			cuts: []cut{{"			v.wanted |= 1 << i", "			v.wanted = 1 << i"}}},
		{name: "the first digits of a byte", file: "trail/internal/segment/digits.go", in: in, test: "TestLayouts",
			cuts: []cut{{"table[data[0]]>>(8*skip), k-skip", "table[data[0]], k-skip"}}},
		{name: "rows behind the first stripe", file: "trail/internal/segment/patch.go", in: in, test: "TestLayouts",
			cuts: []cut{{"base := i*stripe - lo", "base := i*(stripe-1) - lo"}}},
	}
}
