// Package budget reads the file of exceptions: the slowdowns that were accepted,
// each with the reason and the date.
//
// [Parse] reads the file strictly, since an exception that is misspelt either
// lets nothing through, or something else. [List.Check] compares the names with
// those that exist. The package must not know what is measured.
package budget

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// A Budget is one exception.
type Budget struct {
	Benchmark string
	Limit     float64   // what its time may grow, as a fraction; 0 for no exception
	Allocs    float64   // what its allocations per operation may grow, in units
	Gone      bool      // it may be missing
	Reason    string    // never empty
	Date      time.Time // when it was accepted, a day
	Line      int       // in the file
}

// A List is the exceptions of a file.
type List struct {
	File    string
	Budgets []Budget
}

// Find returns the exception for a benchmark; the zero Budget if there is none.
func (l List) Find(benchmark string) (b Budget, ok bool) {
	for _, b := range l.Budgets {
		if b.Benchmark == benchmark {
			return b, true
		}
	}
	return Budget{}, false
}

// Check returns an error for each exception whose benchmark is not among known.
func (l List) Check(known []string) error {
	var errs []error
	for _, b := range l.Budgets {
		if !slices.Contains(known, b.Benchmark) {
			errs = append(errs, fmt.Errorf("%s:%d: there is no benchmark %q%s", l.File, b.Line, b.Benchmark, hint(b.Benchmark, known)))
		}
	}
	return errors.Join(errs...)
}

// hint names the benchmark that shares the longest beginning and end with a name.
func hint(name string, known []string) string {
	best, most := "", len(name)/2
	for _, k := range known {
		n := 0
		for n < min(len(name), len(k)) && name[n] == k[n] {
			n++
		}
		end := 0
		for end < min(len(name), len(k))-n && name[len(name)-1-end] == k[len(k)-1-end] {
			end++
		}
		if n+end > most {
			best, most = k, n+end
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(": did you mean %q?", best)
}

// Parse reads a file of exceptions: a YAML list, which may be empty, of maps. All
// mistakes are reported, each with its line.
func Parse(file string, data []byte) (List, error) {
	l := List{File: file}
	loader, err := yaml.NewLoader(strings.NewReader(string(data)))
	if err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}
	var doc yaml.Node
	switch err := loader.Load(&doc); {
	case errors.Is(err, io.EOF):
		return l, nil // nothing but comments
	case err != nil:
		return l, syntax(file, err)
	}
	if err := loader.Load(new(yaml.Node)); !errors.Is(err, io.EOF) {
		if err != nil {
			return l, syntax(file, err)
		}
		return l, fmt.Errorf("%s: more than one document", file)
	}
	if len(doc.Content) == 0 || doc.Content[0].ShortTag() == "!!null" {
		return l, nil
	}
	list := doc.Content[0]
	if list.Kind != yaml.SequenceNode {
		return l, fmt.Errorf("%s:%d: want a list of exceptions", file, list.Line)
	}
	var errs []error
	lines := make(map[string]int)
	for _, n := range list.Content {
		b, problems := entry(n)
		for _, p := range problems {
			errs = append(errs, fmt.Errorf("%s:%d: %s", file, p.line, p.text))
		}
		if first := lines[b.Benchmark]; first > 0 {
			errs = append(errs, fmt.Errorf("%s:%d: %s has an exception on line %d already", file, b.Line, b.Benchmark, first))
		} else if b.Benchmark != "" {
			lines[b.Benchmark] = b.Line
		}
		l.Budgets = append(l.Budgets, b)
	}
	if len(errs) > 0 {
		return List{File: file}, errors.Join(errs...)
	}
	return l, nil
}

func syntax(file string, err error) error {
	var load *yaml.LoadError
	if errors.As(err, &load) {
		return fmt.Errorf("%s:%d: %s", file, load.Mark.Line, load.Message)
	}
	return fmt.Errorf("%s: %w", file, err)
}

// A problem is a mistake on a line.
type problem struct {
	line int
	text string
}

// entry reads one exception.
func entry(n *yaml.Node) (Budget, []problem) {
	b := Budget{Line: n.Line}
	if n.Kind != yaml.MappingNode {
		return b, []problem{{n.Line, "want a map with benchmark, limit, reason, and date"}}
	}
	var problems []problem
	seen := make(map[string]bool)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, v := n.Content[i], n.Content[i+1]
		switch {
		case seen[key.Value]:
			problems = append(problems, problem{key.Line, key.Value + " is there twice"})
		case v.Kind != yaml.ScalarNode:
			problems = append(problems, problem{v.Line, key.Value + ": want a single value"})
		default:
			if err := b.set(key.Value, v.Value); err != nil {
				problems = append(problems, problem{key.Line, err.Error()})
			}
		}
		seen[key.Value] = true
	}
	for _, key := range []string{"benchmark", "reason", "date"} {
		if !seen[key] {
			problems = append(problems, problem{n.Line, "no " + key})
		}
	}
	if !seen["limit"] && !seen["allocs"] && !seen["gone"] {
		problems = append(problems, problem{n.Line, "it allows nothing: want limit, allocs, or gone"})
	}
	return b, problems
}

var (
	percent = regexp.MustCompile(`^\+([0-9]{1,4}(?:\.[0-9]{1,2})?)%$`)
	units   = regexp.MustCompile(`^\+([0-9]{1,9})$`)
)

func (b *Budget) set(key, v string) (err error) {
	switch key {
	case "benchmark":
		if b.Benchmark = v; v == "" {
			return errors.New("benchmark: want a name, as the table has it")
		}
	case "limit":
		m := percent.FindStringSubmatch(v)
		if m == nil {
			return fmt.Errorf("limit: want what the time may grow, such as +15%%, got %q", v)
		}
		b.Limit, err = strconv.ParseFloat(m[1], 64)
		b.Limit /= 100
	case "allocs":
		m := units.FindStringSubmatch(v)
		if m == nil {
			return fmt.Errorf("allocs: want how many more there may be, such as +1, got %q", v)
		}
		b.Allocs, err = strconv.ParseFloat(m[1], 64)
	case "gone":
		if b.Gone = v == "true"; !b.Gone {
			return fmt.Errorf("gone: want true, got %q", v)
		}
	case "reason":
		if b.Reason = strings.TrimSpace(v); b.Reason == "" {
			return errors.New("reason: want a sentence")
		}
	case "date":
		if b.Date, err = time.Parse(time.DateOnly, v); err != nil {
			return fmt.Errorf("date: want a day such as 2006-01-02, got %q", v)
		}
	default:
		return fmt.Errorf("unknown key %q: there are benchmark, limit, allocs, gone, reason, and date", key)
	}
	return err
}
