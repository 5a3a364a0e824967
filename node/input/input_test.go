package input_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// TestOf goes by the extension of a name.
func TestOf(t *testing.T) {
	for _, c := range []struct{ name, format, packing string }{
		{"a.ndjson", format.NDJSON, ""}, {"a.jsonl.gz", format.NDJSON, ".gz"}, {"A.CSV.GZ", format.CSV, ".gz"}, {"a.tsv", format.CSV, ""},
		{"a.json.zst", format.JSON, ".zst"}, {"a.parquet", format.Parquet, ""}, {"a.log", format.Lines, ""}, {"a", format.Lines, ""},
		{"a.gz", format.Lines, ".gz"}, {".gz", format.Lines, ".gz"}, {"", format.Lines, ""}, {"a.csv/b", format.Lines, ""}, {"a.csv.bak", format.Lines, ""},
	} {
		in := input.Input{Options: format.Options{Delimiter: ','}}.Of(c.name)
		if in.Options.Name != c.format || in.Packing != c.packing {
			t.Errorf("%q: got %s, packed %q, want %s, %q", c.name, in.Options.Name, in.Packing, c.format, c.packing)
		}
		if want := c.packing != "" || c.format == format.Parquet; in.Packed() != want || in.Table() != (c.format == format.Parquet) {
			t.Errorf("%q: packed %t, a table %t", c.name, in.Packed(), in.Table())
		}
		want := byte(',')
		if strings.HasSuffix(c.name, ".tsv") {
			want = '\t'
		}
		if in.Options.Delimiter != want {
			t.Errorf("%q: the delimiter is %q", c.name, in.Options.Delimiter)
		}
		if in := (input.Input{Options: format.Options{Name: format.Raw}}).Of(c.name); in.Options.Name != format.Raw || in.Packing != c.packing {
			t.Errorf("%q as raw: got %s, packed %q", c.name, in.Options.Name, in.Packing)
		}
	}
}

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func zstandard(t testing.TB, text string, options ...zstd.EOption) []byte {
	t.Helper()
	w, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	return w.EncodeAll([]byte(text), nil)
}

// greedy is the beginning of a zstd stream that asks for a window of 2 GiB.
func greedy() []byte {
	b := binary.LittleEndian.AppendUint32(nil, 0xFD2FB528)
	return append(b, 0, 21<<3, 1, 0, 0) // no size, a window of 1<<31, an empty last block
}

// TestUnpack reads what is packed well, and badly, from its beginning and from the middle.
func TestUnpack(t *testing.T) {
	text := strings.Repeat("line\n", 10_000)
	zipped, packed := gzipped(t, text), zstandard(t, text)
	const broken, other = "the file is not complete, or not packed as its extension", "the file is not packed as its extension"
	for name, c := range map[string]struct {
		packing string
		data    []byte
		skip    int64
		want    string
		err     string // empty for none
	}{
		"not packed":           {"", []byte(text), 0, text, ""},
		"gzip":                 {".gz", zipped, 0, text, ""},
		"zstd":                 {".zst", packed, 0, text, ""},
		"gzip, on":             {".gz", zipped, 49_990, "line\nline\n", ""},
		"zstd, on":             {".zst", packed, 49_990, "line\nline\n", ""},
		"gzip, at its end":     {".gz", zipped, 50_000, "", ""},
		"zstd, at its end":     {".zst", packed, 50_000, "", ""},
		"gzip, behind its end": {".gz", zipped, 50_001, "", ""},
		"two of gzip":          {".gz", append(bytes.Clone(zipped), zipped...), 0, text + text, ""},
		"two of zstd":          {".zst", append(bytes.Clone(packed), packed...), 0, text + text, ""},
		"nothing in gzip":      {".gz", gzipped(t, ""), 0, "", ""},
		"gzip cut":             {".gz", zipped[:len(zipped)-1], 0, text, broken + " .gz says"},
		"zstd cut":             {".zst", packed[:len(packed)-1], 0, "", broken + " .zst says"},
		"an empty file":        {".gz", nil, 0, "", broken + " .gz says"},
		"gzip that is text":    {".gz", []byte("no gzip at all"), 0, "", other + " .gz says: gzip: invalid header"},
		"zstd that is text":    {".zst", []byte("no zstd at all"), 0, "", other + " .zst says: "},
		"gzip as zstd":         {".zst", zipped, 0, "", other + " .zst says: "},
		"gzip with a wrong sum": {".gz", func() []byte {
			b := bytes.Clone(zipped)
			b[len(b)-5] ^= 1
			return b
		}(), 0, text, other + " .gz says: gzip: invalid checksum"},
		"a window of 2 GiB": {".zst", greedy(), 0, "", other + " .zst says: "},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			r, err := input.Input{Packing: c.packing}.Unpack(bytes.NewReader(c.data), c.skip)
			if err == nil {
				got, err = io.ReadAll(r)
			}
			if string(got) != c.want && c.err == "" || !strings.HasPrefix(c.want, string(got)) {
				t.Errorf("got %d bytes, want %d", len(got), len(c.want))
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)) {
				t.Errorf("got the error %v, want %q", err, c.err)
			}
		})
	}
}

