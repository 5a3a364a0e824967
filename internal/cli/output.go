package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/spec"
)

// printJSON writes data for programs, indented.
func (a *app) printJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.print(b.String())
}

// print writes data.
func (a *app) print(text string) error {
	if _, err := io.WriteString(a.Stdout, text); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// render writes findings as text, with the lines of the documents.
func render(w io.Writer, list diag.List, src *sources, colour bool) error {
	return diag.Render(w, list, src.text, colour)
}

// text returns the text of a file that a finding is about: as it was read, or as
// it is now for files that documents import.
func (s *sources) text(file string) []byte {
	for _, docs := range [][]document{s.specs, s.values} {
		for _, doc := range docs {
			if doc.File == file {
				return doc.Data
			}
		}
	}
	docs, err := spec.Read([]string{file}, nil)
	if err != nil || len(docs) != 1 {
		return nil // then the finding is shown without its line
	}
	return docs[0].Data
}

// tally says how many errors and warnings a list has.
func tally(list diag.List) string {
	errs, warnings := list.Counts()
	var parts []string
	if errs > 0 {
		parts = append(parts, show.Count(int64(errs), "error"))
	}
	if warnings > 0 {
		parts = append(parts, show.Count(int64(warnings), "warning"))
	}
	return strings.Join(parts, ", ")
}

// progress returns what shows how much of a long piece of work is done.
func (a *app) progress() *show.Progress {
	return show.NewProgress(a.Stderr, a.Terminal(a.stderr.w) && a.Getenv("TERM") != "dumb")
}
