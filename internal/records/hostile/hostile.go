// Package hostile has files that are made to break readers, for the tests of all readers of
// records. They have the columns of events, so that an importer of events reads them too.
package hostile

import (
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// MaxRecord is the limit of a record, in bytes, that the counts of a file are for.
const MaxRecord = 1 << 20

// A File is made to break readers.
type File struct {
	Name      string
	Format    string // csv, ndjson or parquet
	Data      []byte
	Good, Bad int  // records that can be read, and damaged ones
	Fails     bool // opening it or reading is an error
	Room      int  // bytes of memory that reading may take beyond the limit of other files
}

// Texts returns files of CSV and NDJSON.
func Texts() []File {
	const (
		head = "user_id,time,event\n"
		row  = "a,1,v\n"
		line = `{"user_id":"a","time":1,"event":"v"}` + "\n"
	)
	many := func(text string, n int) string { return strings.Repeat(text, n) }
	var files []File
	add := func(format, name, text string, good, bad int) {
		files = append(files, File{Name: name, Format: format, Data: []byte(text), Good: good, Bad: bad, Fails: good < 0})
	}
	add("csv", "a quote that is never closed", head+"\""+many(row, 1<<18), 1<<18-1, 1)
	add("csv", "a quote that is closed before it is too late", head+"\""+many(row, 1000)+"\",1,v\n"+row, 2, 0)
	add("csv", "a quote in each line that is never closed", head+many("\"a,1,v\n", 1<<16), 0, 1<<16)
	add("csv", "quotes alone", head+many("\"", 1<<21), 0, 1)
	add("csv", "quotes in pairs, with a line end after each", head+many("\"\"\n", 1<<16), 0, 1<<16)
	add("csv", "text behind quotes", head+many("\"a\"b,1,v\n", 1<<16), 0, 1<<16)
	add("csv", "a long line", head+many("x", 4<<20)+"\n"+row, 1, 1)
	add("csv", "a long last line", head+row+many("x", 4<<20), 1, 1)
	add("csv", "a line of delimiters", head+many(",", MaxRecord)+"\n"+row, 1, 1)
	add("csv", "a line of quoted fields", head+many("\"\",", MaxRecord/3)+"\n"+row, 1, 1)
	add("csv", "line ends alone", head+many("\n", 1<<21)+row, 1, 0)
	add("csv", "carriage returns alone", head+many("\r", 4<<20)+"\n"+row, 1, 1)
	add("csv", "CRLF", strings.ReplaceAll(head+row+"\"a\",1,v\n", "\n", "\r\n"), 2, 0)
	add("csv", "a byte order mark", "\xef\xbb\xbf"+head+row, 1, 0)
	add("csv", "two byte order marks", head+"\xef\xbb\xbf"+row+"\xff\xfe"+row, 1, 1)
	add("csv", "zeros", head+many("\x00", 4<<20), 0, 1)
	add("csv", "a header of delimiters", many(",", MaxRecord-1)+"\n"+row, -1, 0)
	add("csv", "a header that is too long", many("x", 4<<20)+"\n"+row, -1, 0)
	add("csv", "a header whose quote is never closed", "\""+head+many(row, 1<<18), -1, 0)
	add("csv", "a header that is not text", "\xff"+head+row, -1, 0)
	add("csv", "a header that names a column twice", "a,a\n1,2\n", -1, 0)

	add("ndjson", "a long line", line+many("x", 4<<20)+"\n"+line, 2, 1)
	add("ndjson", "a long last line", line+"\""+many("x", 4<<20), 1, 1)
	add("ndjson", "a long line of spaces", line+many(" ", 4<<20)+"\n"+line, 2, 1)
	add("ndjson", "line ends alone", many("\r\n", 1<<20)+line, 1, 0)
	add("ndjson", "arrays in arrays", line+many("[", MaxRecord)+"\n"+line, 2, 1)
	add("ndjson", "arrays in an object", line+`{"a":`+many("[", MaxRecord/2)+"\n"+line, 2, 1)
	add("ndjson", "objects in objects", line+many(`{"a":`, MaxRecord/5)+"\n"+line, 2, 1)
	add("ndjson", "a text that is never closed", line+`{"a":"`+many(line, 1000), 1000, 1)
	add("ndjson", "escapes", line+`{"a":"`+many(`\u`, MaxRecord/3)+"\"}\n"+line, 2, 1)
	add("ndjson", "not text", line+"\xff\n"+line, 2, 1)
	add("ndjson", "zeros", line+many("\x00", 4<<20), 1, 1)
	add("ndjson", "a byte order mark and CRLF", "\xef\xbb\xbf"+strings.ReplaceAll(line+"\n"+line, "\n", "\r\n"), 2, 0)
	add("ndjson", "a byte order mark in the middle", line+"\xef\xbb\xbf"+line+line, 2, 1)
	return files
}

// Bounded fails a test if f allocates more than 64 MiB and six times what a file has.
func Bounded(t *testing.T, file File, f func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(64<<20+6*len(file.Data)+file.Room); got > most && !invariant.Race {
		t.Errorf("%s, %s: took %d bytes, want at most %d", file.Format, file.Name, got, most)
	}
}

// Equal fails a test if a file was read otherwise than it must be. In place of the records
// there may be an error.
func Equal(t *testing.T, file File, good, bad int, err error) {
	t.Helper()
	if file.Fails != (err != nil) || !file.Fails && (good != file.Good || bad != file.Bad) {
		t.Errorf("%s, %s: got %d records, %d bad ones and %v, want %d, %d and an error: %t", file.Format, file.Name, good, bad, err, file.Good, file.Bad, file.Fails)
	}
}
