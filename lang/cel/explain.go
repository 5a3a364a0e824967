package cel

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// A mistake is an error in an expression, with a correction.
type mistake struct {
	offset    int // in bytes
	msg, hint string
}

// explain finds the first mistake in an expression that the parser has refused. The
// messages of the parser are in terms of its grammar ("mismatched input 'and' expecting
// <EOF>"), and do not help an author. ok is false if the order of tokens could be right.
func explain(code string) (mistake, bool) {
	if at := statement().FindStringSubmatchIndex(code); at != nil {
		return mistake{at[2], "a statement of SQL is not an expression", `write a list of its text and its arguments: ["SELECT … WHERE id = :id", {"id": self.id}]; one without arguments is language: text`}, true
	}
	s := &sentence{code: code}
	for s.next() {
		if m, ok := s.check(); ok {
			return m, true
		}
		s.before = s.token
	}
	return s.end()
}

// foreign has corrections for symbols of other languages.
var foreign = map[string]string{
	"=":   "use == to compare; an expression assigns nothing",
	":=":  "use == to compare, or cel.bind(name, value, expression) to give a value a name",
	"===": "use ==",
	"!==": "use !=",
	"<>":  "use !=",
	"&":   "use && for and; for bits there is math.bitAnd(a, b)",
	"|":   "use || for or; for bits there is math.bitOr(a, b)",
	"^":   "for bits there is math.bitXor(a, b)",
	"~":   "for bits there is math.bitNot(a)",
	"=~":  "use text.matches('pattern')",
	"~=":  "use text.matches('pattern')",
	"=>":  "there are no arrow functions: write list.map(x, x + 1), list.filter(x, x > 1)",
	"->":  "there are no arrow functions: write list.map(x, x + 1), list.filter(x, x > 1)",
	"??":  "use a.?b.orValue(c), or has(a.b) ? a.b : c",
	"?.":  "an optional field is written with the dot in front: a.?b",
	"?.[": "an optional element is written a[?0]",
	"++":  "use x + 1; an expression changes nothing",
	"--":  "use x - 1; an expression changes nothing",
	"+=":  "use +; an expression assigns nothing",
	"-=":  "use -; an expression assigns nothing",
	"*=":  "use *; an expression assigns nothing",
	"/=":  "use /; an expression assigns nothing",
	"**":  "there are no powers: multiply, or use language: javascript",
	"<<":  "use math.bitShiftLeft(a, n)",
	">>":  "use math.bitShiftRight(a, n)",
	"...": "there is no spread: join lists with +",
	";":   "there is one expression and no statements: leave the ; out",
	"#":   "a comment begins with //",
	"/*":  "a comment begins with // and goes to the end of the line",
	"$":   "a name stands without $ and braces: self.name",
	"@":   "a name has letters, digits and _ only",
	`\`:   "a backslash may stand in a text only",
	"`":   "only a field is quoted like this: self.`odd name`; a text is in quotes: 'text'",
	"{{":  "a template is put in before the expression is read: set env for the node, or write the name alone",
	"“":   "use straight quotes: \"text\" or 'text'",
	"”":   "use straight quotes: \"text\" or 'text'",
	"‘":   "use straight quotes: \"text\" or 'text'",
	"’":   "use straight quotes: \"text\" or 'text'",
}

// statement matches the beginnings of statements of SQL.
var statement = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?is)^\s*(select\s+(?:\*|[\w"'(:?].*?)\s+from\s|select\s+[\w'":?]+\s*$|insert\s+into\s|replace\s+into\s|merge\s+into\s|delete\s+from\s|update\s+[\w."]+\s+set\s|` +
		`(?:create|alter|drop|truncate)\s+(?:table|index|view|temp|temporary|unique|database|schema)\s|with\s+\w+\s+as\s*\(|pragma\s+\w)`)
})

