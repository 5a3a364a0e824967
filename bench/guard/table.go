package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// table writes the rows, and under them why those that failed did.
func table(w io.Writer, rows []*row) error {
	var t program.Table
	t.Text("benchmark")
	t.Figures("base", "head", "change", "p", "allocs", "bytes")
	t.Text("verdict")
	for _, r := range rows {
		t.Table.Row(r.cells()...)
	}
	var b strings.Builder
	for _, r := range rows {
		for _, reason := range r.Reasons {
			fmt.Fprintf(&b, "\nFAIL %s: %s", r.ID, reason)
		}
		if r.Failed {
			b.WriteByte('\n')
		}
		for _, s := range r.Blame {
			fmt.Fprintf(&b, "  shares of the %s, what grew most first:\n", s.By)
			for _, f := range s.Functions {
				fmt.Fprintf(&b, "    %s\n", f)
			}
		}
	}
	if n := unjudged(rows); n > 0 {
		fmt.Fprintf(&b, "\n%d of %d rows could not be judged: the machine was too noisy. Changes as large as the figure behind ± may hide in them.\n", n, len(rows))
	}
	_, err := fmt.Fprintf(w, "%s%s", &t, b.String())
	return err
}

func unjudged(rows []*row) (n int) {
	for _, r := range rows {
		if r.Unjudged {
			n++
		}
	}
	return n
}

func (r *row) cells() []string {
	if r.First == nil {
		return []string{r.ID, "", "", "", "", "", "", r.Verdict}
	}
	allocs, bytes := "", ""
	if !strings.HasPrefix(r.ID, "ping.") {
		allocs, bytes = counts(r.Allocs), counts(r.Bytes)
	}
	return []string{r.ID, r.time(r.Time.Base), r.time(r.Time.Head), r.change(), fmt.Sprintf("%.3f", r.Time.Corrected), allocs, bytes, r.Verdict}
}

// counts writes both medians, or one where they differ no more than by chance.
func counts(f figure) string {
	if f.Base == f.Head || f.Corrected >= Alpha {
		return fmt.Sprintf("%.6g", f.Base)
	}
	return fmt.Sprintf("%.6g → %.6g", f.Base, f.Head)
}
