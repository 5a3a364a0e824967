package javascript

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// The parsers recurse, and a stack overflow ends the process: 200,000 nested conditionals
// did that. For some code they also take quadratic time: 11 seconds for 12,000 nested
// ifs, half an hour for 120 KB of a=>a=>…. So code is first read as tokens, roughly, to
// limit the nesting by brackets and by operators.
const (
	maxNesting = 1000      // nested brackets
	maxChain   = 3000      // operators without a semicolon, a comma or the end of a line between them
	maxCases   = 2000      // cases of one switch
	maxSource  = 128 << 10 // bytes of code in a document
)

// A scanner reads code as tokens.
type scanner struct {
	code  string
	at    int
	open  []bracket
	chain int // operators in all open brackets together

	before  tokenKind // the kind of the previous token
	newline bool      // a line ended since
	ended   bool      // after a semicolon or the end of a block
}

// A bracket is an open bracket. The first one stands for the code itself.
type bracket struct {
	char  byte
	at    int
	chain int
	cases int
	head  bool // of if, for, while: a statement follows
}

type tokenKind uint8

const (
	operator  tokenKind = iota // or the beginning
	operand                    // can end an expression
	keyword                    // a word that needs something after it
	closed                     // the closing bracket of a block or an object
	condition                  // the closing bracket of if, for or while
)

// A fault is the reason for refusing code, with a place.
type fault struct {
	text string
	at   int
}

// scan reads code. It returns the first fault, or the brackets that are not closed.
func scan(code string) (unclosed []bracket, wrong *fault) {
	s := scanner{code: code, open: []bracket{{}}}
	for s.at < len(s.code) {
		if wrong := s.token(); wrong != nil {
			return nil, wrong
		}
	}
	return s.open[1:], nil
}

// position returns line and column, from 1.
func position(code string, at int) (line, col int) {
	start := strings.LastIndexByte(code[:at], '\n') + 1
	return 1 + strings.Count(code[:at], "\n"), 1 + utf8.RuneCountInString(code[start:at])
}

func (s *scanner) peek(n int) byte {
	if s.at+n < len(s.code) {
		return s.code[s.at+n]
	}
	return 0
}

func (s *scanner) token() *fault {
	switch c := s.peek(0); {
	case c == '\n':
		s.newline = true
		s.at++
	case c == ' ' || c == '\t' || c == '\r':
		s.at++
	case c == '/' && s.peek(1) == '/':
		s.skipTo("\n")
	case c == '/' && s.peek(1) == '*':
		s.at += 2
		s.skipTo("*/")
		s.at += 2
	case c == '"' || c == '\'':
		s.begin(operand, "")
		s.quoted(c)
	case c == '`':
		s.begin(operator, "")
		s.at++
		return s.link(s.template())
	case c == '/' && s.before != operand && s.before != closed:
		s.begin(operand, "")
		s.pattern()
	case word(c):
		start := s.at
		for s.at < len(s.code) && word(s.code[s.at]) {
			s.at++
		}
		return s.word(s.code[start:s.at])
	case c == '(' || c == '[' || c == '{':
		head := s.before == condition
		s.begin(operator, "")
		wrong := s.link(nil)
		s.open = append(s.open, bracket{char: c, at: s.at, head: head && c == '('})
		s.at++
		if len(s.open)-1 > maxNesting && wrong == nil {
			wrong = &fault{fmt.Sprintf("brackets nest deeper than %d levels", maxNesting), s.at - 1}
		}
		return wrong
	case c == ')' || c == ']' || c == '}':
		s.at++
		return s.close(c)
	case c == ';':
		s.ended, s.before, s.newline = true, operator, false
		s.at++
	case c == ',':
		s.reset()
		s.before, s.newline = operator, false
		s.at++
	default:
		s.begin(operator, "")
		s.at++
		return s.link(nil)
	}
	return nil
}

