package diag

import (
	"cmp"
	"slices"
	"strings"
)

// MaxFindings is the number of findings that a sorted [List] keeps. One more entry at
// the end counts the rest.
const MaxFindings = 100

// A List is a list of findings. The nil List is empty and ready for use. The text of
// the List as an error has one line for each finding. Use [List.Err] to return it as
// one, so that a List with only warnings is nil. It is not for concurrent use.
type List []*Diagnostic

// Add adds findings. A list that grows far above [MaxFindings] is sorted and cut, so
// that a hostile document cannot fill the memory with findings.
func (l *List) Add(list ...*Diagnostic) {
	*l = append(*l, list...)
	if len(*l) > 20*MaxFindings {
		l.Sort()
	}
}

// Append adds the findings of another list.
func (l *List) Append(more List) { l.Add(more...) }

// HasErrors reports whether any finding is more than a warning.
func (l List) HasErrors() bool {
	return slices.ContainsFunc(l, func(d *Diagnostic) bool { return d.Severity == SeverityError })
}

// Err returns the list if it has errors, otherwise nil.
func (l List) Err() error {
	if l.HasErrors() {
		return l
	}
	return nil
}

func (l List) Error() string {
	lines := make([]string, len(l))
	for i, d := range l {
		lines[i] = d.Error()
	}
	return strings.Join(lines, "\n")
}

// Counts returns the number of errors and warnings, including those that [List.Sort]
// has cut.
func (l List) Counts() (errors, warnings int) {
	for _, d := range l {
		switch {
		case d.cut != [2]int{}:
			errors += d.cut[SeverityError]
			warnings += d.cut[SeverityWarning]
		case d.Severity == SeverityWarning:
			warnings++
		default:
			errors++
		}
	}
	return errors, warnings
}

// Kept returns the list without the last entry that counts what was cut.
func (l List) Kept() List {
	if n := len(l); n > 0 && l[n-1].cut != [2]int{} {
		return l[:n-1]
	}
	return l
}

func (l List) Unwrap() []error {
	errs := make([]error, len(l))
	for i, d := range l {
		errs[i] = d
	}
	return errs
}

// Sort orders the findings by file, line and column; findings without a place come
// first. It removes duplicates and cuts the list to [MaxFindings]. One more entry
// without a place counts the findings that were cut; it is an error if one of them was.
func (l *List) Sort() {
	rest := &Diagnostic{Severity: SeverityWarning}
	kept := make(List, 0, len(*l))
	for _, d := range *l {
		if d.cut != [2]int{} {
			rest.cut[0] += d.cut[0]
			rest.cut[1] += d.cut[1]
			continue
		}
		kept = append(kept, d)
	}
	slices.SortStableFunc(kept, func(a, b *Diagnostic) int {
		return cmp.Or(
			strings.Compare(a.Pos.File, b.Pos.File),
			cmp.Compare(a.Pos.Line, b.Pos.Line),
			cmp.Compare(a.Pos.Col, b.Pos.Col),
		)
	})
	kept = slices.CompactFunc(kept, func(a, b *Diagnostic) bool {
		return a.Pos == b.Pos && a.Pos.IsValid() && a.Code == b.Code && a.Msg == b.Msg && a.Path == b.Path && a.Severity == b.Severity
	})
	if len(kept) > MaxFindings {
		for _, d := range kept[MaxFindings:] {
			rest.cut[d.Severity]++
		}
		kept = kept[:MaxFindings]
	}
	if more := rest.cut[0] + rest.cut[1]; more > 0 {
		if rest.cut[SeverityError] > 0 {
			rest.Severity = SeverityError
		}
		rest.Msg = "… and " + plural(more, "more finding")
		kept = append(kept, rest)
	}
	*l = kept
}
