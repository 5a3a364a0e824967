package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A Pair is a share of all samples, from 0 to 1, on both sides.
type Pair struct {
	Base float64 `json:"base"`
	Head float64 `json:"head"`
}

// Growth returns by how much the head is larger.
func (p Pair) Growth() float64 { return p.Head - p.Base }

func (p Pair) String() string { return fmt.Sprintf("%.1f %% → %.1f %%", 100*p.Base, 100*p.Head) }

// A Suspect is a function whose share may have changed. What is spent outside the
// module, in the runtime or a library, counts to the innermost function of the module
// on the stack, since that is what can be changed; Callees say what was called.
type Suspect struct {
	// Name is without the path of the module. Where no function of the module is
	// on the stack, as in the garbage collector, it is the outermost of the
	// runtime.
	Name string `json:"name"`

	Flat       Pair `json:"flat"`       // in the function, and in what it calls outside the module
	Cumulative Pair `json:"cumulative"` // in the function and in all that it calls

	// Callees are at most three functions outside the module, called by this one,
	// that have grown most. They are part of Flat.
	Callees []Callee `json:"callees,omitempty"`
}

// A Callee is a function outside the module.
type Callee struct {
	Name  string `json:"name"`
	Share Pair   `json:"share"`
}

func (f Suspect) String() string {
	s := fmt.Sprintf("%s: flat %s, cumulative %s", f.Name, f.Flat, f.Cumulative)
	for i, c := range f.Callees {
		s += map[bool]string{true: "; of it ", false: ", "}[i == 0] + fmt.Sprintf("%s %s", c.Name, c.Share)
	}
	return s
}

// leastGrowth is the least growth that is shown: a profile of a second has a hundred
// samples.
const leastGrowth = 0.01

// Diff returns at most n functions whose flat share has grown, most first. If none
// has, as where a benchmark is all in one function, it returns those whose share
// is largest.
func Diff(base, head *profile.Profile, module string, n int) []Suspect {
	a, b := countSamples(base, module), countSamples(head, module)
	var grown, others []Suspect
	for name, s := range b {
		f := Suspect{Name: name, Flat: Pair{a[name].flat, s.flat}, Cumulative: Pair{a[name].cumulative, s.cumulative}}
		if f.Flat.Growth() < leastGrowth {
			others = append(others, f)
			continue
		}
		for callee, share := range s.callees {
			if c := (Callee{callee, Pair{a[name].callees[callee], share}}); c.Share.Growth() >= leastGrowth {
				f.Callees = append(f.Callees, c)
			}
		}
		f.Callees = most(f.Callees, 3, func(c Callee) (float64, string) { return c.Share.Growth(), c.Name })
		grown = append(grown, f)
	}
	if len(grown) == 0 {
		return most(others, n, func(f Suspect) (float64, string) { return f.Flat.Head, f.Name })
	}
	return most(grown, n, func(f Suspect) (float64, string) { return f.Flat.Growth(), f.Name })
}

// most returns the n elements with the largest figures, ordered by name where these
// are equal.
func most[E any](all []E, n int, by func(E) (figure float64, name string)) []E {
	slices.SortFunc(all, func(x, y E) int {
		fx, nx := by(x)
		fy, ny := by(y)
		return cmp.Or(cmp.Compare(fy, fx), cmp.Compare(nx, ny))
	})
	return all[:min(n, len(all))]
}

// A place is a line of a file, which is named as the profile names it.
type place struct {
	File string
	Line int
}

// A Spot is the part of a profile that counts to one function.
type Spot struct {
	Share  float64 // of all samples, with what the function calls outside the module
	Places []place // of the function that were sampled
}

// Flat returns the functions of the module that are in a profile, by their names
// without the path of the module.
func Flat(p *profile.Profile, module string) map[string]Spot {
	spots := make(map[string]Spot)
	for name, s := range countSamples(p, module) {
		if len(s.places) > 0 { // not of the runtime
			spots[name] = Spot{s.flat, s.places}
		}
	}
	return spots
}

// shares are the shares of all samples that count to a function.
type shares struct {
	flat, cumulative float64
	callees          map[string]float64 // outside of the module
	places           []place
}

// countSamples counts the samples of a profile by function: allocations in a profile of
// memory, else time.
func countSamples(p *profile.Profile, module string) map[string]shares {
	value := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "alloc_objects" })
	if value < 0 {
		value = len(p.SampleType) - 1
	}
	total := 0.0
	for _, sample := range p.Sample {
		total += float64(sample.Value[value])
	}
	all := make(map[string]shares)
	for _, sample := range p.Sample {
		countSample(all, sample, module, float64(sample.Value[value])/max(total, 1))
	}
	return all
}

func countSample(all map[string]shares, sample *profile.Sample, module string, share float64) {
	seen := make(map[string]bool)
	callee := "" // outside of the module, of the frame after it
	for _, loc := range sample.Location {
		for _, line := range loc.Line {
			if line.Function == nil {
				continue
			}
			name, ours := within(line.Function.Name, module)
			if !ours {
				if len(seen) == 0 {
					callee = name
				}
				continue
			}
			s := all[name]
			if len(seen) == 0 {
				s.flat += share
				if s.callees == nil {
					s.callees = make(map[string]float64)
				}
				if callee != "" {
					s.callees[callee] += share
				}
				if place := (place{line.Function.Filename, int(line.Line)}); !slices.Contains(s.places, place) {
					s.places = append(s.places, place)
				}
			}
			if !seen[name] {
				seen[name] = true
				s.cumulative += share
			}
			all[name] = s
		}
	}
	if stack := program.Stack(sample); len(seen) == 0 && len(stack) > 0 {
		name := outermost(stack)
		s := all[name]
		s.flat += share
		s.cumulative += share
		all[name] = s
	}
}

// within returns the name of a function of the module without the module's path.
func within(name, module string) (short string, ok bool) {
	if short, ok := strings.CutPrefix(name, module+"/"); ok {
		return short, true
	}
	if rest, ok := strings.CutPrefix(name, module+"."); ok {
		return module[strings.LastIndexByte(module, '/')+1:] + "." + rest, true
	}
	return name, false
}

// outermost returns the function that says what a stack of the runtime is about.
func outermost(stack []string) string {
	for _, name := range slices.Backward(stack) {
		switch name {
		case "runtime.goexit", "runtime.mcall", "runtime.systemstack", "runtime.mstart", "runtime.mstart0", "runtime.mstart1":
		default:
			return name
		}
	}
	return stack[0]
}
