package brokers_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// spec returns a node of a kind for the server, as a line of YAML.
func (s *s3System) spec(t testing.TB, kind, name string, more map[string]any) string {
	t.Helper()
	return s.at(t, s.server.Addr, kind, name, more)
}

// at is spec for another address of the server.
func (s *s3System) at(t testing.TB, addr, kind, name string, more map[string]any) string {
	t.Helper()
	fields := s.fields(kind, addr, more)
	fields["name"] = name
	text, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return "- " + string(text) + "\n"
}

func TestS3Actions(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	s.put(t, "list/a", []byte("1"))
	s.put(t, "list/b", nil)
	s.put(t, "list/c/d", []byte("{"))
	s.put(t, "large", bytes.Repeat([]byte("x"), 2000))
	f := natsFlow(t)
	key := func(action string, more map[string]any) map[string]any {
		m := map[string]any{"action": action, "key": "${self.k}"}
		for name, v := range more {
			m[name] = v
		}
		return m
	}
	f.Load(s.spec(t, "s3", "get", key("get", map[string]any{"max_body": "1000B"})) +
		s.spec(t, "s3", "text", key("get", map[string]any{"decode": "text", "if_none_match": "${self.?etag.orValue('none')}"})) +
		s.spec(t, "s3", "head", key("head", nil)) +
		s.spec(t, "s3", "put", key("put", map[string]any{"body": "self.v", "metadata": map[string]any{"who": "${self.k}"}})) +
		s.spec(t, "s3", "create", key("put", map[string]any{"body": "self.v", "if_none_match": "*"})) +
		s.spec(t, "s3", "change", key("put", map[string]any{"body": "self.v", "if_match": "${self.etag}"})) +
		s.spec(t, "s3", "list", key("list", map[string]any{"limit": 2, "after": "${self.?after.orValue('')}"})) +
		s.spec(t, "s3", "copy", key("copy", map[string]any{"from": "${self.from}"})) +
		s.spec(t, "s3", "delete", key("delete", nil)) +
		s.spec(t, "s3", "sign", key("sign", nil)))
	for _, c := range []struct{ node, payload, want string }{
		{"get", `{"k": "list/a"}`, `{"key":"list/a","body":1,"size":1,"etag":"`},
		{"get", `{"k": "list/b"}`, `"body":null,"size":0,`},
		{"get", `{"k": "list/c/d"}`, "is not JSON"},
		{"get", `{"k": "none"}`, "does not exist"},
		{"get", `{"k": ""}`, "the key is empty"},
		{"get", `{"k": "large"}`, "has 2000 bytes, more than max_body, which is 1000"},
		{"head", `{"k": "none"}`, "does not exist"},
		{"put", `{"k": "p", "v": {"a": [1]}}`, `{"key":"p","etag":"`},
		{"head", `{"k": "p"}`, `"content_type":"application/json"`},
		{"head", `{"k": "p"}`, `"metadata":{"who":"p"}`},
		{"create", `{"k": "p", "v": 2}`, "pre-conditions"},
		{"create", `{"k": "q", "v": 2}`, `{"key":"q"`},
		{"change", `{"k": "q", "v": 3, "etag": "0123"}`, "pre-conditions"},
		{"list", `{"k": "list/"}`, `{"objects":[{"key":"list/a","size":1,"etag":`},
		{"list", `{"k": "list/"}`, `"next":"list/b"}`},
		{"list", `{"k": "list/", "after": "list/b"}`, `"next":null}`},
		{"list", `{"k": "nothing"}`, `{"objects":[],"next":null}`},
		{"copy", `{"k": "r", "from": "p"}`, `{"key":"r"`},
		{"copy", `{"k": "r", "from": "none"}`, "does not exist"},
		{"text", `{"k": "r"}`, `"body":"{\"a\":[1]}"`},
		{"delete", `{"k": "r"}`, `{"key":"r"}`},
		{"text", `{"k": "r"}`, "does not exist"},
	} {
		if got := f.SendJSON(c.node, c.payload); !strings.Contains(got, c.want) {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
	large := value.String(strings.Repeat("8", 40<<20)) // in parts
	if got := flowtest.Show(f.Send("put", value.Map(value.Field{Name: "k", Value: value.String("parts")}, value.Field{Name: "v", Value: large}))); !strings.Contains(got, fmt.Sprint(40<<20+2)) {
		t.Errorf("a large body: got %s", got)
	}
	for node, payload := range map[string]value.Value{
		"create": value.Map(value.Field{Name: "k", Value: value.String("parts")}, value.Field{Name: "v", Value: large}),
		"change": value.Map(value.Field{Name: "k", Value: value.String("parts")}, value.Field{Name: "v", Value: large}, value.Field{Name: "etag", Value: value.String("0123")}),
	} {
		if got := flowtest.Show(f.Send(node, payload)); !strings.Contains(got, "pre-conditions") {
			t.Errorf("%s of a large body that is there: got %s", node, got)
		}
	}
	if n := len(s.get(t, "parts")); n != 40<<20+2 {
		t.Errorf("a large body has %d bytes", n)
	}
	var signed struct{ URL string }
	if err := json.Unmarshal([]byte(f.SendJSON("sign", `{"k": "p"}`)), &signed); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get(signed.URL)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if err != nil || string(body) != `{"a":[1]}` {
		t.Errorf("the signed URL: got %s, %v", body, err)
	}
	s.server.Stop()
	if got := f.SendJSON("get", `{"k": "list/a"}`); !strings.Contains(got, "connection lost") {
		t.Errorf("without a server, got %s", got)
	}
}

// TestS3Refused starts with what cannot work: the error has the place.
func TestS3Refused(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	for _, kind := range []string{"s3", "s3_source", "s3_sink"} {
		for _, c := range []struct {
			field, want string
			fields      map[string]any
		}{
			{"bucket", "does not exist. (NoSuchBucket)", map[string]any{"bucket": "nothing-there"}},
			{"access_key", "access key ID", map[string]any{"access_key": "mallory"}},
			{"secret_key", "SignatureDoesNotMatch", map[string]any{"secret_key": wrongPassword}},
			{"bucket", "cannot be the name of a bucket", map[string]any{"bucket": "A"}},
			{"endpoint", "not the URL of a service", map[string]any{"endpoint": "127.0.0.1:9000"}},
			{"endpoint", "not the URL of a service", map[string]any{"endpoint": "http://u:" + strings.ReplaceAll(wrongPassword, " ", "") + "@127.0.0.1:9000"}},
		} {
			fields := map[string]any{"key": "x"}
			switch kind {
			case "s3":
				fields["action"] = "get"
			case "s3_source":
				fields = map[string]any{}
			}
			for name, v := range c.fields {
				fields[name] = v
			}
			f := natsFlow(t)
			list, err := f.Apply(s.spec(t, kind, "x", fields))
			text := list.Error() + fmt.Sprint(err) + f.Log()
			if !strings.Contains(text, c.want) || !strings.Contains(text, c.field) || !strings.Contains(text, "F2") {
				t.Errorf("%s with %v: got %s, want %s of %s", kind, c.fields, text, c.want, c.field)
			}
			if strings.Contains(text, wrongPassword) || strings.Contains(text, strings.ReplaceAll(wrongPassword, " ", "")) {
				t.Errorf("%s: a secret was printed: %s", kind, text)
			}
		}
	}
}

// read serves a source that ends at a file, and returns its lines when there are n.
func (s *s3System) read(t *testing.T, n int, fields map[string]any) (lines []string, f *flowtest.Flow) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	f = natsFlow(t)
	fields["ports"] = map[string]any{"out": []any{map[string]any{"name": "show", "port": "in"}}, "error": []any{map[string]any{"name": "bad", "port": "in"}}}
	f.Load(s.spec(t, "s3_source", "read", fields) + fmt.Sprintf(`
- {kind: snippet, name: show, language: cel, code: '{"body": [self.key, self.line, self.body]}', ports: {out: [{name: out}]}}
- {kind: snippet, name: bad, language: cel, code: '{"body": [self.data.key, self.data.line, self.message]}', ports: {out: [{name: out}]}}
- {kind: file_sink, name: out, path: %q}
`, out))
	until(t, fmt.Sprint("there are ", n, " lines"), func() bool {
		text, err := os.ReadFile(out)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		lines = strings.Split(strings.TrimRight(string(text), "\n"), "\n")
		return len(lines) >= n && (n > 0 || len(text) == 0)
	})
	return lines, f
}

func packed(t testing.TB, text string, pack func(io.Writer) io.WriteCloser) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pack(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestS3Formats(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	zipped := packed(t, "{\"a\":1}\n{\"a\":2}\n", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	s.put(t, "in/1.ndjson.gz", zipped)
	s.put(t, "in/2.csv.zst", packed(t, "a,b\n1,x\n2,y\n", func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		if err != nil {
			t.Fatal(err)
		}
		return z
	}))
	var table bytes.Buffer
	w := format.NewParquetWriter(&table, []format.ParquetColumn{{Name: "n", Type: "int"}}, false)
	for i := range 3 {
		if err := w.Add(value.Map(value.Field{Name: "n", Value: value.Int(int64(i))})); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	s.put(t, "in/3.parquet", table.Bytes())
	s.put(t, "in/4.ndjson.gz", zipped[:len(zipped)-12]) // not complete
	s.put(t, "in/5.ndjson", []byte("1\n{\n2"))
	s.put(t, "in/6.txt", nil)
	s.put(t, "in/7.txt", []byte("end"))
	lines, _ := s.read(t, 13, map[string]any{"prefix": "in/", "order": "total", "ends": true, "retry": map[string]any{"threshold": 0}})
	for i, want := range []string{
		`["in/1.ndjson.gz",1,{"a":1}]`, `["in/1.ndjson.gz",2,{"a":2}]`,
		`["in/2.csv.zst",2,{"a":"1","b":"x"}]`, `["in/2.csv.zst",3,{"a":"2","b":"y"}]`,
		`["in/3.parquet",1,{"n":0}]`, `["in/3.parquet",2,{"n":1}]`, `["in/3.parquet",3,{"n":2}]`,
		`["in/4.ndjson.gz",1,{"a":1}]`, `["in/4.ndjson.gz",2,"undecodable: s3://orders/in/4.ndjson.gz:2: the file is not complete`,
		`["in/5.ndjson",1,1]`, `["in/5.ndjson",2,"undecodable: s3://orders/in/5.ndjson:2: `, `["in/5.ndjson",3,2]`,
		`["in/7.txt",1,"end"]`,
	} {
		if i >= len(lines) || !strings.HasPrefix(lines[i], want) {
			t.Errorf("line %d: got %q, want %s", i+1, lines[min(i, len(lines)-1)], want)
		}
	}
}

// TestS3Settled deletes, moves and tags objects, and one that is replaced is read again.
func TestS3Settled(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	for _, settled := range []string{"delete", "move", "tag", "keep"} {
		fields := map[string]any{"prefix": settled + "/", "interval": "20ms", "format": "object", "settled": settled, "checkpoint": map[string]any{"interval": "20ms"}}
		switch settled {
		case "move":
			fields["move_to"] = "done/"
		case "tag":
			fields["tag"] = "state=done"
		}
		key := settled + "/a/b.txt"
		s.put(t, key, []byte("x"))
		s.put(t, settled+"/empty.txt", nil)
		lines, f := s.read(t, 2, fields)
		if want := fmt.Sprintf(`[%q,1,{"bucket":"orders","key":%q,"size":1,"etag":`, key, key); !strings.HasPrefix(lines[0], want) {
			t.Errorf("%s: got %s, want %s", settled, lines[0], want)
		}
		until(t, "it is settled by "+settled, func() bool {
			switch settled {
			case "delete":
				return len(s.keys(t, "delete/")) == 0
			case "move":
				return slices.Equal(s.keys(t, "done/"), []string{"done/a/b.txt", "done/empty.txt"}) && len(s.keys(t, "move/")) == 0
			case "tag":
				tags, err := s.client.GetObjectTagging(t.Context(), brokers.S3Bucket, key, minio.GetObjectTaggingOptions{})
				return err == nil && tags.ToMap()["state"] == "done"
			}
			return len(s.keys(t, "keep/")) == 2
		})
		s.put(t, key, []byte("another"))
		until(t, "what replaces it is read", func() bool { return f.Figure("source_acknowledged_total") >= 3 })
		f.Close()
	}
}

// TestS3SinkFormats writes objects in each form.
func TestS3SinkFormats(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	f := natsFlow(t)
	schema := []any{map[string]any{"name": "n", "type": "int"}, map[string]any{"name": "t", "type": "string"}}
	f.Load(s.spec(t, "s3_sink", "ndjson", map[string]any{"key": "ndjson/${self.body.t}/{part}.ndjson"}) +
		s.spec(t, "s3_sink", "csv", map[string]any{"key": "csv/{part}.csv.gz", "encode": "csv", "compress": "gzip"}) +
		s.spec(t, "s3_sink", "json", map[string]any{"key": "json/{part}.json", "encode": "json"}) +
		s.spec(t, "s3_sink", "one", map[string]any{"key": "one/${self.id}.json.zst", "encode": "json", "compress": "zstd", "answer": "receipt"}) +
		s.spec(t, "s3_sink", "rows", map[string]any{"key": "rows/${self.id}.parquet", "encode": "parquet", "schema": schema, "rows": true}) +
		s.spec(t, "s3_sink", "parquet", map[string]any{"key": "parquet/{part}.parquet", "encode": "parquet", "schema": schema}))
	const two = `[{"id": "1", "body": {"n": 1, "t": "a"}}, {"id": "2", "body": {"n": 2, "t": "a"}}]`
	for _, c := range []struct{ node, payload, want string }{
		{"ndjson", two, ""}, {"ndjson", two, ""}, {"csv", two, ""}, {"json", two, ""}, {"parquet", two, ""},
		{"one", `{"id": "7", "body": [1]}`, `"key":"one/7.json.zst"`},
		{"one", `{"id": "7", "body": [2]}`, `"key":"one/7.json.zst"`},
		{"rows", `{"id": "w", "body": [{"n": 1}, {"n": 2, "t": "x"}]}`, ""},
		{"rows", `{"id": "w2", "body": {"n": 1}}`, "want a list of rows, got map: if it is one row, leave out rows"},
		{"rows", `{"id": "w3", "body": {"shop": 1, "items": [{"n": 1}]}}`, "has the rows, make that the body"},
		{"parquet", `{"body": [{"n": 1}]}`, "write rows: true"},
		{"parquet", `{"body": {"n": "x"}}`, `column "n": want int, got string`},
	} {
		if got := f.SendJSON(c.node, c.payload); !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "error") {
			t.Errorf("%s %s: got %s, want %s", c.node, c.payload, got, c.want)
		}
	}
	single := func(prefix string) []byte {
		keys := s.keys(t, prefix)
		if len(keys) != 1 {
			t.Fatalf("got %v, want one object", keys)
		}
		return s.get(t, keys[0])
	}
	if got := string(single("ndjson/a/")); got != "{\"n\":1,\"t\":\"a\"}\n{\"n\":2,\"t\":\"a\"}\n" {
		t.Errorf("NDJSON: got %q", got)
	}
	r, err := gzip.NewReader(bytes.NewReader(single("csv/")))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); err != nil || string(got) != "n,t\n1,a\n2,a\n" {
		t.Errorf("CSV: got %q, %v", got, err)
	}
	if got := string(single("json/")); got != `[{"n":1,"t":"a"},{"n":2,"t":"a"}]` {
		t.Errorf("JSON: got %q", got)
	}
	z, err := zstd.NewReader(bytes.NewReader(single("one/")))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	if got, err := io.ReadAll(z); err != nil || string(got) != `[2]` {
		t.Errorf("one: got %q, %v", got, err)
	}
	for prefix, want := range map[string]string{"rows/": `[{"n":1,"t":null},{"n":2,"t":"x"}]`, "parquet/": `[{"n":1,"t":"a"},{"n":2,"t":"a"}]`} {
		data := single(prefix)
		r, err := format.NewParquetReader(bytes.NewReader(data), int64(len(data)), 0)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := r.Read(10)
		if text, _ := value.List(rows...).AppendJSON(nil); err != nil || string(text) != want {
			t.Errorf("%s: got %s, %v, want %s", prefix, text, err, want)
		}
		r.Close()
	}
}

// TestS3Late starts while the server is down.
func TestS3Late(t *testing.T) {
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	f := natsFlow(t)
	f.Load(fmt.Sprintf("- {kind: s3, name: get, action: get, bucket: orders, endpoint: 'http://127.0.0.1:%d', access_key: ann, secret_key: correct-horse, key: a}\n", port))
	if got := f.SendJSON("get", `1`); !strings.Contains(got, "connection lost") {
		t.Errorf("without a server, got %s", got)
	}
	brokers.StartS3(t, brokers.S3Options{Port: port})
	until(t, "the server answers", func() bool { return strings.Contains(f.SendJSON("get", `1`), "does not exist") })
}

// TestS3TLS connects with the right authority, and names the field for each mistake.
func TestS3TLS(t *testing.T) {
	cert, key := certificateFiles(t)
	other, _ := certificateFiles(t)
	s := brokers.StartS3(t, brokers.S3Options{Cert: cert, Key: key})
	for _, c := range []struct {
		endpoint, tls string
		want          string // of the error; empty for none
	}{
		{s.URL(s.Addr), fmt.Sprintf("tls: {ca: %q}", cert), ""},
		{s.URL(s.Addr), "tls: {skip_verify: true}", ""},
		{s.URL(s.Addr), fmt.Sprintf("tls: {ca: %q}", other), "tls.ca: "},
		{s.URL(s.Addr), fmt.Sprintf("tls: {ca: %q, server_name: example.com}", cert), "tls.server_name: "},
	} {
		for _, kind := range []string{"s3_source", "s3_sink, key: a", "s3, key: a, action: get"} {
			f := natsFlow(t)
			list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, bucket: orders, access_key: ann, secret_key: correct-horse, endpoint: %q, %s}", kind, c.endpoint, c.tls))
			got := fmt.Sprint(list, err)
			if refused := err != nil || list.HasErrors(); refused != (c.want != "") || !strings.Contains(got, c.want) || strings.Contains(f.Log(), "connecting failed") || strings.Contains(f.Log(), "not found yet") {
				t.Errorf("%s, %s: got %s\n%s\nwant %q", kind, c.tls, got, f.Log(), c.want)
			}
			f.Close()
		}
	}
}

