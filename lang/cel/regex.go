package cel

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
	"unicode/utf8"

	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Limits of regular expressions, because a client may send one.
const (
	maxPattern      = 8 << 10 // bytes
	maxInstructions = 10_000  // [a-z]{1000} is allowed ten times
)

const (
	// instructionsPerStep is how many instructions of a regular expression run in the
	// time of a step. Each instruction may run for each character.
	instructionsPerStep = 20

	// atOnce is how many instructions may run without a check of the meter.
	atOnce = 256 << 10
)

// A pattern is a regular expression that is charged while it runs. The time for a match
// is proportional to the text and to the length of the expression; the time for all
// matches may be quadratic in the text.
type pattern struct {
	re    *regexp.Regexp
	later func() *regexp.Regexp // finds re in group 1, after the first character
	first string                // prefix of every match
	size  int                   // approximate number of instructions
}

func newPattern(text string) (*pattern, error) {
	if len(text) > maxPattern {
		return nil, fmt.Errorf("the regular expression is longer than %d bytes", maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		var bad *syntax.Error
		if errors.As(err, &bad) {
			return nil, fmt.Errorf("not a regular expression: %s: %s", bad.Code, bad.Expr)
		}
		return nil, err
	}
	size := instructions(parsed)
	if size > maxInstructions {
		return nil, fmt.Errorf("the regular expression repeats too much: it has more than %d instructions", maxInstructions)
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	first, _ := re.LiteralPrefix()
	return &pattern{re: re, size: size, first: first, later: sync.OnceValue(func() *regexp.Regexp {
		// With this, a search can start anywhere and still see whether a line or a
		// word begins there. String completes the expression: \Q may be open in text.
		return regexp.MustCompile(`\A(?s:.)(?s:.*?)(` + parsed.String() + `)`)
	})}, nil
}

// instructions returns the approximate length of the program of an expression, without
// compiling it.
func instructions(re *syntax.Regexp) int {
	n := 2 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		n = 2
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) // the parser keeps products of repetitions below 1000
	}
	return n
}

func (p *pattern) matches(m *meter, s string) bool {
	if p.size*len(s) <= atOnce {
		m.charge(1+p.size*len(s)/instructionsPerStep, 0)
		return p.re.MatchString(s)
	}
	re, in, _ := p.at(m, s, 0)
	if re == nil {
		return false
	}
	defer in.settle()
	return re.MatchReader(in)
}

// find returns the first match at or after pos, in the form of
// [regexp.Regexp.FindStringSubmatchIndex], or nil.
func (p *pattern) find(m *meter, s string, pos int) []int {
	if pos == 0 && p.size*len(s) <= atOnce {
		m.charge(1+p.size*len(s)/instructionsPerStep, 0)
		return p.re.FindStringSubmatchIndex(s)
	}
	re, in, base := p.at(m, s, pos)
	if re == nil {
		return nil
	}
	found := re.FindReaderSubmatchIndex(in)
	in.settle()
	if re != p.re && found != nil {
		found = found[2:]
	}
	for i := range found {
		if found[i] >= 0 {
			found[i] += base
		}
	}
	return found
}

// at returns the expression and the text for a search from pos, or nil if there cannot be
// a match.
func (p *pattern) at(m *meter, s string, pos int) (re *regexp.Regexp, in *reader, base int) {
	if p.first != "" {
		i := strings.Index(s[pos:], p.first)
		if i < 0 {
			m.read(len(s) - pos)
			return nil, nil, 0
		}
		m.read(i)
		pos += i
	}
	if pos == 0 {
		return p.re, &reader{m: m, s: s, size: p.size}, 0
	}
	_, before := utf8.DecodeLastRuneInString(s[:pos])
	base = pos - before
	return p.later(), &reader{m: m, s: s[base:], size: p.size}, base
}

// all calls yield with each match that does not overlap the previous one, like
// [regexp.Regexp.FindAllStringSubmatchIndex].
func (p *pattern) all(m *meter, s string, yield func(match []int) bool) {
	if work := p.size * len(s); work <= atOnce && work*len(s) <= 4*atOnce {
		m.charge(1+work*len(s)/atOnce+work/instructionsPerStep, 0)
		for _, match := range p.re.FindAllStringSubmatchIndex(s, -1) {
			if !yield(match) {
				return
			}
		}
		return
	}
	end := -1 // of the previous match
	for pos := 0; pos <= len(s); {
		m.charge(10, 0) // for the set-up of a search
		match := p.find(m, s, pos)
		if match == nil {
			return
		}
		empty := match[1] == pos
		if (!empty || match[0] != end) && !yield(match) {
			return
		}
		end = match[1]
		if pos = end; empty {
			_, size := utf8.DecodeRuneInString(s[pos:])
			pos += max(1, size)
		}
	}
}

// A reader passes a text to a regular expression and charges for the work. The charge
// may end the evaluation.
type reader struct {
	m    *meter
	s    string
	size int // of the expression, in instructions
	read int // characters not charged yet
}