// TestHeader takes the names of columns from the beginning, for a reader that goes on in the middle.
func TestHeader(t *testing.T) {
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"a.csv", []byte("id,name\n1,a\n"), "id name"},
		{"a.csv.gz", gzipped(t, "id,name\n1,a\n"), "id name"},
		{"a.tsv.zst", zstandard(t, "id\tfull name\n"), "id full name"},
		{"a.csv", nil, ""},
	} {
		in := input.Input{Options: format.Options{Delimiter: ',', MaxRecord: 1000}}.Of(c.name)
		o, err := in.Header(bytes.NewReader(c.data))
		if got := strings.Join(o.Columns, " "); err != nil || got != c.want {
			t.Errorf("%s: got %q, %v, want %q", c.name, got, err, c.want)
		}
	}
	in := input.Input{Options: format.Options{Delimiter: ','}}.Of("a.csv.gz")
	if _, err := in.Header(strings.NewReader("id,name\n")); err == nil || !strings.Contains(err.Error(), ".gz") {
		t.Errorf("what is not packed: got %v", err)
	}
}

// TestDecode says where a record is that cannot be read.
func TestDecode(t *testing.T) {
	found := input.Found{Decoder: format.NewDecoder(format.Options{Name: format.NDJSON}), Line: 7}
	if v, err := found.Decode([]byte(`{"a":1}`), "in/a.ndjson"); err != nil || v.String() != `{"a":1}` {
		t.Errorf("got %s, %v", v, err)
	}
	if _, err := found.Decode([]byte(`{`), "in/a.ndjson"); err == nil || !strings.HasPrefix(err.Error(), "in/a.ndjson:7: ") {
		t.Errorf("got %v, want the place", err)
	}
	damaged := errors.New("damaged")
	found.Err = damaged
	if _, err := found.Decode([]byte(`{"a":1}`), "s3://b/k"); !errors.Is(err, damaged) || err.Error() != "s3://b/k:7: damaged" {
		t.Errorf("got %v, want what was found before", err)
	}
}

// TestOwnTexts: messages keep their texts when the memory of those is used again, and none can
// write into that of another.
func TestOwnTexts(t *testing.T) {
	input.OwnTexts(nil)
	var shared []byte
	var messages []stream.Message
	var want []string
	for _, n := range []int{0, 1, 2000, 2095, 2, 5000, 3, 4 << 10, 0, 1} {
		at := len(shared)
		shared = append(shared, bytes.Repeat([]byte{byte('a' + len(want))}, n)...)
		want = append(want, string(shared[at:]))
	}
	at := 0
	for _, text := range want {
		messages = append(messages, stream.Message{Raw: shared[at : at+len(text)]})
		at += len(text)
	}
	input.OwnTexts(messages)
	clear(shared)
	for i := range messages {
		if len(messages[i].Raw) != cap(messages[i].Raw) {
			t.Errorf("message %d has %d bytes, and room for %d", i, len(messages[i].Raw), cap(messages[i].Raw))
		}
		_ = append(messages[i].Raw, "overwritten"...)
	}
	for i, text := range want {
		if string(messages[i].Raw) != text {
			t.Errorf("message %d: got %.20q, want %.20q", i, messages[i].Raw, text)
		}
	}
}

// TestNew reads the fields, and names the one that is wrong.
func TestNew(t *testing.T) {
	var got input.Input
	def := &node.Def{
		Kind: "read", Summary: "Reads.", Config: schema.Fields(input.Fields("auto", format.Lines, format.NDJSON, format.CSV, format.Parquet)...),
		New: func(init *node.Init) (node.Node, error) {
			var err error
			got, err = input.New(init)
			return node.ReceiverFunc(func(node.Process, node.Packet) node.Result { return node.None() }), err
		},
		In: []node.Port{{Name: "in"}},
	}
	for _, c := range []struct{ fields, want string }{
		{"", ""},
		{"format: parquet", ""},
		{`format: csv, delimiter: ";", columns: [a, b], max_record: 1KiB`, ""},
		{`delimiter: ";"`, ""}, // of files that end in .csv
		{`format: csv, delimiter: ";;"`, "delimiter: must be one ASCII character"},
		{`format: csv, delimiter: ""`, "delimiter: "},
		{`format: csv, delimiter: "\n"`, "delimiter: "},
		{`format: csv, delimiter: "\""`, "delimiter: "},
		{`format: csv, columns: [a, a]`, "columns: "},
		{`columns: [""]`, "columns: "},
		{`format: lines, delimiter: ";"`, "only CSV has delimiter"},
		{`format: ndjson, columns: [a]`, "only CSV has columns"},
		{`max_record: 0B`, "max_record: "},
	} {
		f := flowtest.New(t, def)
		list, err := f.Apply("- {kind: read, name: r, " + c.fields + "}\n")
		text := ""
		if len(list) > 0 || err != nil {
			text = list.Error()
		}
		if !strings.Contains(text, c.want) || c.want == "" && text != "" {
			t.Errorf("%s: got %q, want %q", c.fields, text, c.want)
		}
		if strings.Contains(c.fields, "1KiB") && (got.Options.Name != format.CSV || got.Options.Delimiter != ';' || len(got.Options.Columns) != 2 || got.Options.MaxRecord != 1024) {
			t.Errorf("%s: got %+v", c.fields, got)
		}
		f.Close()
	}
}
