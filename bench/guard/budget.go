package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
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

// A budgetList is the exceptions of a file.
type budgetList struct {
	File    string
	Budgets []Budget
}

// Find returns the exception for a benchmark; the zero Budget if there is none.
func (l budgetList) Find(benchmark string) (b Budget, ok bool) {
	for _, b := range l.Budgets {
		if b.Benchmark == benchmark {
			return b, true
		}
	}
	return Budget{}, false
}

// Check returns an error for each exception whose benchmark is not among known.
func (l budgetList) Check(known []string) error {
	var errs []error
	for _, b := range l.Budgets {
		if !slices.Contains(known, b.Benchmark) {
			hint := ""
			if near, ok := spell.Nearest(b.Benchmark, known); ok {
				hint = fmt.Sprintf(": did you mean %q?", near)
			}
			errs = append(errs, fmt.Errorf("%s:%d: there is no benchmark %q%s", l.File, b.Line, b.Benchmark, hint))
		}
	}
	return errors.Join(errs...)
}

// An budgetEntry is a budget as the file has it.
type budgetEntry struct {
	Benchmark, Limit, Allocs, Gone, Reason, Date string
}

// parseBudgets reads a file of exceptions: a YAML list, which may be empty, of maps. All
// mistakes are reported, each with the line of its budgetEntry.
func parseBudgets(file string, data []byte) (budgetList, error) {
	l := budgetList{File: file}
	var documents [][]yaml.Node
	if err := yaml.Load(data, &documents, yaml.WithAllDocuments()); err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}
	if len(documents) > 1 {
		return l, fmt.Errorf("%s: more than one document", file)
	}
	var errs []error
	for _, n := range slices.Concat(documents...) {
		var e budgetEntry
		err := n.Load(&e, yaml.WithKnownFields())
		b := Budget{Benchmark: e.Benchmark, Reason: strings.TrimSpace(e.Reason), Line: n.Line}
		if err == nil {
			err = b.set(e)
		}
		if first, ok := l.Find(b.Benchmark); ok {
			err = errors.Join(err, fmt.Errorf("%s has an exception on line %d already", b.Benchmark, first.Line))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, n.Line, err))
		}
		l.Budgets = append(l.Budgets, b)
	}
	if len(errs) > 0 {
		return budgetList{File: file}, errors.Join(errs...)
	}
	return l, nil
}

var (
	morePercent = regexp.MustCompile(`^\+([0-9]{1,4}(?:\.[0-9]{1,2})?)%$`)
	moreUnits   = regexp.MustCompile(`^\+([0-9]{1,9})$`)
)

// set sets what the budgetEntry allows.
func (b *Budget) set(e budgetEntry) (err error) {
	if b.Benchmark == "" || b.Reason == "" {
		return errors.New("benchmark and reason are required")
	}
	if b.Date, err = time.Parse(time.DateOnly, e.Date); err != nil {
		return fmt.Errorf("date: %q is not a day such as 2006-01-02", e.Date)
	}
	if e.Limit == "" && e.Allocs == "" && e.Gone == "" {
		return errors.New("it allows nothing: one of limit, allocs and gone is required")
	}
	if e.Limit != "" {
		m := morePercent.FindStringSubmatch(e.Limit)
		if m == nil {
			return fmt.Errorf("limit: %q is not what the time may grow, such as +15%%", e.Limit)
		}
		if b.Limit, err = strconv.ParseFloat(m[1], 64); err != nil {
			return err
		}
		b.Limit /= 100
	}
	if e.Allocs != "" {
		m := moreUnits.FindStringSubmatch(e.Allocs)
		if m == nil {
			return fmt.Errorf("allocs: %q is not how many more there may be, such as +1", e.Allocs)
		}
		if b.Allocs, err = strconv.ParseFloat(m[1], 64); err != nil {
			return err
		}
	}
	if b.Gone = e.Gone == "true"; !b.Gone && e.Gone != "" {
		return fmt.Errorf("gone: must be true, not %q", e.Gone)
	}
	return nil
}