// TestS3Versions reads and deletes versions of an object.
func TestS3Versions(t *testing.T) {
	s := newS3System(t, brokers.S3Options{Versions: true})
	if err := s.client.EnableVersioning(t.Context(), brokers.S3Bucket); err != nil {
		t.Fatal(err)
	}
	f := natsFlow(t)
	f.Load(s.spec(t, "s3", "put", map[string]any{"action": "put", "key": "a"}) +
		s.spec(t, "s3", "get", map[string]any{"action": "get", "key": "a", "version": "${self}"}) +
		s.spec(t, "s3", "delete", map[string]any{"action": "delete", "key": "a", "version": "${self}"}))
	var versions [2]string
	for i := range versions {
		var stored struct{ Version string }
		if err := json.Unmarshal([]byte(f.SendJSON("put", fmt.Sprint(i))), &stored); err != nil || stored.Version == "" {
			t.Fatalf("got %+v, %v, want a version", stored, err)
		}
		versions[i] = stored.Version
	}
	for i, version := range versions {
		if got := f.SendJSON("get", fmt.Sprintf("%q", version)); !strings.Contains(got, fmt.Sprintf(`"body":%d,`, i)) || !strings.Contains(got, version) {
			t.Errorf("version %d: got %s", i, got)
		}
	}
	f.SendJSON("delete", fmt.Sprintf("%q", versions[0]))
	if got := f.SendJSON("get", fmt.Sprintf("%q", versions[0])); !strings.Contains(got, "does not exist") {
		t.Errorf("a version that is deleted: got %s", got)
	}
	if got := f.SendJSON("get", fmt.Sprintf("%q", versions[1])); !strings.Contains(got, `"body":1,`) {
		t.Errorf("the other version: got %s", got)
	}
}

