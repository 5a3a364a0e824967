package javascript

import (
	"io"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/dlclark/regexp2/v2"
	"github.com/dop251/goja"
	"github.com/dop251/goja/parser"
)

// The interpreter matches with package regexp, in time linear to pattern × text for one
// match. For look-around, back references and most searches that do not start at 0 it
// uses regexp2, which backtracks. Neither can be interrupted, and after a timeout of
// regexp2 the interpreter reports that there is no match. So each match that may be slow
// is rehearsed here first, where it can be stopped. The interpreter repeats it only if it
// ended in time.

// Limits of patterns, and of matches without a rehearsal.
const (
	maxPattern      = 64 << 10 // characters
	maxPatternDepth = 200      // nested groups: the compilers recurse
	maxPatternSize  = 100_000  // instructions
	maxBacktracked  = 8 << 20  // characters of a text for regexp2, which needs some 40 bytes for each
	cheapMatch      = 1 << 22  // instructions × characters, some 50 ms
	maxMatch        = 5 * time.Second
	maxPatterns     = 256 // kept by an engine
)

// A patternKey is the source of a pattern.
type patternKey struct {
	source                                          string
	ignoreCase, multiline, dotAll, unicode, flagged bool // flagged: global or sticky
}

// A pattern is a compiled regular expression, which matches as the interpreter does.
type pattern struct {
	key     patternKey
	linear  *regexp.Regexp  // nil if package regexp cannot
	size    int             // approximate instructions of linear
	longest int             // maximum characters of a match of linear
	back    *regexp2.Regexp // nil until it is needed
}

// newPattern checks the pattern of a new RegExp.
func newPattern(e *engine, name string, c *call) {
	if v := c.Argument(0); goja.IsUndefined(v) || matches(v, goja.SymMatch) {
		return // a RegExp was checked when it was made
	}
	s := e.textArgument(c, 0)
	if s.Length() > maxPattern {
		e.refuse("a regular expression may have %d characters, this has %d", maxPattern, s.Length())
	}
	if why := checkPattern(s.String()); why != "" {
		e.refuse("%s", why)
	}
}

// checkPattern says why a pattern is too large to compile, or returns "".
func checkPattern(source string) string {
	depth, class := 0, false
	for i := 0; i < len(source); i++ {
		switch c := source[i]; {
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			if depth++; depth > maxPatternDepth {
				return "the groups of a regular expression nest too deep: 200 levels are the most"
			}
		case c == ')':
			depth = max(0, depth-1)
		}
	}
	if !strings.Contains(source, "{") {
		return "" // it has not many more instructions than characters
	}
	if tree := parseLinear(patternKey{source: source}); tree != nil {
		if size, _ := extent(tree); size > maxPatternSize {
			return "the repetitions of a regular expression make it too large"
		}
	}
	return ""
}

// parseLinear parses a pattern for package regexp. It returns nil if that cannot match it.
func parseLinear(key patternKey) *syntax.Regexp {
	text, err := parser.TransformRegExp(key.source, key.dotAll, key.unicode)
	if err != nil {
		return nil
	}
	flags := syntax.Perl
	if key.multiline {
		flags &^= syntax.OneLine
	}
	if key.dotAll {
		flags |= syntax.DotNL
	}
	if key.ignoreCase {
		flags |= syntax.FoldCase
	}
	tree, err := syntax.Parse(text, flags)
	if err != nil {
		return nil
	}
	return tree
}

const unbounded = 1 << 40

// extent returns the approximate number of instructions of a pattern, and the maximum
// characters of a match.
func extent(tree *syntax.Regexp) (size, longest int) {
	saturate := func(n int) int { return min(n, unbounded) }
	switch tree.Op {
	case syntax.OpLiteral:
		return len(tree.Rune), len(tree.Rune)
	case syntax.OpAlternate:
		for _, sub := range tree.Sub {
			n, l := extent(sub)
			size, longest = saturate(size+n+1), max(longest, l)
		}
		return size, longest
	case syntax.OpConcat, syntax.OpCapture, syntax.OpQuest:
		for _, sub := range tree.Sub {
			n, l := extent(sub)
			size, longest = saturate(size+n), saturate(longest+l)
		}
		return size + 2, longest
	case syntax.OpStar, syntax.OpPlus:
		size, _ = extent(tree.Sub[0])
		return size + 1, unbounded
	case syntax.OpRepeat:
		n, l := extent(tree.Sub[0])
		times := max(tree.Min, tree.Max, 1)
		if tree.Max < 0 {
			return saturate((n + 1) * times), unbounded
		}
		return saturate((n + 1) * times), saturate(l * times)
	}
	return 1, 1
}

