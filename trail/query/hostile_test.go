package query

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// TestHostile refuses documents that would take the memory, the stack or the time.
func TestHostile(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		_, err := Parse("h", []byte(doc))
		var list Errors
		if !errors.As(err, &list) || !strings.Contains(list[0].Error(), want) || len(list) > maxErrors {
			t.Errorf("got %.300v, want %s", err, want)
		}
	}
	f(strings.Repeat("x", limits.Size+1), "h: the document has 2097153 bytes, more than 2097152")
	f(strings.Repeat("[", 100_000), "h:1:101: lists and maps nest deeper than 100 levels")
	f(`{"a":`+strings.Repeat("[", 5000)+strings.Repeat("]", 5000)+"}", "lists and maps nest deeper than 100 levels")
	f("segment: {where: "+strings.Repeat("[", 99)+strings.Repeat("]", 99)+"}", "the filter nests deeper than")
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [", c, c) + strings.Repeat(fmt.Sprintf("*%c, ", c-1), 10) + "]\n"
	}
	f(bomb, "the document is too large")
	f("a: &a "+strings.Repeat("x", 1<<20)+"\nb: ["+strings.Repeat("*a, ", 1000)+"]", "the document is too large")
	f("segment: {by: ["+strings.Repeat("x,", limits.Values)+"]}", "the document has too many keys and values")
	f("segment: {where: ["+strings.Repeat("{x: 1},", maxTests+1)+"]}", "the filters have more than 10000 tests")
	f("segment: {where: ["+strings.Repeat("{x: {y: 1}},", 1000)+"]}", "x: unknown operator")
	var patterns strings.Builder
	for i := range 100 {
		fmt.Fprintf(&patterns, "{x: {matches: %q}},", strings.Repeat("a", 900)+fmt.Sprint(i))
	}
	f("segment: {where: ["+patterns.String()+"]}", "x: the expressions have more than 20000 bytes")
	f("a: \xff", `h:1:4: the byte 0xff is not UTF-8`)
	f("a:\n  \x01", `h:2:3: the control character U+0001 is not allowed`)
	f("", "h:1:1: the document is empty")
	f("# nothing\n---\n", "h:1:1: the document is empty")
	f("segment: {}\n---\npaths: {anchor: a}", "h:3:1: a second document; a query is one")
}

// TestJSON holds that errors name places in JSON documents, and that escapes are read as
// JSON defines them.
func TestJSON(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		_, err := Parse("q.json", []byte(doc))
		if got := fmt.Sprint(err); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("\ufeff{\"segment\":{\"by\":\"\\ud83d\\ude00\"}}", "<nil>")
	f("{\n\t\"segment\": {\n\t\t\"é\": 1, \"by\" : [ \"a\" ,\r\n3, \"a\"]}}", `q.json:3:3: unknown key "é" in segment
q.json:3:11: by has "a" twice`)
	f(`{"segment":{"bucket":"day","bucket":"day"}}`, `q.json:1:28: the key "bucket" is already at q.json:1:13`)
	f(`{"segment":{"where":{"a":null,"b":1e999}}}`, `q.json:1:26: a needs a value, got nothing
q.json:1:35: the number "1e999" is out of range`)
	f(`{"segment":{"where":{"a":1,}}} x`, `q.json:1:32: there is text after the end of the document`)
}

// TestLongList reads a list as long as programs make them.
func TestLongList(t *testing.T) {
	doc := "funnel: {steps: [a, b, c], where: {user: {in: [" + strings.Repeat("u123456789,", 50_000) + "]}}}"
	q, err := Parse("", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(q.Funnel.Steps[2].Where.Test.Literals); got != 50_000 {
		t.Errorf("got %d values, want 50000", got)
	}
}
