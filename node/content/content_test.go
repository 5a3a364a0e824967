package content_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/value"
)

// An account counts what is reserved, and refuses more than it has.
type account struct{ held, most int }

func (a *account) reserve(bytes int) error {
	if a.held+bytes > a.most {
		return content.ErrBusy
	}
	a.held += bytes
	return nil
}

// TestDecode shows what becomes of bodies, and the status of the error if they are malformed.
func TestDecode(t *testing.T) {
	for _, row := range []struct {
		contentType, body, want string
		status                  int
	}{
		{"application/json", `{"a":[1,2.5,null]}`, `{"a":[1,2.5,null]}`, 0},
		{"application/problem+json", "\ufeff1", "1", 0},
		{"application/json", "", "null", 0},
		{"application/json", "{", "", 400},
		{"text/plain; charset=iso-8859-1", "caf\xe9", `café`, 0},
		{"text/plain", "caf\xe9", "", 400},
		{"text/plain; charset=klingon", "x", "", 415},
		{"application/x-www-form-urlencoded", "a=1&b=x+y&a=%32", `{"a":["1","2"],"b":["x y"]}`, 0},
		{"application/x-www-form-urlencoded", "a=%zz", "", 400},
		{"multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n--b--\r\n", `{"values":{"a":["1"]},"files":{}}`, 0},
		{"multipart/form-data; boundary=b", "--b\r\n", "", 400},
		{"multipart/form-data", "", "", 400},
		{"", "", "null", 0},
	} {
		a := &account{most: 1 << 20}
		v, _, err := content.Decode(row.contentType, []byte(row.body), a.reserve)
		if status := node.Describe(err).Status; err != nil && status != row.status || err == nil && (row.status != 0 || v.String() != row.want) {
			t.Errorf("%s %q: got %s, %v with status %d, want %s, %d", row.contentType, row.body, v, err, status, row.want, row.status)
		}
	}
	a := new(account)
	if _, _, err := content.Decode("application/x-www-form-urlencoded", []byte("a=1"), a.reserve); !errors.Is(err, content.ErrBusy) {
		t.Errorf("without memory: got %v", err)
	}
}

// TestReader decompresses, and gives back what its decoders have reserved.
func TestReader(t *testing.T) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := io.WriteString(w, strings.Repeat("hello", 1000)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := &account{most: 1 << 20}
	r, err := content.NewReader(&zipped, []string{"identity, GZIP"}, a.reserve)
	if err != nil {
		t.Fatal(err)
	}
	data, err := content.ReadAll(r, -1, 5000, func(int) error { return nil })
	if err != nil || string(data) != strings.Repeat("hello", 1000) || a.held == 0 {
		t.Errorf("got %.20q, %v, %d bytes reserved", data, err, a.held)
	}
	if err := r.Close(); err != nil || a.held != 0 {
		t.Errorf("got %v, %d bytes reserved, want none", err, a.held)
	}
	for _, codings := range []string{"klingon", "gzip, gzip, gzip, gzip"} {
		if _, err := content.NewReader(strings.NewReader(""), []string{codings}, a.reserve); !errors.Is(err, content.ErrUnknownCoding) || a.held != 0 {
			t.Errorf("%s: got %v, %d bytes reserved", codings, err, a.held)
		}
	}
	if _, err := content.NewReader(strings.NewReader(""), []string{"br"}, new(account).reserve); !errors.Is(err, content.ErrBusy) {
		t.Errorf("without memory: got %v", err)
	}
}

func TestReadAll(t *testing.T) {
	for limit, fits := range map[int]bool{0: false, 999: false, 1000: true, 1001: true} {
		for _, length := range []int64{-1, 0, 10, 1000, 1 << 40} {
			a := &account{most: 1 << 20}
			data, err := content.ReadAll(strings.NewReader(strings.Repeat("x", 1000)), length, limit, a.reserve)
			switch {
			case fits && (err != nil || len(data) != 1000 || a.held != cap(data)):
				t.Errorf("%d of %d: got %d bytes, %v; %d reserved, want %d", length, limit, len(data), err, a.held, cap(data))
			case !fits && node.Describe(err).Status != http.StatusRequestEntityTooLarge:
				t.Errorf("%d of %d: got %v", length, limit, err)
			}
		}
	}
}

// A view is what a package has of its own about a request.
type view struct {
	content.RequestView
	more int
}

// TestViews looks into headers and queries as fields.
func TestViews(t *testing.T) {
	header := http.Header{"B": {"1", "caf\xe9"}, "A": {"x"}}
	request := &view{RequestView: content.RequestView{View: content.View{Header: header}, Path: "/a b", RawPath: "/a%20b"}, more: 1}
	v := value.LazyMap(request, 1, content.ViewDepth)
	if want := `{"A":["x"],"B":["1","café"]}`; v.String() != want {
		t.Errorf("got %s, want %s", v, want)
	}
	if h, path, raw := content.Sent(v); len(h) != 2 || path != "/a b" || raw != "/a%20b" {
		t.Errorf("a request: got %v, %s, %s", h, path, raw)
	}
	answer := value.LazyMap(&content.AnswerView{View: content.View{Header: header}, Empty: true}, 1, content.ViewDepth)
	if h, path, raw := content.Sent(answer); len(h) != 2 || path != "" || raw != "" {
		t.Errorf("an answer: got %v, %s, %s", h, path, raw)
	}
	if h, _, _ := content.Sent(value.Map()); h != nil {
		t.Errorf("a map: got %v", h)
	}
	for i, empty := range []bool{
		content.IsEmpty(answer, value.Null()), content.IsEmpty(answer, value.String("")), content.IsEmpty(v, value.Null()), content.IsEmpty(value.Map(), value.Null()),
	} {
		if empty != (i == 0) {
			t.Errorf("%d: got %t", i, empty)
		}
	}
	query := value.LazyMap(&content.Query{Raw: "b=1&a=%zz&b=x+y&&c"}, 1, content.ViewDepth)
	if want := `{"b":["1","x y"],"a":["%zz"],"c":[""]}`; query.String() != want {
		t.Errorf("got %s, want %s", query, want)
	}
	if got := content.HeaderFields(header); !slices.IsSortedFunc(got, func(a, b value.Field) int { return strings.Compare(a.Name, b.Name) }) {
		t.Errorf("got %v, want them sorted", got)
	}
}