// patternOf returns the pattern of a RegExp object, or nil for other values.
func (e *engine) patternOf(v goja.Value) (p *pattern, global, sticky bool) {
	o, ok := v.(*goja.Object)
	if !ok || o.ClassName() != "RegExp" {
		return nil, false, false
	}
	object, err := inner(o)
	if err != nil {
		return nil, false, false
	}
	field := object.FieldByName("pattern")
	if field.Kind() != reflect.Pointer || field.IsNil() {
		return nil, false, false // derived from RegExp.prototype, or a Proxy
	}
	field = field.Elem()
	flag := func(name string) bool { return field.FieldByName(name).Bool() }
	global, sticky = flag("global"), flag("sticky")
	key := patternKey{field.FieldByName("src").String(), flag("ignoreCase"), flag("multiline"), flag("dotAll"), flag("unicode"), global || sticky}
	if p, ok := e.patterns[key]; ok {
		return p, global, sticky
	}
	p = &pattern{key: key}
	if tree := parseLinear(key); tree != nil && !field.FieldByName("regexpWrapper").IsNil() {
		p.size, p.longest = extent(tree)
		p.linear, _ = regexp.Compile(tree.String()) // nil: use regexp2
	}
	if e.patterns == nil || len(e.patterns) >= maxPatterns {
		e.patterns = make(map[patternKey]*pattern)
	}
	e.patterns[key] = p
	return p, global, sticky
}

func matchOnce(e *engine, name string, c *call) {
	p, global, sticky := e.patternOf(c.This)
	if p == nil {
		return
	}
	start := int64(0)
	if global || sticky {
		start = e.lastIndex(c.This)
	}
	e.rehearse(p, e.textArgument(c, 0), start, true)
}

func (e *engine) lastIndex(v goja.Value) int64 {
	if at := v.(*goja.Object).Get("lastIndex"); at != nil {
		return at.ToInteger()
	}
	return 0
}

// matching is for functions that match from the start: once, or as often as possible.
func matching(once bool) inspection {
	return func(e *engine, _ string, c *call) {
		if p, _, _ := e.patternOf(c.This); p != nil {
			e.rehearse(p, e.textArgument(c, 0), 0, once)
		}
	}
}

func matchFlagged(e *engine, name string, c *call) {
	p, global, _ := e.patternOf(c.This)
	if p == nil {
		return
	}
	if !global {
		matchOnce(e, name, c)
		return
	}
	e.rehearse(p, e.textArgument(c, 0), 0, false)
}

// replaceMatches is RegExp.prototype[Symbol.replace](text, by).
func replaceMatches(e *engine, _ string, c *call) {
	p, global, _ := e.patternOf(c.This)
	if p == nil {
		return
	}
	s := e.textArgument(c, 0)
	if !global {
		matchOnce(e, "", c)
	}
	times := -1
	if global {
		times = e.rehearse(p, s, 0, false)
	}
	by := call{Arguments: []goja.Value{goja.Undefined(), c.Argument(1)}}
	e.replacement("replace", &by, s, strings.Contains(p.key.source, "(?"), func(enough int) int {
		switch {
		case !global:
			return 1
		case times < 0:
			times = e.rehearsal(p, s, 0, enough)
		}
		return times
	})
	setArgument(c, 1, by.Arguments[1])
}

// rehearse matches p once, or as often as possible, unless that cannot be slow. It throws
// if that takes too long. It returns the number of matches, or -1 without a rehearsal.
func (e *engine) rehearse(p *pattern, s goja.String, start int64, once bool) int {
	n := s.Length()
	if start < 0 || start > int64(n) {
		return -1
	}
	if p.linear != nil && start == 0 {
		cost := n * p.size
		if !once {
			cost *= 1 + min(n, p.longest)
		}
		if cost >= 0 && cost <= cheapMatch && (once || ascii(s)) {
			return -1
		}
	} else if n-int(start) < 8 {
		return -1
	}
	if once {
		return e.rehearsal(p, s, int(start), 1)
	}
	times := e.rehearsal(p, s, int(start), maxMatches+1)
	if times > maxMatches {
		e.refuse("the text has more than %d matches, which are the most", maxMatches)
	}
	return times
}

