// Package blame compares two profiles, of the CPU or of allocations, and names
// the functions whose share has grown most.
//
// [Diff] returns [Function]s of a module. What is spent outside the module, in
// the runtime or a library, counts to the innermost function of the module on
// the stack, since that is what can be changed; Callees say what was called.
package blame

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/profiles"
)

// A Pair is a share of all samples, from 0 to 1, on both sides.
type Pair struct {
	Base float64 `json:"base"`
	Head float64 `json:"head"`
}

// Growth returns what the head has more.
func (p Pair) Growth() float64 { return p.Head - p.Base }

// A Function is one whose share may have changed.
type Function struct {
	// Name is without the path of the module. Where no function of the module is
	// on the stack, as in the garbage collector, it is the outermost of the
	// runtime.
	Name string `json:"name"`

	Flat       Pair `json:"flat"`       // in the function, and in what it calls outside the module
	Cumulative Pair `json:"cumulative"` // in the function and in all that it calls

	// Callees are the functions outside the module, called by this one, that have
	// grown most, at most three: what of Flat they are.
	Callees []Callee `json:"callees,omitempty"`
}

// A Callee is a function outside the module.
type Callee struct {
	Name  string `json:"name"`
	Share Pair   `json:"share"`
}

// String returns the function with its shares, in percent.
func (f Function) String() string {
	s := fmt.Sprintf("%s: flat %s, cumulative %s", f.Name, f.Flat, f.Cumulative)
	for i, c := range f.Callees {
		s += map[bool]string{true: "; of it ", false: ", "}[i == 0] + fmt.Sprintf("%s %s", c.Name, c.Share)
	}
	return s
}

// String returns both shares in percent.
func (p Pair) String() string { return fmt.Sprintf("%.1f %% → %.1f %%", 100*p.Base, 100*p.Head) }

// noise is the least growth that is shown: a profile of a second has a hundred
// samples.
const noise = 0.01

// Diff returns at most n functions whose flat share has grown, most first. If none
// has, as where a benchmark is all in one function, it returns those whose share
// is largest.
func Diff(base, head *profile.Profile, module string, n int) []Function {
	a, b := count(base, module), count(head, module)
	var all, others []Function
	for name := range b.flat {
		f := Function{Name: name, Flat: Pair{a.flat[name], b.flat[name]}, Cumulative: Pair{a.cumulative[name], b.cumulative[name]}}
		if f.Flat.Growth() < noise {
			others = append(others, f)
			continue
		}
		f.Callees = grown(a.callees[name], b.callees[name])
		all = append(all, f)
	}
	if len(all) == 0 {
		slices.SortFunc(others, func(x, y Function) int {
			return byGrowth(Pair{Head: x.Flat.Head}, Pair{Head: y.Flat.Head}, x.Name, y.Name)
		})
		return others[:min(n, len(others))]
	}
	slices.SortFunc(all, func(x, y Function) int { return byGrowth(x.Flat, y.Flat, x.Name, y.Name) })
	return all[:min(n, len(all))]
}

// A Place is a line of a file, which is named as the profile names it.
type Place struct {
	File string
	Line int
}

// A Spot is the part of a profile that counts to one function.
type Spot struct {
	Share  float64 // of all samples, with what the function calls outside the module
	Places []Place // of the function that were sampled
}

// Flat returns the functions of the module that are in a profile, by their names
// without the path of the module.
func Flat(p *profile.Profile, module string) map[string]Spot {
	spots := make(map[string]Spot)
	for name, share := range count(p, module).flat {
		spots[name] = Spot{Share: share}
	}
	for _, sample := range p.Sample {
		name, place, ok := innermost(sample, module)
		if spot := spots[name]; ok && !slices.Contains(spot.Places, place) {
			spot.Places = append(spot.Places, place)
			spots[name] = spot
		}
	}
	maps.DeleteFunc(spots, func(_ string, s Spot) bool { return len(s.Places) == 0 }) // of the runtime
	return spots
}

// innermost returns the function of the module that a sample counts to.
func innermost(s *profile.Sample, module string) (name string, place Place, ok bool) {
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			if line.Function == nil {
				continue
			}
			if short, ours := within(line.Function.Name, module); ours {
				return short, Place{line.Function.Filename, int(line.Line)}, true
			}
		}
	}
	return "", Place{}, false
}

// byGrowth orders by growth, most first, and then by name.
func byGrowth(x, y Pair, xName, yName string) int {
	switch d := y.Growth() - x.Growth(); {
	case d > 0:
		return 1
	case d < 0:
		return -1
	}
	return strings.Compare(xName, yName)
}

// maxCallees is how many callees are told of a function.
const maxCallees = 3

// grown returns the callees that have grown most.
func grown(base, head map[string]float64) []Callee {
	var all []Callee
	for name, share := range head {
		if c := (Callee{name, Pair{base[name], share}}); c.Share.Growth() >= noise {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(x, y Callee) int { return byGrowth(x.Share, y.Share, x.Name, y.Name) })
	return all[:min(maxCallees, len(all))]
}

// shares are how the samples of a profile are spread, each as a share of all.
type shares struct {
	flat       map[string]float64
	cumulative map[string]float64
	callees    map[string]map[string]float64 // of a function of the module, outside of it
}

func count(p *profile.Profile, module string) shares {
	s := shares{make(map[string]float64), make(map[string]float64), make(map[string]map[string]float64)}
	total, at := 0.0, column(p)
	for _, sample := range p.Sample {
		total += float64(sample.Value[at])
	}
	for _, sample := range p.Sample {
		stack := profiles.Stack(sample)
		if len(stack) == 0 {
			continue
		}
		share := float64(sample.Value[at]) / max(total, 1)
		s.add(stack, module, share)
	}
	return s
}

// column returns which of a sample's values counts: the number of allocations in
// a profile of memory, else the last, which in a profile of the CPU is time.
func column(p *profile.Profile) int {
	at := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "alloc_objects" })
	if at < 0 {
		return len(p.SampleType) - 1
	}
	return at
}

func (s shares) add(stack []string, module string, share float64) {
	seen := make(map[string]bool)
	callee, found := "", false
	for _, name := range stack {
		short, ours := within(name, module)
		if !ours {
			if !found {
				callee = name // of the frame after it
			}
			continue
		}
		if !found {
			found = true
			s.flat[short] += share
			if callee != "" {
				if s.callees[short] == nil {
					s.callees[short] = make(map[string]float64)
				}
				s.callees[short][callee] += share
			}
		}
		if !seen[short] {
			seen[short] = true
			s.cumulative[short] += share
		}
	}
	if !found {
		name := outermost(stack)
		s.flat[name] += share
		s.cumulative[name] += share
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
	for i := len(stack) - 1; i >= 0; i-- {
		switch stack[i] {
		case "runtime.goexit", "runtime.mcall", "runtime.systemstack", "runtime.mstart", "runtime.mstart0", "runtime.mstart1":
		default:
			return stack[i]
		}
	}
	return stack[0]
}
