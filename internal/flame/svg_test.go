package flame

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

var update = flag.Bool("update", false, "write testdata/small.svg")

// A box is one frame of a picture.
type box struct {
	title      []string // lines
	text       string
	x, width   float64
	level      int
	fill       string
	attributes []string // of all that is in it
}

// boxes parses a picture.
func boxes(t *testing.T, svg []byte) []box {
	t.Helper()
	dec := xml.NewDecoder(bytes.NewReader(svg))
	var all []box
	var path []string
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
		switch tok := token.(type) {
		case xml.StartElement:
			path = append(path, tok.Name.Local)
			if tok.Name.Local == "g" {
				all = append(all, box{})
			}
			if len(path) > 1 && path[1] == "g" {
				all[len(all)-1].take(t, tok)
			}
			if !strings.Contains(" svg style rect text g title script ", " "+tok.Name.Local+" ") {
				t.Errorf("got the element %s", tok.Name.Local)
			}
		case xml.EndElement:
			path = path[:len(path)-1]
		case xml.CharData:
			if len(path) != 3 || path[1] != "g" {
				continue
			}
			switch b := &all[len(all)-1]; path[2] {
			case "title":
				b.title = strings.Split(string(tok), "\n")
			case "text":
				b.text += string(tok)
			}
		}
	}
}

func (b *box) take(t *testing.T, tok xml.StartElement) {
	t.Helper()
	for _, a := range tok.Attr {
		b.attributes = append(b.attributes, tok.Name.Local+"."+a.Name.Local)
		if tok.Name.Local != "rect" {
			continue
		}
		n, err := strconv.ParseFloat(a.Value, 64)
		switch a.Name.Local {
		case "x":
			b.x = n
		case "width":
			b.width = n
		case "y":
			b.level = int(n-top) / rowHeight
		case "fill":
			b.fill, err = a.Value, nil
		}
		if err != nil {
			t.Errorf("%s: %v", a.Name.Local, err)
		}
	}
}

// geometry checks that frames are within those above them, and not in each
// other's way.
func geometry(t *testing.T, svg []byte) []box {
	t.Helper()
	all := boxes(t, svg)
	if len(all) == 0 || all[0].level != 0 || all[0].x != 0 || all[0].width != width {
		t.Fatalf("got %+v, want all at the top, over the whole width", all)
	}
	const slack = 1e-6 // of the arithmetic here: edges are in hundredths
	around := []box{all[0]}
	used := map[int]float64{} // how far each level is filled
	for _, b := range all[1:] {
		if b.level < 1 || b.level > len(around) {
			t.Fatalf("got %+v below a level of %d", b, len(around)-1)
		}
		above := around[b.level-1]
		if b.x < above.x-slack || b.x+b.width > above.x+above.width+slack {
			t.Errorf("got %+v, not within %+v", b, above)
		}
		if b.x < used[b.level]-slack {
			t.Errorf("got %+v over its neighbour, which reaches %v", b, used[b.level])
		}
		if b.width < width/1000.-1./unit-slack {
			t.Errorf("got %+v, less than 0.1 %%", b)
		}
		used[b.level] = b.x + b.width
		around = append(around[:b.level], b)
		if got := strings.Join(b.attributes, " "); got != "g.class rect.x rect.y rect.width rect.height rect.fill rect.rx text.x text.y" {
			t.Errorf("got the attributes %s", got)
		}
	}
	return all
}

func TestGolden(t *testing.T) {
	got := read(t, small()).SVG()
	file := filepath.Join("testdata", "small.svg")
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant %s; go test -update writes it", got, file)
	}
}

// TestSums adds up the children of each frame: they take its time, except its own.
func TestSums(t *testing.T) {
	all := geometry(t, read(t, small()).SVG())
	f := func(level int, want float64) {
		t.Helper()
		sum := 0.
		for _, b := range all {
			if b.level == level {
				sum += b.width
			}
		}
		if diff := sum - want*width; diff > 0.1 || diff < -0.1 {
			t.Errorf("level %d: got %v pixels, want %v", level, sum, want*width)
		}
	}
	f(1, 1)
	f(2, 1)
	f(3, 710./750) // all but one stack have a second frame
	f(4, 400./750-50./750)
}

func TestSmallest(t *testing.T) {
	p := makeProfile(met{"a k n", "main.a", 99950}, met{"b k n", "main.b", 50})
	all := geometry(t, read(t, p).SVG())
	if len(all) != 3 {
		t.Errorf("got %+v, want no frame of 0.05 %%", all)
	}
}

func TestEmpty(t *testing.T) {
	p := read(t, makeProfile())
	if all := geometry(t, p.SVG()); len(all) != 1 {
		t.Errorf("got %+v, want all only", all)
	}
	if p.Samples != 0 || len(p.Nodes())+len(p.Kinds())+len(p.Functions()) != 0 {
		t.Errorf("got rows of no samples")
	}
}

// TestHostile has names that would be markup, script, or orders to a terminal.
func TestHostile(t *testing.T) {
	for _, name := range []string{
		`</title><script>alert(1)</script>`, `"><image href="http://example.com/x"/>`, `' onload='alert(1)`, `]]><script>`, `&amp;&#60;&lt;`,
		"<!--", "-->", "<?xml?>", "\x00\x01", "\x1b[2J", "\xff\xfe", "a\nb\tc", "\u202egnp.exe", "名前😀", `\u0041`, strings.Repeat("x", 5000), "￾",
	} {
		made := makeProfile(met{"x y z", "main.main", 10})
		made.Sample[0].Label = map[string][]string{"node": {name}, "kind": {name}, "namespace": {name}}
		made.Function[0].Name = name + "." + name
		p := read(t, made)
		all := geometry(t, p.SVG())
		if len(all) != 3 {
			t.Fatalf("%q: got %+v, want 3 frames", name, all)
		}
		if got := all[1].title[0]; got != show.Printable(name) {
			t.Errorf("got the title %q, want %q", got, show.Printable(name))
		}
		if strings.ContainsFunc(all[1].title[0], func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("%q: got %q, want only what can be seen", name, all[1].title[0])
		}
	}
}

func TestColour(t *testing.T) {
	seen := make(map[string]string)
	for _, path := range []string{"net/http", "net", "encoding/json", "github.com/dop251/goja", "github.com/uniflow-labs/uniflow/value", ""} {
		c := colour(path)
		if len(c) != 7 || c != colour(path) {
			t.Errorf("%s: got %q, want a colour", path, c)
		}
		if other, ok := seen[c]; ok {
			t.Errorf("%s: got %s, as %s has", path, c, other)
		}
		seen[c] = path
	}
	if colour("runtime") != colourOther || colour("internal/runtime/maps") != colourOther {
		t.Errorf("got a colour of its own for the runtime")
	}
}
