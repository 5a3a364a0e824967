// Package redact hides secrets in what a program puts out: texts, errors, findings,
// values and log records.
//
// A text is either a value, such as a payload or a header, in which each secret is hidden; or it is a
// message, in which the program's own words stand next to values. A secret that is one of these words, such
// as "short", is hidden in a message only where it is a value: see [Secrets.Text].
//
// Read [Secrets] first. The package must not know where secrets come from.
package redact

import (
	"cmp"
	_ "embed"
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
	LeastInText = 4 // shorter secrets, such as a port, occur everywhere: they are hidden as whole texts only
	leastInWord = 6 // shorter secrets of letters and digits are not hidden within longer words
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
	words    []string // hidden as whole words, longest first
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
	encoded := func(form, part string) bool { return !strings.EqualFold(form, part) }
	seen := make(map[string]bool)
	var all []string
	for _, text := range texts {
		k.whole[text] = true
		for _, part := range parts(text) {
			for _, form := range forms(part) {
				switch {
				case len(form) < LeastInText || seen[form]:
					continue
				case !encoded(form, part) && isWord(part) && (len(part) < leastInWord || IsFixed(part)):
					k.words = append(k.words, form)
				default:
					all = append(all, form)
				}
				seen[form] = true
			}
		}
	}
	// Longest first: one may be part of another.
	longest := func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) }
	slices.SortFunc(all, longest)
	slices.SortFunc(k.words, longest)
	pairs := make([]string, 0, 2*len(all))
	for _, form := range all {
		pairs = append(pairs, form, Hidden)
	}
	k.replacer = strings.NewReplacer(pairs...)
	return k
}

// quoted finds what programs may quote of a secret: the password in a URL, the value of a
// connection string, the token after its scheme.
var quoted = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`:([^:@/\s]+)@`),
		regexp.MustCompile(`(?i)(?:password|passwd|pwd|token|secret|key)\s*=\s*'?([^\s&;']+)`),
		regexp.MustCompile(`(?i)^(?:bearer|basic|token|apikey)\s+(\S+)$`),
	}
})

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
	for _, pattern := range quoted() {
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

// Text returns a message without secrets. A secret that is a word of the program's own texts stays where it is
// part of a sentence, between spaces: it is most likely such a word, and to hide it would tell what the secret is.
func (s *Secrets) Text(text string) string { return s.hide(text, true) }

// Plain returns a value without secrets: a text that has no words of the program.
func (s *Secrets) Plain(text string) string { return s.hide(text, false) }

func (s *Secrets) hide(text string, message bool) string {
	k := s.known.Load()
	switch {
	case k == nil:
		return text
	case k.whole[text]:
		return Hidden
	}
	text = k.replacer.Replace(text)
	for _, word := range k.words {
		text = hideWord(text, word, message && IsFixed(word))
	}
	return text
}

// hideWord hides a word where it is not part of a longer one, and with quoted set only where what is
// around it is not that of a word in a sentence.
func hideWord(text, word string, quoted bool) string {
	var safe strings.Builder // of text up to done
	done, from := 0, 0
	for {
		at := strings.Index(text[from:], word)
		if at < 0 {
			break
		}
		at += from
		from = at + len(word)
		before, after := text[:at], text[from:]
		if endsWithWord(before) || beginsWithWord(after) || quoted && inSentence(before, after) {
			continue
		}
		safe.WriteString(text[done:at])
		safe.WriteString(Hidden)
		done = from
	}
	if done == 0 {
		return text
	}
	safe.WriteString(text[done:])
	return safe.String()
}

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isWord(text string) bool {
	for i := range len(text) {
		if !isAlphanumeric(text[i]) {
			return false
		}
	}
	return true
}

func endsWithWord(text string) bool {
	return text != "" && isAlphanumeric(text[len(text)-1]) && !endsWithEscape(text)
}

func beginsWithWord(text string) bool { return text != "" && isAlphanumeric(text[0]) }

// endsWithEscape reports whether the last letters of a text stand for another character, as in URLs (%3D) and
// in quoted texts (\n, \x3d, \u003d). It may take letters for an escape that are not: then more is hidden.
func endsWithEscape(text string) bool {
	behind := func(mark string, digits int) bool {
		at := len(text) - digits - len(mark)
		if at < 0 || text[at:at+len(mark)] != mark {
			return false
		}
		_, err := strconv.ParseUint(text[at+len(mark):], 16, 32)
		return digits == 0 || err == nil
	}
	return behind("%", 2) || behind(`\x`, 2) || behind(`\u`, 4) || behind(`\U`, 8) ||
		len(text) > 1 && text[len(text)-2] == '\\' && strings.IndexByte("abfnrtv", text[len(text)-1]) >= 0
}

// inSentence reports whether a word between two texts is part of a sentence: it has a space on each
// side, or an end of the text, or punctuation that ends it. A word alone behind a colon or an equals sign is
// not: it is the value of what is named there.
func inSentence(before, after string) bool {
	if alone := after == "" || strings.IndexByte(",;\n", after[0]) >= 0; alone && (strings.HasSuffix(before, ": ") || strings.HasSuffix(before, "= ")) {
		return false
	}
	if before != "" && !strings.ContainsRune(" (", rune(before[len(before)-1])) {
		return false
	}
	after = strings.TrimLeft(after, ".,;:!?)")
	return after == "" || after[0] == ' '
}

//go:embed words.txt
var words string

// fixed are the words of the program's own texts.
var fixed = sync.OnceValue(func() map[string]bool {
	all := make(map[string]bool)
	for word := range strings.Lines(words) {
		all[strings.TrimSpace(word)] = true
	}
	return all
})

// IsFixed reports whether a text is a word of the program's own texts, in any case.
func IsFixed(word string) bool { return fixed()[strings.ToLower(word)] }

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
		if safe.Hint != d.Hint {
			safe.Fix = nil // it has the same words
		}
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
		return value.String(s.Plain(text))
	case value.KindBinary:
		data, _ := v.AsBinary()
		if safe := s.Plain(string(data)); safe != string(data) {
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
			fields = append(fields, value.Field{Name: s.Plain(name), Value: s.Value(e)})
		}
		return value.Map(fields...)
	case value.KindError:
		if err := s.Error(v.AsError()); err != v.AsError() {
			return value.Error(err)
		}
	}
	return v
}
