package segment

import (
	"encoding/binary"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

var update = flag.Bool("update", false, "rewrite the example in docs/trail-format.md")

// exampleImage is the segment that docs/trail-format.md shows byte by byte.
func exampleImage(t testing.TB) []byte {
	t.Helper()
	b := NewBuilder(event.Schema{{Name: "country", Type: event.String}, {Name: "price", Type: event.Float}})
	kr, de := event.StringOf("KR"), event.StringOf("DE")
	const start = 1_767_225_600_000 // 2026-01-01
	b.Add("u1", start, "view", 0, []event.Value{kr})
	b.Add("u1", start+40_000, "cart", 0, []event.Value{kr, event.FloatOf(2.5)})
	b.Add("u2", start+3_000, "view", 0, []event.Value{de})
	b.Add("u3", start+5_000, "view", 0, []event.Value{de})
	b.Add("u3", start+9_000, "view", 0, []event.Value{de})
	b.Add("u3", start+63_000, "view", 0, []event.Value{de})
	image, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// TestExample compares the example of the documentation with what is written.
func TestExample(t *testing.T) {
	image := exampleImage(t)
	if found := open(t, image).Verify(); len(found) > 0 {
		t.Fatal(found[0].Error())
	}
	path := filepath.Join("..", "..", "..", "docs", "trail-format.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const from, to = "<!-- example -->\n```text\n", "```\n<!-- /example -->"
	head, rest, ok := strings.Cut(string(page), from)
	old, tail, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatal("got no example in the documentation")
	}
	want := annotate(t, image)
	if *update {
		if err := os.WriteFile(path, []byte(head+from+want+to+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if old == want {
		return
	}
	a, b := strings.Split(old, "\n"), strings.Split(want, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			t.Fatalf("docs/trail-format.md: line %d of the example: got %q, want %q; run with -update if the format changed", i+1, a[i], b[i])
		}
	}
	t.Fatalf("docs/trail-format.md: got an example of %d lines, want %d", len(a), len(b))
}

// A dump writes bytes with what they mean. It reads the footer on its own, as
// another reader would.
type dump struct {
	t   testing.TB
	b   []byte
	at  int
	out strings.Builder
}

const dumpWidth = 16

func (d *dump) take(n int, format string, args ...any) []byte {
	d.t.Helper()
	field := d.b[d.at:][:n]
	note := fmt.Sprintf(format, args...)
	for i := 0; i < n; i += dumpWidth {
		fmt.Fprintf(&d.out, "%s\n", strings.TrimRight(fmt.Sprintf("%04x  %-*x  %s", d.at+i, 3*dumpWidth-1, spaced(field[i:min(i+dumpWidth, n)]), note), " "))
		note = ""
	}
	d.at += n
	return field
}

func (d *dump) title(s string) { fmt.Fprintf(&d.out, "\n%s\n", s) }

// A spaced is bytes that print in pairs of digits.
type spaced []byte

func (s spaced) Format(f fmt.State, _ rune) {
	width, _ := f.Width()
	text := fmt.Sprintf("% x", []byte(s))
	fmt.Fprintf(f, "%-*s", width, text)
}

// uvarint takes an unsigned number. The note may say %d.
func (d *dump) uvarint(note string) int {
	v, n := binary.Uvarint(d.b[d.at:])
	d.take(n, "%s", strings.ReplaceAll(note, "%d", fmt.Sprint(v)))
	return int(v)
}

func (d *dump) varint(note string) int64 {
	v, n := binary.Varint(d.b[d.at:])
	d.take(n, "%s", strings.ReplaceAll(note, "%d", fmt.Sprint(v)))
	return v
}

func (d *dump) text(what string) string {
	n, used := binary.Uvarint(d.b[d.at:])
	s := string(d.b[d.at+used:][:n])
	d.take(used+int(n), "%s %q", what, s)
	return s
}

// span reads the place of a section, and keeps it for the dump of the section.
func (d *dump) span(what string, places *[]section) {
	off, n := binary.Uvarint(d.b[d.at:])
	length, m := binary.Uvarint(d.b[d.at+n:])
	d.take(n+m, "%s: %d bytes at %04x", what, length, off)
	*places = append(*places, section{what, span{int64(off), int64(length)}})
}

// annotate returns the bytes of a segment with their meaning.
func annotate(t testing.TB, image []byte) string {
	t.Helper()
	tail := image[len(image)-trailerSize:]
	off := int(binary.LittleEndian.Uint64(tail))
	f := &dump{t: t, b: image, at: off}
	places := f.footer(len(image) - trailerSize)
	d := &dump{t: t, b: image}
	d.out.WriteString("header\n")
	d.take(8, "magic")
	d.take(2, "format 1")
	d.take(2, "revision 0")
	d.take(4, "bytes of a page: 65536")
	d.take(4, "byte order")
	d.take(44, "zero")
	slices.SortFunc(places, func(a, b section) int { return int(a.span.off - b.span.off) })
	for _, p := range places {
		if p.span.len == 0 {
			continue
		}
		d.pad(int(p.span.off))
		d.title(p.name)
		d.take(int(p.span.len), "%s", values(image, p))
	}
	d.pad(off)
	d.out.WriteString("\nfooter\n")
	d.out.WriteString(strings.TrimPrefix(f.out.String(), "\n"))
	d.at = len(image) - trailerSize
	d.title("trailer")
	d.take(8, "the footer begins at %04x", off)
	d.take(4, "bytes of the footer: %d", len(image)-trailerSize-off)
	d.take(4, "CRC-32C of the footer")
	d.take(8, "bytes of the file: %d", len(image))
	d.take(4, "CRC-32C of the 24 bytes before")
	d.take(4, "magic")
	return d.out.String()
}

// pad takes the zeros up to a section, in one line.
func (d *dump) pad(to int) {
	if n := to - d.at; n > 0 {
		fmt.Fprintf(&d.out, "%04x  %-*s  zero up to %04x\n", d.at, 3*dumpWidth-1, "00 …", to)
		d.at = to
	}
}

// footer takes the records and returns the sections that they name.
func (d *dump) footer(end int) (places []section) {
	for d.at < end {
		tag := d.b[d.at]
		n, used := binary.Uvarint(d.b[d.at+1:])
		d.out.WriteByte('\n')
		d.take(1+used, "record %d, %d bytes", tag, n)
		stop := d.at + int(n)
		switch tag {
		case tagSummary:
			d.uvarint("rows: %d")
			d.uvarint("users: %d")
			d.varint("first time: %d")
			d.varint("last time: %d")
		case tagUsers:
			d.span("hashes", &places)
			d.span("first rows", &places)
			if kind := d.uvarint("ids: kind %d"); kind == int(idNumbers) {
				d.text("prefix")
				d.uvarint("bits of a number: %d")
				d.uvarint("added to each: %d")
				d.span("ids", &places)
			}
		case tagTimes:
			d.varint("base: %d")
			d.uvarint("unit: %d ms")
			d.uvarint("bits of an offset: %d")
			d.span("times", &places)
		case tagSets:
			d.uvarint("names: %d")
			d.uvarint("bytes of a set: %d")
			d.span("event sets", &places)
		case tagColumn:
			d.column(&places)
		case tagPages:
			d.take(int(n), "CRC-32C of each page")
		}
		if d.at != stop {
			d.t.Fatalf("record %d: read up to %d, ends at %d", tag, d.at, stop)
		}
	}
	return places
}

func (d *dump) column(places *[]section) {
	role := d.uvarint("role %d")
	name := d.text("name")
	if role == int(roleEvents) {
		name = "events"
	}
	d.uvarint("type %d")
	d.uvarint("rows without a value: %d")
	d.uvarint("codes: %d")
	switch dictKind(d.uvarint("dictionary %d")) {
	case dictRange:
		d.varint("value of code 1: %d")
		d.uvarint("decimals: %d")
	case dictPackedText:
		d.uvarint("bits of an end: %d")
		d.span(name+": ends of strings", places)
		d.span(name+": strings", places)
	default:
		d.t.Fatal("the example has a dictionary that the dump does not know")
	}
	switch enc := encoding(d.uvarint("encoding %d")); enc {
	case encConstant:
		d.uvarint("code of all rows: %d")
	case encPlain, encUser:
		d.uvarint("bytes of a code: %d")
		d.span(name+": codes", places)
	case encSparse:
		d.uvarint("code of the other rows: %d")
		d.uvarint("bytes of a code: %d")
		d.uvarint("exceptions: %d")
		d.span(name+": rows of exceptions", places)
		d.span(name+": codes of exceptions", places)
	case encDigits:
		d.uvarint("code of digit 0: %d")
		d.uvarint("base: %d")
		d.span(name+": digits", places)
	case encPacked:
		d.uvarint("bits of a code: %d")
		d.span(name+": codes", places)
	default:
		d.t.Fatalf("the example has an encoding that the dump does not know: %s", enc)
	}
}

// values returns what a section of the example holds, as text.
func values(image []byte, p section) string {
	b := image[p.span.off:][:p.span.len]
	var list []string
	switch {
	case p.name == "hashes":
		for ; len(b) > 0; b = b[8:] {
			list = append(list, fmt.Sprintf("%016x", binary.LittleEndian.Uint64(b)))
		}
		return strings.Join(list, ", ")
	case strings.HasSuffix(p.name, "rows") || strings.HasSuffix(p.name, "rows of exceptions"):
		for ; len(b) > 0; b = b[4:] {
			list = append(list, fmt.Sprint(binary.LittleEndian.Uint32(b)))
		}
		return strings.Join(list, ", ")
	case strings.HasSuffix(p.name, ": strings"):
		return string(b)
	case p.name == "times" || strings.HasSuffix(p.name, "ends of strings") || p.name == "ids" || len(b) > slack && strings.HasSuffix(p.name, "codes"):
		return "packed, and 8 bytes of zero"
	}
	for _, c := range b {
		list = append(list, fmt.Sprint(c))
	}
	return strings.Join(list, ", ")
}
