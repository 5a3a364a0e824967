package suite

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/value"
)

// maxShown bounds a payload in a report, in bytes.
const maxShown = 200

// shown returns a payload on one line without secrets, as far as there is room.
func shown(v value.Value, redact func(string) string) string {
	text := show.Printable(redact(value.ErrorMap(v).String()))
	if len(text) <= maxShown {
		return text
	}
	cut := maxShown
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// Text writes a result for people. sources returns the text of a file.
func (r *Result) Text(w io.Writer, sources func(file string) []byte, colour bool) error {
	word := "PASS"
	if r.Err != nil {
		word = "FAIL"
	}
	if colour {
		word = map[bool]string{true: "\x1b[32m", false: "\x1b[31m"}[r.Err == nil] + word + "\x1b[0m"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s (%s%s)\n", word, show.Printable(r.Name()), show.Duration(r.Duration), r.Crashes.text())
	if r.Err != nil {
		r.details(&b, sources, colour)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// details writes what is to be known of a failure, without secrets.
func (r *Result) details(to *bytes.Buffer, sources func(string) []byte, colour bool) {
	b := new(bytes.Buffer)
	defer func() { to.WriteString(r.redact(b.String())) }()
	if c := r.Crashes; c != nil && c.Failed != nil {
		fmt.Fprintf(b, "  after a crash at step %d of %d, the %s of %s; --run %s --crash %d runs only this:\n",
			c.Failed.Number, c.Steps, c.Failed.Type, show.Printable(c.Failed.Node), quoted("^"+regexp.QuoteMeta(r.Name())+"$"), c.Failed.Number)
	}
	var found bytes.Buffer
	for _, f := range r.Failures() {
		found.Reset()
		_ = diag.Render(&found, diag.List{f.Finding}, sources, colour) // a buffer takes all
		indent(b, "  ", found.String())
		if f.Assert != nil {
			indent(b, "    ", f.Assert.text(r.redact))
		}
	}
	if len(r.Steps) > 0 {
		b.WriteString("    trail:\n")
		if r.Skipped > 0 {
			fmt.Fprintf(b, "      … %s before\n", show.Count(int64(r.Skipped), "packet"))
		}
		for _, s := range r.Steps {
			indent(b, "      ", s.text(r.redact))
		}
	}
	if r.Log != "" {
		b.WriteString("    log:\n")
		indent(b, "      ", r.Log)
	}
}

// text says how many crashes a test has passed, for the line of its result.
func (c *Crashes) text() string {
	switch {
	case c == nil:
		return ""
	case c.Seed != 0:
		return fmt.Sprintf(", %d of %d crashes, --seed %d", c.Done, c.Steps, c.Seed)
	case c.Done == 1:
		return ", 1 crash"
	}
	return fmt.Sprintf(", %d crashes", c.Done)
}

// quoted returns a text as one word for a shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(show.Printable(text), "'", `'\''`) + "'"
}

func (s *Step) text(redact func(string) string) string {
	text := s.From + "." + s.Out
	if len(s.To) > 0 {
		text += " -> " + strings.Join(s.To, ", ")
	}
	return show.Printable(text) + ": " + shown(s.Payload, redact)
}

// text shows what an assert has got.
func (a *Assertion) text(redact func(string) string) string {
	if diff := a.Diff(); diff != "" {
		return a.Comparison + "\n(-want +got)\n" + diff
	}
	var b strings.Builder
	if a.Comparison != "" {
		fmt.Fprintf(&b, "%s\n  left:  %s\n  right: %s\n", a.Comparison, shown(a.Got, redact), shown(a.Want, redact))
	}
	if !a.Nothing {
		fmt.Fprintf(&b, "payload: %s\n", shown(a.Payload, redact))
	}
	return b.String()
}

func indent(b *bytes.Buffer, by, text string) {
	for line := range strings.Lines(text) {
		b.WriteString(by + strings.TrimSuffix(line, "\n") + "\n")
	}
}

// Counts returns how many tests have passed and failed.
func Counts(results []*Result) (passed, failed int) {
	for _, r := range results {
		if r.Err == nil {
			passed++
		} else {
			failed++
		}
	}
	return passed, failed
}

// A Report is the results of a run as JSON.
type Report struct {
	Passed   int             `json:"passed"`
	Failed   int             `json:"failed"`
	NotRun   int             `json:"not_run"` // since the run was interrupted
	Seconds  float64         `json:"seconds"`
	Tests    []ReportedTest  `json:"tests"`
	Coverage *CoverageReport `json:"coverage,omitempty"`
}

// A ReportedTest is one result in a [Report].
type ReportedTest struct {
	Name     string            `json:"name"`
	File     string            `json:"file"`
	Line     int               `json:"line"`
	Passed   bool              `json:"passed"`
	Seconds  float64           `json:"seconds"`
	Crashes  *ReportedCrashes  `json:"crashes,omitempty"`
	Failures []ReportedFailure `json:"failures,omitempty"`
	Trail    []ReportedStep    `json:"trail,omitempty"` // of a failed test
	Log      string            `json:"log,omitempty"`   // of a failed test
}

// ReportedCrashes are the crashes of a [ReportedTest].
type ReportedCrashes struct {
	Passed int                `json:"passed"`
	Steps  int                `json:"steps"`            // of the journal
	Seed   uint64             `json:"seed,omitempty"`   // of the sample
	Failed *ReportedCrashStep `json:"failed,omitempty"` // where it failed
}

// A ReportedCrashStep is the step of the journal at which a test failed.
type ReportedCrashStep struct {
	Step int    `json:"step"`
	Node string `json:"node"`
	Type string `json:"type"`
}

// A ReportedFailure is one failure of a [ReportedTest].
type ReportedFailure struct {
	Finding *diag.Diagnostic `json:"finding"`
	Expect  string           `json:"expect,omitempty"`
	Payload string           `json:"payload,omitempty"`
	Diff    string           `json:"diff,omitempty"`
}

// A ReportedStep is one packet of a trail.
type ReportedStep struct {
	Node    string   `json:"node"`
	Port    string   `json:"port"`
	To      []string `json:"to,omitempty"`
	Payload string   `json:"payload"`
}

// NewReport returns the results for programs.
func NewReport(results []*Result, tests int, took time.Duration) *Report {
	report := &Report{NotRun: tests - len(results), Seconds: took.Seconds(), Tests: []ReportedTest{}}
	report.Passed, report.Failed = Counts(results)
	for _, r := range results {
		t := ReportedTest{
			Name: r.Name(), File: r.Test.Node.Pos.File, Line: r.Test.Node.Pos.Line,
			Passed: r.Err == nil, Seconds: r.Duration.Seconds(),
		}
		if c := r.Crashes; c != nil {
			t.Crashes = &ReportedCrashes{Passed: c.Done, Steps: c.Steps, Seed: c.Seed}
			if f := c.Failed; f != nil {
				t.Crashes.Failed = &ReportedCrashStep{f.Number, f.Node, f.Type}
			}
		}
		for _, f := range r.Failures() {
			safe := *f.Finding
			safe.Msg, safe.Hint = r.redact(safe.Msg), r.redact(safe.Hint)
			reported := ReportedFailure{Finding: &safe}
			if a := f.Assert; a != nil {
				reported.Expect, reported.Diff = r.redact(a.Expect), r.redact(a.Diff())
				if !a.Nothing {
					reported.Payload = shown(a.Payload, r.redact)
				}
			}
			t.Failures = append(t.Failures, reported)
		}
		if r.Err != nil {
			t.Log = r.redact(r.Log)
			for _, s := range r.Steps {
				t.Trail = append(t.Trail, ReportedStep{s.From, s.Out, s.To, shown(s.Payload, r.redact)})
			}
		}
		report.Tests = append(report.Tests, t)
	}
	return report
}

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Time     string      `xml:"time,attr"`
	Stamp    string      `xml:"timestamp,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr"`
	Line    int           `xml:"line,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

// JUnit writes the results as JUnit XML, each namespace as a suite.
func JUnit(w io.Writer, results []*Result, took time.Duration, sources func(file string) []byte) error {
	all := junitSuites{Tests: len(results), Time: seconds(took)}
	_, all.Failures = Counts(results)
	at := make(map[string]int)
	total := make(map[string]time.Duration)
	for _, r := range results {
		name := r.Test.Node.Namespace
		i, ok := at[name]
		if !ok {
			i = len(all.Suites)
			at[name] = i
			all.Suites = append(all.Suites, junitSuite{Name: name, Stamp: r.Start.UTC().Format("2006-01-02T15:04:05")})
		}
		s := &all.Suites[i]
		c := junitCase{
			Name: r.Test.Node.String(), Class: name, File: r.Test.Node.Pos.File, Line: r.Test.Node.Pos.Line, Time: seconds(r.Duration),
		}
		if r.Err != nil {
			var text bytes.Buffer
			r.details(&text, sources, false)
			c.Failure = &junitFailure{Type: "failure"}
			for _, f := range r.Failures() {
				if c.Failure.Message == "" {
					c.Failure.Message = r.redact(f.Finding.Error())
				}
				if f.Finding.Code != "" {
					c.Failure.Type = string(f.Finding.Code)
				}
			}
			c.Failure.Text = text.String()
			s.Failures++
		}
		s.Tests++
		s.Cases = append(s.Cases, c)
		total[name] += r.Duration
		s.Time = seconds(total[name])
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(all); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