// TestS3Aborted ends uploads of a large object in the middle: it is not seen in part, while they run
// and afterwards, and no part is left, which would cost.
func TestS3Aborted(t *testing.T) {
	s := newS3System(t, brokers.S3Options{})
	target, err := url.Parse(s.server.URL(s.server.Addr))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	server := &httputil.ReverseProxy{
		Transport: transport, ErrorLog: log.New(io.Discard, "", 0),
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
	}
	var second atomic.Value // a http.HandlerFunc: what becomes of the second part; nil passes it on
	second.Store(http.HandlerFunc(nil))
	var parts, deleted atomic.Int32
	held := make(chan struct{})
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handle := second.Load().(http.HandlerFunc)
		switch {
		case r.Method == http.MethodDelete:
			deleted.Add(1)
		case r.URL.Query().Get("partNumber") == "2" && handle != nil:
			parts.Add(1)
			if keys := s.keys(t, ""); len(keys) > 0 {
				t.Errorf("an object is seen before it is complete: %v", keys)
			}
			handle(w, r)
			return
		}
		server.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	hold := func(http.ResponseWriter, *http.Request) { <-held }
	large := value.Map(value.Field{Name: "body", Value: value.String(strings.Repeat("8", 40<<20))})
	for _, c := range []struct {
		name, want string
		second     http.HandlerFunc
	}{
		{"refused", "on purpose", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, "<Error><Code>AccessDenied</Code><Message>on purpose</Message></Error>")
		}},
		{"cut", "connection lost", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }},
		{"late", "no answer in time", hold},
		{"complete", "", nil},
	} {
		second.Store(c.second)
		before := deleted.Load()
		f := natsFlow(t)
		f.Options.Clock = node.SystemClock{}
		f.Load(s.at(t, strings.TrimPrefix(proxy.URL, "http://"), "s3_sink", "write", map[string]any{"key": "large", "encode": "raw", "timeout": "3s", "answer": "receipt"}))
		got := flowtest.Show(f.Send("write", large))
		f.Close()
		if c.second == nil {
			if data := s.get(t, "large"); len(data) != 40<<20 || !strings.Contains(got, `"key":"large"`) {
				t.Errorf("a complete one has %d bytes: %s", len(data), got)
			}
			break
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
		if keys := s.keys(t, ""); len(keys) > 0 || parts.Load() == 0 {
			t.Errorf("%s: there are %v after %d tries", c.name, keys, parts.Load())
		}
		until(t, "what has begun is removed: "+c.name, func() bool {
			for range s.client.ListIncompleteUploads(t.Context(), brokers.S3Bucket, "", true) {
				return false
			}
			return deleted.Load() > before
		})
	}
	close(held)
}
