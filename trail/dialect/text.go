package dialect

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A selection is a SELECT that can be printed, one clause a line. Parts that are
// empty are left out.
type selection struct {
	with     []named
	distinct bool
	columns  []string
	from     string     // a table, with joins a line each
	sub      *selection // instead of from
	joins    []string
	where    []cond // ANDed
	groupBy  []string
	having   []cond
	window   []string // name AS (…)
	orderBy  []string
	limit    int
	settings string
	union    []*selection // UNION ALL of these, instead of all above but with
}

// A named is a common table expression.
type named struct {
	name string
	is   *selection
	kept bool // computed once and kept, not put in wherever it is used; of DuckDB only
}

// let adds a common table expression.
func (s *selection) let(n string, is *selection) { s.with = append(s.with, named{name: n, is: is}) }

// keep adds one that DuckDB computes once.
func (s *selection) keep(n string, is *selection) {
	s.with = append(s.with, named{name: n, is: is, kept: true})
}

// String returns the statement, ending with a newline.
func (s *selection) String() string {
	var b strings.Builder
	s.print(&b, "")
	return b.String()
}

func (s *selection) print(b *strings.Builder, indent string) {
	line := func(format string, args ...any) { fmt.Fprintf(b, indent+format+"\n", args...) }
	if len(s.with) > 0 {
		line("WITH")
		for i, n := range s.with {
			word := "AS"
			if n.kept {
				word = "AS MATERIALIZED"
			}
			line("    %s %s (", n.name, word)
			n.is.print(b, indent+"        ")
			line("    )%s", comma(i, len(s.with)))
		}
	}
	if len(s.union) > 0 {
		for i, part := range s.union {
			if i > 0 {
				line("UNION ALL")
			}
			part.print(b, indent)
		}
		return
	}
	word := "SELECT"
	if s.distinct {
		word = "SELECT DISTINCT"
	}
	if one := strings.Join(s.columns, ", "); len(s.columns) < 4 && len(one) < 72 && !strings.Contains(one, "\n") {
		line("%s %s", word, one)
	} else {
		line("%s", word)
		for i, column := range s.columns {
			column = strings.ReplaceAll(column, "\n", "\n"+indent+"    ")
			line("    %s%s", column, comma(i, len(s.columns)))
		}
	}
	if s.sub != nil {
		line("FROM (")
		s.sub.print(b, indent+"    ")
		line(")")
	} else if s.from != "" {
		line("FROM %s", s.from)
	}
	for _, join := range s.joins {
		line("%s", join)
	}
	conditions(line, "WHERE", s.where)
	if len(s.groupBy) > 0 {
		line("GROUP BY %s", strings.Join(s.groupBy, ", "))
	}
	conditions(line, "HAVING", s.having)
	for i, w := range s.window {
		line("%s %s%s", []string{"WINDOW", "      "}[min(i, 1)], w, comma(i, len(s.window)))
	}
	if len(s.orderBy) > 0 {
		line("ORDER BY %s", strings.Join(s.orderBy, ", "))
	}
	if s.limit > 0 {
		line("LIMIT %d", s.limit)
	}
	if s.settings != "" {
		line("SETTINGS %s", s.settings)
	}
}

// conditions prints what is ANDed, a line each; true is left out.
func conditions(line func(string, ...any), word string, list []cond) {
	var parts []string
	for _, c := range list {
		parts = append(parts, c.conjuncts()...)
	}
	pad := strings.Repeat(" ", len(word)-3)
	for i, part := range parts {
		if i == 0 {
			line("%s %s", word, part)
		} else {
			line("%sAND %s", pad, part)
		}
	}
}

func comma(i, n int) string {
	if i+1 < n {
		return ","
	}
	return ""
}

// reserved words cannot be names without quotes in one dialect or the other. A
// name that is quoted needlessly does no harm.
const reserved = " all alter analyse analyze and anti any array as asc asof at attach between bigint bit boolean both by case cast char check cluster coalesce collate " +
	"column constraint create cross cube current date datetime dec decimal default deferrable delete desc describe detach distinct div do drop else end " +
	"enum except exists explain extract false fetch final float following for foreign format from full function glob global grant group grouping having " +
	"ilike in index initially inner insert int integer intersect interval into is isnull join key lambda lateral leading left like limit local " +
	"map materialized mod national natural no none not notnull null nullif nulls numeric of offset on only or order outer overlaps overlay pivot pivot_longer pivot_wider " +
	"placing position positional preceding precision prewhere primary qualify range real recursive references replace returning right row rows sample select semi set sets setof settings show similar " +
	"smallint some struct substring summarize symmetric table tablesample then time timestamp to top totals trailing treat trim true truncate try_cast " +
	"unbounded union unique unpivot update user using values varchar variadic view when where window with within xmlelement "

// name returns a name as SQL has it: as it is where that is safe, else in quotes.
func name(d Dialect, n string) string {
	plain := n != "" && !strings.ContainsFunc(n, func(r rune) bool {
		return r != '_' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	}) && (n[0] < '0' || n[0] > '9') && !strings.Contains(reserved, " "+n+" ")
	if plain {
		return n
	}
	if d == DuckDB {
		return `"` + strings.ReplaceAll(n, `"`, `""`) + `"`
	}
	return `"` + escape(n, '"') + `"`
}

// text returns a string as a literal. Control characters are written as escapes,
// so that a line of SQL stays a line.
func (c *compiler) text(s string) string {
	if c.dialect == ClickHouse {
		return "'" + escape(s, '\'') + "'"
	}
	if !utf8.ValidString(s) {
		c.unsupported("a text that is not UTF-8 (%q)", s)
		return "''"
	}
	if !strings.ContainsFunc(s, control) {
		return "'" + strings.ReplaceAll(s, "'", "''") + "'"
	}
	// DuckDB has no escape for a NUL.
	parts := strings.Split(s, "\x00")
	for i, part := range parts {
		parts[i] = "E'" + escape(part, '\'') + "'"
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return "(" + strings.Join(parts, " || chr(0) || ") + ")"
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// escape puts a backslash before backslashes and the quote, and writes control
// characters so.
func escape(s string, quote byte) string {
	var b strings.Builder
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == quote || ch == '\\':
			b.WriteByte('\\')
			b.WriteByte(ch)
		case ch == '\n':
			b.WriteString(`\n`)
		case ch == '\r':
			b.WriteString(`\r`)
		case ch == '\t':
			b.WriteString(`\t`)
		case ch < ' ' || ch == 0x7f:
			fmt.Fprintf(&b, `\x%02X`, ch)
		default:
			b.WriteByte(ch)
		}
	}
	return b.String()
}

// texts returns literals in brackets: ('a', 'b').
func (c *compiler) texts(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = c.text(s)
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// number returns a float as a literal of the type DOUBLE or Float64.
func number(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if digits := strings.Trim(s, "-0."); len(digits) <= 15 && len(s) <= 22 {
		return s // a decimal with so few digits becomes the nearest number
	}
	return strconv.FormatFloat(f, 'e', -1, 64)
}

// derived returns a name for something that a statement computes from the table:
// one that no column of the table has, as ClickHouse takes either for the other.
func (c *compiler) derived(n string) string {
	taken := func(n string) bool {
		return slices.ContainsFunc(c.schema.Names(), func(p string) bool { return strings.EqualFold(p, n) })
	}
	for taken(n) {
		n += "_"
	}
	return n
}