// symbols are the operators of this and of other languages, the longest first.
var symbols = func() []string {
	all := []string{"&&", "||", "==", "!=", "<=", ">=", "<", ">", "+", "-", "*", "/", "%", "!", "?", ":", ".", ",", "(", ")", "[", "]", "{", "}"}
	for symbol := range foreign {
		all = append(all, symbol)
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return all
}()

// words has corrections for operators and statements of other languages.
var words = map[string]string{
	"and": "use &&", "or": "use ||", "not": "use !", "is": "use ==", "eq": "use ==", "ne": "use !=",
	"AND": "use &&", "OR": "use ||", "NOT": "use !", "IN": "use in", "mod": "use %", "div": "use /",
	"xor": "use a != b for two conditions", "like": "use text.matches('pattern'), contains, startsWith or endsWith",
	"then": "write condition ? a : b", "else": "write condition ? a : b", "instanceof": "use type(x) == string",
	"typeof": "use type(x)", "new": "there are no objects: write a map, {'name': value}",
	"if": "write condition ? a : b", "let": "use cel.bind(name, value, expression)", "var": "use cel.bind(name, value, expression)",
	"const": "use cel.bind(name, value, expression)", "return": "write the expression alone; its value is the result",
	"function": "there are no functions of your own: use language: javascript",
	"for":      "use list.map(x, …), filter, all or exists", "while": "use list.map(x, …), filter, all or exists",
}

// reserved are the reserved words of the grammar.
var reserved = []string{"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
	"package", "namespace", "return", "var", "void", "while"}

type kind uint8

const (
	kindNone kind = iota
	kindName
	kindNumber
	kindText
	kindSymbol
	kindUnclosed // a text without its closing quote
	kindEscape   // a text with an unknown escape
	kindStrange  // an unknown character
)

type token struct {
	kind   kind
	text   string
	offset int
}

func (t token) is(symbols ...string) bool {
	return t.kind == kindSymbol && slices.Contains(symbols, t.text)
}

func (t token) end() int { return t.offset + len(t.text) }

// A sentence is an expression that is read token by token.
type sentence struct {
	code   string
	token  token   // the current one
	before token   // the zero token at the beginning
	open   []token // brackets, and the ? of conditionals
}

func (s *sentence) next() bool {
	at := s.token.end()
	for {
		rest := strings.TrimLeftFunc(s.code[at:], unicode.IsSpace)
		at = len(s.code) - len(rest)
		if !strings.HasPrefix(rest, "//") {
			break
		}
		n := strings.IndexByte(rest, '\n')
		if n < 0 {
			at = len(s.code)
			break
		}
		at += n
	}
	if at == len(s.code) {
		return false
	}
	k, n := scan(s.code[at:])
	s.token = token{k, s.code[at : at+n], at}
	return true
}

// scan returns the kind and the length of the token that text begins with.
func scan(text string) (kind, int) {
	first, size := utf8.DecodeRuneInString(text)
	switch {
	case first == '\'' || first == '"':
		return scanText(text, 0, false)
	case first == '_' || first < utf8.RuneSelf && unicode.IsLetter(first):
		n := 1
		for n < len(text) && wordByte(text[n]) {
			n++
		}
		if n <= 2 && n < len(text) && (text[n] == '\'' || text[n] == '"') && strings.Trim(strings.ToLower(text[:n]), "rb") == "" {
			return scanText(text, n, strings.ContainsAny(text[:n], "rR"))
		}
		return kindName, n
	case '0' <= first && first <= '9':
		return kindNumber, scanNumber(text)
	}
	for _, symbol := range symbols {
		if strings.HasPrefix(text, symbol) {
			return kindSymbol, len(symbol)
		}
	}
	return kindStrange, size
}

func wordByte(c byte) bool {
	return c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

func scanNumber(text string) int {
	n := 0
	for n < len(text) && (wordByte(text[n]) ||
		text[n] == '.' && n+1 < len(text) && '0' <= text[n+1] && text[n+1] <= '9' && !strings.Contains(text[:n], ".") ||
		(text[n] == '-' || text[n] == '+') && (text[n-1] == 'e' || text[n-1] == 'E')) {
		n++
	}
	return n
}

// scanText finds the end of a text whose quote is at the given place.
func scanText(text string, quote int, raw bool) (kind, int) {
	mark := text[quote : quote+1]
	if triple := strings.Repeat(mark, 3); strings.HasPrefix(text[quote:], triple) {
		mark = triple
	}
	k := kindText
	for at := quote + len(mark); at < len(text); {
		switch {
		case strings.HasPrefix(text[at:], mark):
			return k, at + len(mark)
		case text[at] == '\\' && !raw:
			if at+1 < len(text) && !strings.ContainsRune("abfnrtv\\?'\"`xXuU0123", rune(text[at+1])) {
				k = kindEscape
			}
			at += 2
		case text[at] == '\n' && len(mark) == 1:
			return kindUnclosed, at
		default:
			at++
		}
	}
	return kindUnclosed, len(text)
}

// operand reports whether the token can end a value.
func (t token) operand() bool {
	switch t.kind {
	case kindName:
		return t.text != "in"
	case kindNumber, kindText: // the other kinds end the search
		return true
	}
	return t.is(")", "]", "}") || t.kind == kindSymbol && strings.HasPrefix(t.text, "`") && len(t.text) > 1
}

// check checks the current token after the ones before it.
func (s *sentence) check() (mistake, bool) {
	t, b := s.token, s.before
	at := func(offset int, hint, format string, args ...any) (mistake, bool) {
		return mistake{offset, fmt.Sprintf(format, args...), hint}, true
	}
	switch t.kind {
	case kindUnclosed:
		return at(t.offset, `a quote within the text is written \', a line break \n`, "the text that begins here has no closing quote")
	case kindEscape:
		return at(t.offset, `write \\ for a backslash, or r'…' for a text without escapes, such as a pattern: r'\d+'`, "the text has a backslash that begins no escape")
	case kindStrange:
		if r, _ := utf8.DecodeRuneInString(t.text); unicode.IsLetter(r) {
			return at(t.offset, "a field with such a name is written self[\"…\"]", "names have the letters a to z only, not %q", t.text)
		}
		return at(t.offset, "", "the character %q has no meaning here", t.text)
	case kindNumber:
		if m, ok := badNumber(t); ok {
			return m, true
		}
	}
	if t.is("`") && b.is(".") { // self.`odd name`
		if n := strings.IndexByte(s.code[t.offset+1:], '`'); n >= 0 { // it is a name
			s.token.text = s.code[t.offset : t.offset+n+2]
			return mistake{}, false
		}
	}
	if hint, ok := foreign[t.text]; ok && t.kind == kindSymbol && (t.text != "--" || b.operand()) {
		switch {
		case t.is("#", "/*"):
			return at(t.offset, hint, "%q does not begin a comment", t.text)
		case t.is("=") && len(s.open) > 0 && s.open[len(s.open)-1].is("{"):
			hint = `a map is written {"name": value}`
		}
		return at(t.offset, hint, "there is no %q in expressions", t.text)
	}
	if b.is(".") {
		return s.afterDot()
	}
	if t.kind == kindName && s.statement(t, b) {
		return at(t.offset, words[t.text], "there is no %q in expressions", t.text)
	}
	if t.kind == kindName && slices.Contains(reserved, t.text) {
		return at(t.offset, fmt.Sprintf("a field of this name is written self.%s", t.text), "%q is a reserved word", t.text)
	}
	starts := t.kind == kindNumber || t.kind == kindText || t.kind == kindName && t.text != "in"
	switch {
	case starts && b.operand():
		return s.twoValues()
	case starts || t.is("!", "--"), t.is("-") && !b.operand():
		if t.is("!") && b.operand() {
			return at(t.offset, "not equal is !=", "an operator is missing before %q", t.text)
		}
		return mistake{}, false
	case t.is("(", "[", "{"):
		if b.operand() && b.kind != kindName && t.text != "[" {
			return at(t.offset, "", "an operator is missing before %q", t.text)
		}
		s.open = append(s.open, t)
		return mistake{}, false
	case t.is(")", "]", "}"):
		return s.closes()
	case t.is("."):
		return mistake{}, false
	case t.is("?") && (b.is("[", "{", ",")): // an optional entry
		return mistake{}, false
	case !b.operand():
		if b.kind == kindNone {
			return at(t.offset, "", "an expression cannot begin with %q", t.text)
		}
		if t.is(",") && b.is("[", "{") {
			return mistake{}, false
		}
		return at(t.offset, "", "a value is missing between %q and %q", b.text, t.text)
	case t.is("?"):
		s.open = append(s.open, t)
	case t.is(":"):
		return s.colon()
	case t.is(","):
		return s.comma()
	}
	return mistake{}, false
}

// statement reports whether a word is used as in another language.
func (s *sentence) statement(t, b token) bool {
	if _, ok := words[t.text]; !ok {
		return false
	}
	if slices.Contains(reserved, t.text) || b.operand() {
		return true
	}
	// not a, new X: a value follows.
	rest := strings.TrimLeft(s.code[t.end():], " \t\n")
	next, _ := scan(rest + " ")
	return rest != s.code[t.end():] && (next == kindName && !strings.HasPrefix(rest, "in ") || next == kindText || next == kindNumber)
}

func badNumber(t token) (mistake, bool) {
	digits := strings.TrimRight(t.text, "abcdefghijklmnopqrstuvwxyzµ")
	unit := t.text[len(digits):]
	lower := strings.ToLower(t.text)
	switch {
	case strings.Contains(t.text, "_"):
		return mistake{t.offset, fmt.Sprintf("%q is not a number", t.text), "write the digits without _: " + strings.ReplaceAll(t.text, "_", "")}, true
	case strings.HasPrefix(lower, "0x") && strings.Trim(strings.TrimSuffix(lower[2:], "u"), "0123456789abcdef") == "" && len(lower) > 2:
	case slices.Contains([]string{"ns", "us", "µs", "ms", "s", "m", "h", "d"}, unit):
		return mistake{t.offset, fmt.Sprintf("%q is not a number", t.text), fmt.Sprintf("a duration is written duration('%s')", t.text)}, true
	case strings.Trim(strings.TrimSuffix(lower, "u"), "0123456789.e+-") != "" || strings.HasSuffix(lower, "e"):
		return mistake{t.offset, fmt.Sprintf("%q is not a number", t.text), ""}, true
	}
	return mistake{}, false
}

func (s *sentence) afterDot() (mistake, bool) {
	t := s.token
	switch {
	case t.kind == kindName:
		if t.text == "in" {
			return mistake{t.offset, `"in" is a reserved word`, "a field of this name is written self[\"in\"]"}, true
		}
		return mistake{}, false
	case t.is("?"): // a.?b
		s.token = s.before
		s.token.offset = t.offset
		return mistake{}, false
	case t.kind == kindText:
		return mistake{t.offset, "a name must follow the dot, not a text", fmt.Sprintf("write [%s] instead of .%[1]s", t.text)}, true
	case t.kind == kindNumber:
		return mistake{t.offset, "a name must follow the dot, not a number", fmt.Sprintf("write [%s] instead of .%[1]s", t.text)}, true
	}
	return mistake{t.offset, fmt.Sprintf("a name must follow the dot, not %q", t.text), ""}, true
}

func (s *sentence) twoValues() (mistake, bool) {
	t, b := s.token, s.before
	m := mistake{t.offset, fmt.Sprintf("an operator is missing between %s and %s", shown(b), shown(t)), ""}
	switch {
	case b.kind == kindText && t.kind == kindName && b.end() == t.offset:
		m.hint = `a quote within a text is written \', or the text is put in the other quotes: "it's"`
	case b.kind == kindText && t.kind == kindText:
		m.hint = "join texts with +"
	case len(s.open) > 0 && s.open[len(s.open)-1].is("{") && b.kind == kindText:
		m.msg, m.hint = fmt.Sprintf("a colon is missing between %s and %s", shown(b), shown(t)), ""
	case len(s.open) > 0 && !s.open[len(s.open)-1].is("?"):
		m.msg = fmt.Sprintf("an operator or a comma is missing between %s and %s", shown(b), shown(t))
	}
	return m, true
}

// shown quotes a token, cut if it is long.
func shown(t token) string {
	text := []rune(t.text)
	if len(text) > 30 {
		text = append(text[:30], '…')
	}
	if t.kind == kindText {
		return string(text)
	}
	return fmt.Sprintf("%q", string(text))
}

func closer(open token) string {
	return map[string]string{"(": ")", "[": "]", "{": "}"}[open.text]
}

func (s *sentence) closes() (mistake, bool) {
	t, b := s.token, s.before
	if len(s.open) == 0 {
		return mistake{t.offset, fmt.Sprintf("%q closes nothing", t.text), "leave it out, or open it before"}, true
	}
	last := s.open[len(s.open)-1]
	switch {
	case last.is("?"):
		return mistake{last.offset, "this ? has no :", "write condition ? a : b"}, true
	case closer(last) != t.text:
		return mistake{t.offset, fmt.Sprintf("%q does not close %q", t.text, last.text), fmt.Sprintf("close it with %q first", closer(last))}, true
	case b.operand(), b == last, b.is(",") && !t.is(")"):
		s.open = s.open[:len(s.open)-1]
		return mistake{}, false
	}
	return mistake{t.offset, fmt.Sprintf("a value is missing between %q and %q", b.text, t.text), ""}, true
}

func (s *sentence) colon() (mistake, bool) {
	if n := len(s.open); n > 0 && s.open[n-1].is("?") {
		s.open = s.open[:n-1]
		return mistake{}, false
	}
	if n := len(s.open); n > 0 && s.open[n-1].is("{") {
		return mistake{}, false
	}
	return mistake{s.token.offset, `":" belongs to a condition or a map`, `write condition ? a : b, or {"name": value}`}, true
}

func (s *sentence) comma() (mistake, bool) {
	switch n := len(s.open); {
	case n == 0:
		return mistake{s.token.offset, "a comma stands between arguments or elements only", "a list is written [a, b]"}, true
	case s.open[n-1].is("?"):
		return mistake{s.open[n-1].offset, "this ? has no :", "write condition ? a : b"}, true
	}
	return mistake{}, false
}

func (s *sentence) end() (mistake, bool) {
	b := s.before
	switch {
	case b.kind == kindNone:
		return mistake{0, "the expression is empty", ""}, true
	case b.is("."):
		return mistake{b.end(), "the expression ends too early: a name is missing after the dot", ""}, true
	case !b.operand() && !b.is("(", "[", "{"):
		return mistake{b.end(), fmt.Sprintf("the expression ends too early: a value is missing after %q", b.text), ""}, true
	case len(s.open) == 0:
		return mistake{}, false
	}
	last := s.open[len(s.open)-1]
	if last.is("?") {
		return mistake{last.offset, "this ? has no :", "write condition ? a : b"}, true
	}
	return mistake{b.end(), fmt.Sprintf("the expression ends too early: %q is not closed", last.text), fmt.Sprintf("close it with %q", closer(last))}, true
}