func (r *reader) ReadRune() (rune, int, error) {
	if r.s == "" {
		return 0, 0, io.EOF
	}
	if r.read++; r.read*r.size >= atOnce {
		r.settle()
	}
	char, n := utf8.DecodeRuneInString(r.s)
	r.s = r.s[n:]
	return char, n, nil
}

func (r *reader) settle() {
	r.m.charge(1+r.read*r.size/instructionsPerStep, 0)
	r.read = 0
}

// expression makes a function of a text and a regular expression. A constant expression
// is compiled with the code.
func expression(do func(m *meter, p *pattern, s string, args []ref.Val) ref.Val) func([]interpreter.InterpretableV2) (func(*meter, []ref.Val) ref.Val, error) {
	return func(steps []interpreter.InterpretableV2) (func(*meter, []ref.Val) ref.Val, error) {
		var constant *pattern
		if c, ok := steps[1].(interpreter.InterpretableConst); ok {
			if s, ok := c.Value().(types.String); ok {
				var err error
				if constant, err = newPattern(string(s)); err != nil {
					return nil, err
				}
			}
		}
		return func(m *meter, args []ref.Val) ref.Val {
			s, text, ok := twoTexts(args)
			if !ok {
				return nil
			}
			p := constant
			if p == nil {
				m.charge(100+len(text), 0)
				var err error
				if p, err = newPattern(text); err != nil {
					return types.WrapErr(err)
				}
				m.charge(p.size, 0)
			}
			return do(m, p, s, args)
		}, nil
	}
}

func matches(m *meter, p *pattern, s string, _ []ref.Val) ref.Val {
	return types.Bool(p.matches(m, s))
}

// part returns the part of a match for extract and extractAll: the group, if there is
// one, or the match.
func part(s string, match []int) string {
	if len(match) > 2 {
		match = match[2:]
	}
	if match[0] < 0 {
		return ""
	}
	return s[match[0]:match[1]]
}

func (p *pattern) oneGroup() error {
	if p.re.NumSubexp() > 1 {
		return fmt.Errorf("the regular expression has %d groups, want at most one", p.re.NumSubexp())
	}
	return nil
}

func extract(m *meter, p *pattern, s string, _ []ref.Val) ref.Val {
	if err := p.oneGroup(); err != nil {
		return types.WrapErr(err)
	}
	match := p.find(m, s, 0)
	if match == nil || len(match) > 2 && part(s, match) == "" {
		return types.OptionalNone
	}
	return types.OptionalOf(types.String(part(s, match)))
}

func extractAll(m *meter, p *pattern, s string, _ []ref.Val) ref.Val {
	if err := p.oneGroup(); err != nil {
		return types.WrapErr(err)
	}
	found := []string{}
	p.all(m, s, func(match []int) bool {
		if text := part(s, match); text != "" || len(match) == 2 {
			m.charge(1, 2*elementBytes)
			found = append(found, text)
		}
		return true
	})
	return types.NewStringList(types.DefaultTypeAdapter, found)
}

func replaceMatches(m *meter, p *pattern, s string, args []ref.Val) ref.Val {
	with, ok := args[2].(types.String)
	if !ok {
		return nil
	}
	left := -1 // replacements; negative: all
	if len(args) > 3 {
		n, ok := args[3].(types.Int)
		if !ok {
			return nil
		}
		if left = int(n); left == 0 {
			return args[0]
		}
	}
	m.read(len(with))
	template, err := p.template(string(with))
	if err != nil {
		return types.WrapErr(err)
	}
	var out []string // joined when the size is known to be allowed
	put := func(text string) {
		m.write(elementBytes + len(text))
		out = append(out, text)
	}
	done := 0
	p.all(m, s, func(match []int) bool {
		put(s[done:match[0]])
		for _, piece := range template {
			if piece.group < 0 {
				put(piece.text)
			} else if from := match[2*piece.group]; from >= 0 {
				put(s[from:match[2*piece.group+1]])
			}
		}
		done = match[1]
		left--
		return left != 0
	})
	put(s[done:])
	return types.String(strings.Join(out, ""))
}

// A piece is a part of a replacement: a text or a group of the match.
type piece struct {
	text  string
	group int // -1: text
}

// template reads a replacement, where \1 is the first group and \\ a backslash.
func (p *pattern) template(with string) ([]piece, error) {
	var pieces []piece
	for with != "" {
		text, rest, escaped := strings.Cut(with, `\`)
		if text != "" {
			pieces = append(pieces, piece{text, -1})
		}
		if with = rest; !escaped {
			break
		}
		switch {
		case rest != "" && rest[0] == '\\':
			pieces = append(pieces, piece{`\`, -1})
		case rest == "" || rest[0] < '0' || rest[0] > '9':
			return nil, errors.New(`in a replacement, \ must be followed by the number of a group or by another \`)
		case int(rest[0]-'0') > p.re.NumSubexp():
			return nil, fmt.Errorf(`the replacement has \%c, but the regular expression has %d groups`, rest[0], p.re.NumSubexp())
		default:
			pieces = append(pieces, piece{group: int(rest[0] - '0')})
		}
		with = rest[1:]
	}
	return pieces, nil
}