func word(c byte) bool {
	return c == '_' || c == '$' || c == '#' || c == '@' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// begin is called before each token except white space, and detects the start of a
// statement.
func (s *scanner) begin(kind tokenKind, text string) {
	goesOn := text == "else" || text == "catch" || text == "finally" || text == "in" || text == "instanceof" || text == "of" || text == "as" || text == "satisfies"
	starts := text != "" || kind == operand
	switch {
	case goesOn:
	case s.ended:
		s.reset()
	case s.before == closed && text != "" && text != "while":
		s.reset()
	case s.newline && starts && (s.before == operand || s.before == closed):
		s.reset()
	}
	s.ended, s.newline, s.before = false, false, kind
}

// reset begins a new chain in the innermost bracket.
func (s *scanner) reset() {
	top := &s.open[len(s.open)-1]
	s.chain -= top.chain
	top.chain = 0
}

// link makes the chain longer, unless there is a fault already.
func (s *scanner) link(wrong *fault) *fault {
	s.open[len(s.open)-1].chain++
	if s.chain++; s.chain > maxChain && wrong == nil {
		return &fault{fmt.Sprintf("more than %d operators nest or follow one another in one statement", maxChain), min(s.at, len(s.code))}
	}
	return wrong
}

func (s *scanner) word(text string) *fault {
	switch text {
	case "if", "for", "while", "with":
		s.begin(condition, text)
		return s.link(nil)
	case "else", "do", "new", "typeof", "void", "delete", "await", "yield", "in", "of", "instanceof", "throw", "return", "extends", "as",
		"satisfies", "keyof", "infer", "readonly", "unique", "asserts", "is":
		s.begin(keyword, text)
		return s.link(nil)
	case "case":
		s.begin(keyword, text)
		top := &s.open[len(s.open)-1]
		if top.cases++; top.cases > maxCases {
			return &fault{fmt.Sprintf("a switch has more than %d cases", maxCases), s.at}
		}
		return nil
	}
	s.begin(operand, text)
	return nil
}

func (s *scanner) close(c byte) *fault {
	s.before, s.newline, s.ended = operand, false, false
	if len(s.open) == 1 {
		return nil // the parser reports it
	}
	top := s.open[len(s.open)-1]
	s.reset()
	s.open = s.open[:len(s.open)-1]
	switch {
	case top.char == '`' && c == '}':
		return s.template()
	case top.head:
		s.before = keyword
	case c == '}':
		s.before = closed
	}
	return nil
}

// template reads a template after its ` or after one of its expressions.
func (s *scanner) template() *fault {
	for ; s.at < len(s.code); s.at++ {
		switch c := s.code[s.at]; {
		case c == '\\':
			s.at++
		case c == '`':
			s.at++
			s.before = operand
			return nil
		case c == '$' && s.peek(1) == '{':
			wrong := s.link(nil)
			s.open = append(s.open, bracket{char: '`', at: s.at})
			s.at += 2
			s.before = operator
			if len(s.open)-1 > maxNesting && wrong == nil {
				wrong = &fault{fmt.Sprintf("brackets nest deeper than %d levels", maxNesting), s.at - 1}
			}
			return wrong
		}
	}
	return nil
}

func (s *scanner) quoted(quote byte) {
	for s.at++; s.at < len(s.code); s.at++ {
		switch s.code[s.at] {
		case '\\':
			s.at++
		case quote, '\n':
			s.at++
			return
		}
	}
}

func (s *scanner) pattern() {
	class := false
	for s.at++; s.at < len(s.code); s.at++ {
		switch c := s.code[s.at]; {
		case c == '\\':
			s.at++
		case c == '[':
			class = true
		case c == ']':
			class = false
		case c == '/' && !class:
			s.at++
			return
		case c == '\n':
			return
		}
	}
}

func (s *scanner) skipTo(end string) {
	if i := strings.Index(s.code[min(s.at, len(s.code)):], end); i >= 0 {
		s.at += i
		return
	}
	s.at = len(s.code)
}
