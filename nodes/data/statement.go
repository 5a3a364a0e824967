package data

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A syntax is how a database writes what is not a statement: strings, names, comments
// and placeholders.
type syntax struct {
	numbered    bool // placeholders are $1, $2 and so on; else each is a ?
	backslashes bool // a backslash escapes in strings
	dollars     bool // $tag$ quotes strings, E'' has escapes, comments nest
	brackets    bool // [name] quotes a name
	hashes      bool // # begins a comment, and -- only before a space
}

// An effect is what a statement does, as far as the node has to know.
type effect uint8

const (
	reads   effect = iota // gives rows and changes nothing: needs no transaction
	writes                // changes something, or locks it
	outside               // cannot run in a transaction
	control               // would begin or end a transaction
)

// A statement is one statement of SQL as the driver takes it. It is immutable.
type statement struct {
	text    string
	binds   []bind // what each placeholder stands for, in order
	effect  effect
	rows    bool // it may give rows
	inserts bool // it may make an id
	counts  bool // it reports how many rows it has changed
	ddl     bool
}

// A bind is what a placeholder stands for: a name, or else an index in the list of
// arguments.
type bind struct {
	name  string
	index int
}

// A script is the statements of one text. It is immutable.
type script struct {
	statements []*statement
	names      bool // it has :name or @name
	colons     bool // it has :name
	positions  bool // it has placeholders by position
	most       int  // the highest number of an argument by position
}

// parse takes a text apart. With named set, :name and @name are placeholders.
func parse(text string, s syntax, named bool) (*script, error) {
	p := parser{syntax: s, text: text, named: named, out: new(script)}
	if err := p.run(); err != nil {
		return nil, err
	}
	return p.out, nil
}

// A parser reads a text from left to right.
type parser struct {
	syntax
	text  string
	named bool
	out   *script

	made       strings.Builder // the statement so far, up to copied
	copied     int
	binds      []bind
	numbers    map[string]int // of names, where placeholders are numbered
	unnumbered int            // number of ? so far
	words      words
	brackets   int  // open square brackets, where they do not quote names
	operand    bool // what came last ends an operand
}

// words are the words of a statement that say what it does.
type words struct {
	first, second, last string
	changes, locks      bool
	analyze, returning  bool
	concurrently        bool
	object              bool // it makes something that may have a body, such as a trigger
	depth               int  // of BEGIN in such a body
	semicolon           bool // a semicolon came last, in such a body
	ended               bool // and then END
	any                 bool
}

func (p *parser) run() error {
	for i := 0; i < len(p.text); {
		c := p.text[i]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
			i++
		case c == '-' && strings.HasPrefix(p.text[i:], "--") && (!p.hashes || i+2 == len(p.text) || p.text[i+2] <= ' '), c == '#' && p.hashes:
			i = p.until(i, '\n')
		case c == '/' && strings.HasPrefix(p.text[i:], "/*"):
			i = p.comment(i)
		case c == ';':
			if err := p.semicolon(i); err != nil {
				return err
			}
			i++
		case c == '\'', c == '"', c == '`' && !p.dollars:
			i = p.token(p.quoted(i, c, p.backslashes && c != '`'), true)
		case c == '[' && p.syntax.brackets:
			i = p.token(p.until(i, ']'), true)
		case c == '$' && p.dollars && p.dollar(i) > 0:
			i = p.token(p.dollar(i), true)
		case c == '$' || c == '?':
			i = p.position(i)
		case c == ':' || c == '@':
			i = p.name(i)
		case isLetter(c):
			i = p.word(i)
		case isDigit(c):
			i = p.token(p.wordEnd(i+1, '.'), true)
		default:
			switch c {
			case '[':
				p.brackets++
			case ']':
				p.brackets--
			}
			i = p.token(i+1, c == ')' || c == ']')
		}
	}
	return p.semicolon(len(p.text))
}

// token ends a token of the statement.
func (p *parser) token(end int, operand bool) int {
	p.words.any, p.words.semicolon, p.words.ended = true, false, false
	p.words.last = ""
	p.operand = operand
	return end
}

// comment returns the end of a comment between /* and */.
func (p *parser) comment(i int) int {
	depth := 0
	for i < len(p.text) {
		switch {
		case strings.HasPrefix(p.text[i:], "/*"):
			if i += 2; depth == 0 || p.dollars {
				depth++
			}
		case strings.HasPrefix(p.text[i:], "*/"):
			i += 2
			if depth--; depth == 0 {
				return i
			}
		default:
			i++
		}
	}
	return i
}