// rehearsal matches p at most the given number of times, and returns the number of matches.
func (e *engine) rehearsal(p *pattern, s goja.String, start, enough int) int {
	until := time.Now().Add(maxMatch)
	if t := &e.text; t.of == nil || t.code != p.key.unicode || !same(t.of, s) {
		t.of, t.code = s, p.key.unicode
		t.runes, t.whole = runesOf(s, p.key.unicode)
	}
	runes, whole := e.text.runes, e.text.whole
	var times int
	var slow bool
	if p.linear != nil && start == 0 && (enough == 1 || p.key.unicode && whole || ascii(s)) {
		times, slow = e.matchLinear(p.linear, runes, until, enough)
	} else {
		if len(runes) > maxBacktracked {
			e.refuse("this regular expression can be matched with %d characters, not %d", maxBacktracked, len(runes))
		}
		times, slow = e.matchBacktracking(p, runes, start, until, enough)
	}
	e.poll()
	if slow {
		e.refuse("the regular expression is too slow for this text: it took longer than %s", maxMatch)
	}
	return times
}

// same reports whether two texts are the same in memory. To compare them would take
// quadratic time in a loop over matches.
func same(a, b goja.String) bool {
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	switch {
	case x.Type() != y.Type():
		return false
	case x.Kind() == reflect.Slice:
		return x.Len() == y.Len() && x.Pointer() == y.Pointer()
	case x.Kind() == reflect.Pointer:
		return x.Pointer() == y.Pointer()
	}
	return x.Kind() == reflect.String && x.String() == y.String()
}

// runesOf returns the characters for a pattern: code points, or code units of UTF-16. It
// also reports whether there is no lone surrogate.
func runesOf(s goja.String, unicode bool) (runes []rune, whole bool) {
	n := s.Length()
	runes, whole = make([]rune, 0, n), true
	for i := 0; i < n; i++ {
		r := rune(s.CharAt(i))
		if utf16.IsSurrogate(r) && unicode {
			if pair := utf16.DecodeRune(r, rune(at(s, i+1))); pair != 0xFFFD {
				r = pair
				i++
			} else {
				whole = false
			}
		}
		runes = append(runes, r)
	}
	return runes, whole
}

func at(s goja.String, i int) uint16 {
	if i < s.Length() {
		return s.CharAt(i)
	}
	return 0
}

// A runeReader reads characters until it is stopped, which looks like the end.
type runeReader struct {
	e       *engine
	runes   []rune
	next    int
	until   time.Time
	stopped bool
}

func (r *runeReader) ReadRune() (rune, int, error) {
	if r.next%64 == 63 && (r.e.stopping.Load() || time.Now().After(r.until)) {
		r.stopped = true
	}
	if r.stopped || r.next >= len(r.runes) {
		return 0, 0, io.EOF
	}
	r.next++
	return r.runes[r.next-1], 1, nil
}

func (e *engine) matchLinear(re *regexp.Regexp, runes []rune, until time.Time, enough int) (times int, slow bool) {
	for at := 0; at <= len(runes); {
		r := runeReader{e: e, runes: runes[at:], until: until}
		found := re.FindReaderIndex(&r)
		if r.stopped || time.Now().After(until) {
			return times, true
		}
		if found == nil {
			break
		}
		if times++; times >= enough {
			break
		}
		at += max(found[1], found[0]+1)
		if e.stopping.Load() {
			break
		}
	}
	return times, false
}

func (e *engine) matchBacktracking(p *pattern, runes []rune, start int, until time.Time, enough int) (times int, slow bool) {
	if p.back == nil {
		options := regexp2.RegexOptions(regexp2.ECMAScript)
		for flag, on := range map[regexp2.RegexOptions]bool{
			regexp2.Multiline: p.key.multiline, regexp2.Singleline: p.key.dotAll, regexp2.IgnoreCase: p.key.ignoreCase, regexp2.Unicode: p.key.unicode,
		} {
			if on {
				options |= flag
			}
		}
		made, err := regexp2.Compile(p.key.source, options)
		if err != nil {
			return 0, false // the interpreter reports it
		}
		p.back = made
	}
	// In slices, because the run may have to stop meanwhile.
	p.back.MatchTimeout = e.timeLeft(maxMatch)
	found, err := p.back.FindRunesMatchStartingAt(runes, min(start, len(runes)))
	for err == nil && found != nil {
		if times++; times >= enough || e.stopping.Load() {
			return times, false
		}
		if time.Now().After(until) {
			return times, true
		}
		p.back.MatchTimeout = min(e.timeLeft(maxMatch), time.Until(until))
		found, err = p.back.FindNextMatch(found)
	}
	return times, err != nil // the only error is a timeout
}
