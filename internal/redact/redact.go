// Package redact hides secrets in what a program puts out: texts, errors, findings,
// values and log records.
//
// Read [Secrets] first. The package must not know where secrets come from.
package redact

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/template"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

// Hidden stands in place of a secret.
const Hidden = "[redacted]"

// Bounds of what is recognised, in bytes.
const (
	leastInText = 4 // shorter secrets, such as a port, occur everywhere: they are hidden as whole texts only
	leastLine   = 8 // of a secret of several lines
	leastBase64 = 6 // characters that do not depend on what surrounds the secret
)

// sources is how many generations of secrets are known: secrets of earlier ones still
// appear in what their processes do.
const sources = 64

// Secrets are texts that no output may show. The zero Secrets is empty and costs
// nothing. Any goroutine may call the methods.
type Secrets struct {
	known atomic.Pointer[known] // nil for none

	mu struct {
		sync.Mutex
		learned [][]string // latest last
	}
}

// known is immutable.
type known struct {
	whole    map[string]bool
	replacer *strings.Replacer
}

// Learn adds the secrets of a source.
func (s *Secrets) Learn(texts []string) {
	texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	slices.Sort(texts)
	texts = slices.Compact(texts)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.IndexFunc(s.mu.learned, func(old []string) bool { return slices.Equal(old, texts) }); i >= 0 {
		s.mu.learned = append(slices.Delete(s.mu.learned, i, i+1), texts)
		return
	}
	if len(texts) == 0 {
		return
	}
	s.mu.learned = append(s.mu.learned, texts)
	if len(s.mu.learned) > sources {
		s.mu.learned = s.mu.learned[1:]
	}
	s.known.Store(compile(slices.Concat(s.mu.learned...)))
}

func compile(texts []string) *known {
	k := &known{whole: make(map[string]bool)}
	seen := make(map[string]bool)
	var all []string
	for _, text := range texts {
		k.whole[text] = true
		for _, part := range parts(text) {
			for _, form := range forms(part) {
				if len(form) >= leastInText && !seen[form] {
					seen[form] = true
					all = append(all, form)
				}
			}
		}
	}
	// Longest first: one may be part of another.
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	pairs := make([]string, 0, 2*len(all))
	for _, form := range all {
		pairs = append(pairs, form, Hidden)
	}
	k.replacer = strings.NewReplacer(pairs...)
	return k
}

var (
	userinfo = regexp.MustCompile(`:([^:@/\s]+)@`)
	keyword  = regexp.MustCompile(`(?i)(?:password|passwd|pwd|token|secret|key)\s*=\s*'?([^\s&;']+)`)
	scheme   = regexp.MustCompile(`(?i)^(?:bearer|basic|token|apikey)\s+(\S+)$`)
)

// parts returns a secret, and what programs may quote of it: its lines, the password in
// a URL or connection string, the token after its scheme.
func parts(text string) []string {
	all := []string{text, strings.TrimSpace(text)}
	if strings.Contains(text, "\n") {
		for line := range strings.Lines(text) {
			if line = strings.TrimSpace(line); len(line) >= leastLine && !strings.HasPrefix(line, "-----") {
				all = append(all, line)
			}
		}
		return all
	}
	for _, pattern := range []*regexp.Regexp{userinfo, keyword, scheme} {
		for _, m := range pattern.FindAllStringSubmatch(text, -1) {
			all = append(all, m[1])
			if plain, err := url.PathUnescape(m[1]); err == nil {
				all = append(all, plain)
			}
		}
	}
	return all
}

// forms returns the forms in which programs write a text.
func forms(text string) []string {
	quoted := strconv.Quote(text)
	ascii := strconv.QuoteToASCII(text)
	bytes := fmt.Sprint([]byte(text))
	all := []string{
		text, strings.ToUpper(text), strings.ToLower(text),
		quoted[1 : len(quoted)-1], ascii[1 : len(ascii)-1],
		url.QueryEscape(text), url.PathEscape(text), url.UserPassword("", text).String()[1:],
		html.EscapeString(text), template.HTMLEscapeString(text), template.JSEscapeString(text),
		hex.EncodeToString([]byte(text)), strings.ToUpper(hex.EncodeToString([]byte(text))),
		bytes[1 : len(bytes)-1],
	}
	if data, err := json.Marshal(text); err == nil {
		all = append(all, string(data[1:len(data)-1]))
	}
	// Within Base64, the characters at the ends depend on the text around the secret.
	for before := range 3 {
		padded := append(make([]byte, before), text...)
		from, to := (before*8+5)/6, len(padded)*8/6
		if to-from >= leastBase64 {
			all = append(all, base64.RawStdEncoding.EncodeToString(padded)[from:to], base64.RawURLEncoding.EncodeToString(padded)[from:to])
		}
	}
	return all
}

// Text returns a text without secrets.
func (s *Secrets) Text(text string) string {
	k := s.known.Load()
	switch {
	case k == nil:
		return text
	case k.whole[text]:
		return Hidden
	}
	return k.replacer.Replace(text)
}

// Error returns an error without secrets in its message: err itself if it has none. The
// error still is, by errors.Is and errors.As, what err is.
func (s *Secrets) Error(err error) error {
	if err == nil || s.known.Load() == nil {
		return err
	}
	text := err.Error()
	if safe := s.Text(text); safe != text {
		return &hidden{text: safe, err: err}
	}
	return err
}

// hidden is an error whose message was changed. It has no Unwrap, so that nothing shows
// the message of the cause by chance.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string        { return h.text }
func (h *hidden) Is(target error) bool { return errors.Is(h.err, target) }
func (h *hidden) As(target any) bool   { return errors.As(h.err, target) }

// Findings returns findings without secrets.
func (s *Secrets) Findings(list diag.List) diag.List {
	if s.known.Load() == nil {
		return list
	}
	for i, d := range list {
		safe := *d
		safe.Node, safe.Path, safe.Pointer = s.Text(d.Node), s.Text(d.Path), s.Text(d.Pointer)
		safe.Msg, safe.Hint, safe.Err = s.Text(d.Msg), s.Text(d.Hint), s.Error(d.Err)
		list[i] = &safe
	}
	return list
}

// Value returns a value without secrets.
func (s *Secrets) Value(v value.Value) value.Value {
	if s.known.Load() == nil {
		return v
	}
	switch v.Kind() {
	case value.KindString:
		text, _ := v.AsString()
		return value.String(s.Text(text))
	case value.KindBinary:
		data, _ := v.AsBinary()
		if safe := s.Text(string(data)); safe != string(data) {
			return value.String(safe)
		}
	case value.KindList:
		elems := make([]value.Value, 0, v.Len())
		for _, e := range v.Elems() {
			elems = append(elems, s.Value(e))
		}
		return value.List(elems...)
	case value.KindMap:
		fields := make([]value.Field, 0, v.Len())
		for name, e := range v.Fields() {
			fields = append(fields, value.Field{Name: s.Text(name), Value: s.Value(e)})
		}
		return value.Map(fields...)
	case value.KindError:
		if err := s.Error(v.AsError()); err != v.AsError() {
			return value.Error(err)
		}
	}
	return v
}