// quoted returns the end of a string or a quoted name. A doubled quote stands for one.
func (p *parser) quoted(i int, quote byte, backslashes bool) int {
	for i++; i < len(p.text); i++ {
		switch {
		case p.text[i] == '\\' && backslashes:
			i++
		case p.text[i] != quote:
		case i+1 < len(p.text) && p.text[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(p.text)
}

// until returns the end of what goes to a byte, or to the end of the text.
func (p *parser) until(i int, end byte) int {
	if n := strings.IndexByte(p.text[i:], end); n >= 0 {
		return i + n + 1
	}
	return len(p.text)
}

// dollar returns the end of a string quoted by $tag$, or 0 if there is none.
func (p *parser) dollar(i int) int {
	end := i + 1
	if end < len(p.text) && isLetter(p.text[end]) {
		end = p.wordEnd(end, '_')
	}
	if end == len(p.text) || p.text[end] != '$' {
		return 0
	}
	tag := p.text[i : end+1]
	if n := strings.Index(p.text[end+1:], tag); n >= 0 {
		return end + 1 + n + len(tag)
	}
	return len(p.text)
}

// wordEnd returns the end of the letters, digits and bytes also.
func (p *parser) wordEnd(i int, also byte) int {
	for i < len(p.text) && (isLetter(p.text[i]) || isDigit(p.text[i]) || p.text[i] == also) {
		i++
	}
	return i
}

// word reads a word without quotes.
func (p *parser) word(i int) int {
	end := p.wordEnd(i+1, '$')
	if end < len(p.text) && p.text[end] == '\'' && p.dollars && end == i+1 && (p.text[i] == 'E' || p.text[i] == 'e') {
		return p.token(p.quoted(end, '\'', true), true)
	}
	w := &p.words
	upper := ""
	if end-i <= len("CONCURRENTLY") {
		upper = strings.ToUpper(p.text[i:end])
	}
	called := strings.HasPrefix(strings.TrimLeft(p.text[end:], " \t\r\n"), "(")
	switch upper {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "REPLACE":
		w.changes = w.changes || !called || upper == "UPDATE" && w.last == "FOR"
		w.locks = w.locks || w.last == "FOR"
	case "SHARE", "NO", "KEY":
		w.locks = w.locks || w.last == "FOR" || upper == "SHARE" && w.last == "IN"
	case "INTO":
		w.locks = true
	case "ANALYZE", "ANALYSE":
		w.analyze = true
	case "RETURNING":
		w.returning = true
	case "CONCURRENTLY":
		w.concurrently = true
	case "TRIGGER", "PROCEDURE", "FUNCTION", "EVENT":
		w.object = w.object || w.first == "CREATE"
	case "BEGIN":
		if w.object {
			w.depth++
		}
	}
	switch {
	case w.first == "":
		if w.first = upper; upper == "" {
			w.first = "?" // longer than any that matters
		}
	case w.second == "":
		w.second = upper
	}
	ended := upper == "END" && w.semicolon
	p.token(end, !operators[upper])
	w.last, w.ended = upper, ended
	return end
}

// operators are the words that an operand follows.
var operators = map[string]bool{
	"AND": true, "OR": true, "NOT": true, "IN": true, "LIKE": true, "BETWEEN": true, "THEN": true, "ELSE": true,
	"WHEN": true, "CASE": true, "SELECT": true, "WHERE": true, "LIMIT": true, "OFFSET": true, "SET": true, "IS": true,
}

// position reads a placeholder such as ? or $1.
func (p *parser) position(i int) int {
	end := i + 1
	for end < len(p.text) && isDigit(p.text[end]) {
		end++
	}
	number := p.text[i+1 : end]
	if p.text[i] == '?' && p.numbered || p.text[i] == '$' && number == "" {
		return p.token(i+1, false) // an operator, or a name that the database will refuse
	}
	index := p.unnumbered
	if number == "" {
		p.unnumbered++
	} else if n, err := strconv.Atoi(number); err != nil || n < 1 || n > 65535 {
		return p.token(end, true) // the database says what is wrong
	} else {
		index = n - 1
	}
	p.out.positions = true
	p.out.most = max(p.out.most, index+1)
	if !p.named {
		p.placeholder(i, end, bind{index: index}, number)
	}
	return p.token(end, true)
}

// name reads what begins with a colon or an at sign.
func (p *parser) name(i int) int {
	c := p.text[i]
	if i+1 < len(p.text) && (p.text[i+1] == c || p.text[i+1] == '=') { // ::type, @@global, :=
		return p.token(i+2, false)
	}
	end := i + 1
	if end < len(p.text) && isLetter(p.text[end]) {
		end = p.wordEnd(end, '_') // which is a letter
	}
	slice := c == ':' && p.brackets > 0 && p.operand // a[1:n]
	if end == i+1 || slice {
		return p.token(i+1, false)
	}
	p.out.names, p.out.colons = true, p.out.colons || c == ':'
	if p.named {
		name := p.text[i+1 : end]
		p.placeholder(i, end, bind{name: name}, name)
	}
	return p.token(end, true)
}

// placeholder puts the driver's placeholder in place of the author's. Equal keys share
// a number.
func (p *parser) placeholder(i, end int, b bind, key string) {
	p.made.WriteString(p.text[p.copied:i])
	p.copied = end
	if !p.numbered {
		p.made.WriteByte('?')
		p.binds = append(p.binds, b)
		return
	}
	n, ok := p.numbers[key]
	if !ok {
		if p.numbers == nil {
			p.numbers = make(map[string]int)
		}
		p.binds = append(p.binds, b)
		n = len(p.binds)
		p.numbers[key] = n
	}
	p.made.WriteByte('$')
	p.made.WriteString(strconv.Itoa(n))
}

// semicolon ends a statement, unless it stands in the body of one.
func (p *parser) semicolon(i int) error {
	w := &p.words
	if w.ended {
		w.depth--
	}
	if w.depth > 0 && i < len(p.text) {
		w.semicolon, w.ended, w.last = true, false, ""
		return nil
	}
	if w.any {
		p.made.WriteString(p.text[p.copied:i])
		st := &statement{text: strings.Trim(p.made.String(), " \t\r\n\f"), binds: p.binds}
		if err := w.classify(st); err != nil {
			return err
		}
		p.out.statements = append(p.out.statements, st)
	}
	p.made.Reset()
	p.copied, p.binds, p.numbers, p.words, p.brackets, p.operand = min(i+1, len(p.text)), nil, nil, words{}, 0, false
	return nil
}

var (
	errControl = errors.New("the node begins and ends the transaction of a process itself")
	errCopy    = errors.New("COPY from or to the client is not supported: insert a list of maps, or select the rows")
)

// classify says what the statement does.
func (w *words) classify(st *statement) error {
	switch w.first {
	case "SELECT", "VALUES", "TABLE":
		st.rows = true
		if w.locks {
			st.effect = writes
		}
	case "SHOW", "DESCRIBE", "DESC":
		st.rows = true
	case "EXPLAIN":
		st.rows = true
		if w.analyze && w.changes {
			st.effect = writes
		}
	case "WITH":
		st.rows = !w.changes || w.returning
		st.counts, st.inserts = w.changes, w.changes
		if w.changes || w.locks {
			st.effect = writes
		}
	case "INSERT", "REPLACE":
		st.effect, st.counts, st.inserts, st.rows = writes, true, true, w.returning
	case "UPDATE", "DELETE", "MERGE":
		st.effect, st.counts, st.rows = writes, true, w.returning
	case "PRAGMA", "VACUUM", "CHECKPOINT":
		st.effect, st.rows = outside, true
	case "BEGIN", "START", "COMMIT", "END", "ROLLBACK", "ABORT", "SAVEPOINT", "RELEASE", "XA":
		st.effect = control
		return fmt.Errorf("%s: %w", w.first, errControl)
	case "COPY":
		return errCopy
	case "CREATE", "DROP":
		st.effect, st.ddl = writes, true
		if w.second == "DATABASE" || w.second == "TABLESPACE" || w.concurrently {
			st.effect = outside
		}
	case "ALTER", "REINDEX":
		st.effect, st.ddl = writes, true
		if w.second == "SYSTEM" || w.concurrently {
			st.effect = outside
		}
	case "TRUNCATE", "RENAME", "GRANT", "REVOKE":
		st.effect, st.ddl = writes, true
	case "CALL", "EXECUTE", "FETCH", "CHECK", "OPTIMIZE", "REPAIR", "ANALYZE", "EXEC":
		st.effect, st.rows = writes, true
	default:
		st.effect = writes
	}
	return nil
}

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// scripts keeps texts that were taken apart, the latest ones.
type scripts struct {
	syntax syntax
	recent atomic.Pointer[parsed] // most nodes run one text
	mu     struct {
		sync.Mutex
		cache *simplelru.LRU[scriptKey, *script]
	}
}

type scriptKey struct {
	text  string
	named bool
}

type parsed struct {
	key    scriptKey
	script *script
}

const (
	keptScripts    = 256
	longestScript  = 64 << 10 // bytes of a text that is kept
	keptStatements = 128      // prepared statements of a connection
)

func newScripts(s syntax) *scripts {
	c := &scripts{syntax: s}
	c.mu.cache = newLRU[scriptKey, *script](keptScripts)
	return c
}

func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil { // of a size that is not positive
		panic(err)
	}
	return lru
}

func (c *scripts) get(text string, named bool) (*script, error) {
	key := scriptKey{text, named}
	if r := c.recent.Load(); r != nil && r.key == key {
		return r.script, nil
	}
	if len(text) > longestScript {
		return parse(text, c.syntax, named)
	}
	c.mu.Lock()
	s, ok := c.mu.cache.Get(key)
	c.mu.Unlock()
	if !ok {
		var err error
		if s, err = parse(text, c.syntax, named); err != nil {
			return nil, err
		}
		key.text = strings.Clone(text) // text may be part of a larger one
		c.mu.Lock()
		c.mu.cache.Add(key, s)
		c.mu.Unlock()
	}
	c.recent.Store(&parsed{key, s})
	return s, nil
}
