package data

import (
	"strings"
	"testing"
)

var syntaxes = map[string]syntax{
	"sqlite":   {brackets: true},
	"postgres": {numbered: true, dollars: true},
	"mysql":    {backslashes: true, hashes: true},
}

func TestParseNames(t *testing.T) {
	f := func(db, text, want string, names ...string) {
		t.Helper()
		s, err := parse(text, syntaxes[db], true)
		if err != nil || len(s.statements) != 1 {
			t.Fatalf("%s: %q: got %v, error %v", db, text, s, err)
		}
		st := s.statements[0]
		var got []string
		for _, b := range st.binds {
			got = append(got, b.name)
		}
		if st.text != want || strings.Join(got, " ") != strings.Join(names, " ") {
			t.Errorf("%s: %q: got %q with %q, want %q with %q", db, text, st.text, got, want, names)
		}
	}
	f("postgres", "SELECT :a, @b, :a", "SELECT $1, $2, $1", "a", "b")
	f("postgres", "SELECT :a::int, ':b', \":c\", $$:d$$, $t$ $$ :e $t$, E'\\':f', /* :g /* :h */ :i */ :j -- :k", "SELECT $1::int, ':b', \":c\", $$:d$$, $t$ $$ :e $t$, E'\\':f', /* :g /* :h */ :i */ $2 -- :k", "a", "j")
	f("postgres", "SELECT x[1:n], x[:a], y[b:c], ARRAY[:a, :d], f(x := :e)", "SELECT x[1:n], x[$1], y[b:c], ARRAY[$1, $2], f(x := $3)", "a", "d", "e")
	f("postgres", `SELECT a @> b, @ -5, a ? 'b', a ?| c, 'it''s :x' || :y`, `SELECT a @> b, @ -5, a ? 'b', a ?| c, 'it''s :x' || $1`, "y")
	f("mysql", "SELECT `:a`, '\\':b', \"\\\":c\", @@d, :e # :f\n, :e -- :g", "SELECT `:a`, '\\':b', \"\\\":c\", @@d, ? # :f\n, ? -- :g", "e", "e")
	f("mysql", "SELECT 1--:a", "SELECT 1--?", "a")
	f("sqlite", "SELECT [:a], `:b`, \":c\"\":d\", '\\', :e", "SELECT [:a], `:b`, \":c\"\":d\", '\\', ?", "e")
}

func TestParseEffects(t *testing.T) {
	f := func(text string, want effect, rows bool) {
		t.Helper()
		s, err := parse(text, syntaxes["postgres"], false)
		if err != nil {
			t.Fatal(err)
		}
		if st := s.statements[0]; st.effect != want || st.rows != rows {
			t.Errorf("%s: got effect %d and rows %t", text, st.effect, st.rows)
		}
	}
	f("SELECT 1", reads, true)
	f("(SELECT 1)", reads, true)
	f("/* INSERT */ select 'DELETE'", reads, true)
	f("SELECT * FROM a FOR UPDATE", writes, true)
	f("SELECT * FROM a FOR NO KEY UPDATE", writes, true)
	f("SELECT replace(a, 'b', 'c'), substring(a FROM 1 FOR 2) FROM t", reads, true)
	f("SELECT * INTO b FROM a", writes, true)
	f("WITH x AS (SELECT 1) SELECT * FROM x", reads, true)
	f("WITH x AS (DELETE FROM a RETURNING *) SELECT * FROM x", writes, true)
	f("WITH x AS (SELECT 1) INSERT INTO a SELECT * FROM x", writes, false)
	f("EXPLAIN DELETE FROM a", reads, true)
	f("EXPLAIN ANALYZE DELETE FROM a", writes, true)
	f("INSERT INTO a VALUES (1)", writes, false)
	f("UPDATE a SET b = 1 RETURNING *", writes, true)
	f("VACUUM", outside, true)
	f("CREATE INDEX CONCURRENTLY i ON a (b)", outside, false)
	f("CREATE TABLE a (b int)", writes, false)
	for _, text := range []string{"BEGIN", "commit", "ROLLBACK TO a", "COPY a FROM STDIN", "SELECT 1; END"} {
		if _, err := parse(text, syntaxes["postgres"], false); err == nil {
			t.Errorf("%s: got no error", text)
		}
	}
}

// FuzzParse takes any text apart, in any syntax. What has no placeholders comes out as it
// went in.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"SELECT :a::int, '@b', $1, ?2 -- :c", "CREATE TRIGGER t AFTER INSERT ON a BEGIN DELETE FROM b; END; SELECT 1", "$a$ $b$ $a$;", "E'\\'", "[a:b", "/* /* */", "`", ":", "@@", "a[1:x]; ;;", "$99999999999", "\xff:é",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for name, syntax := range syntaxes {
			for _, named := range []bool{false, true} {
				s, err := parse(text, syntax, named)
				if err != nil {
					continue
				}
				rest := text
				for _, st := range s.statements {
					if len(st.binds) > 0 {
						continue
					}
					i := strings.Index(rest, st.text)
					if i < 0 || st.text == "" {
						t.Fatalf("%s: %q: statement %q is not in what is left, %q", name, text, st.text, rest)
					}
					rest = rest[i+len(st.text):]
				}
				if !named && !s.positions || named && !s.names {
					continue
				}
				for _, st := range s.statements {
					for _, b := range st.binds {
						if named && !strings.Contains(text, b.name) || !named && b.index >= s.most {
							t.Fatalf("%s: %q: bind %+v", name, text, b)
						}
					}
				}
			}
		}
	})
}
