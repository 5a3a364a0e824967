package kinds

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

type (
	item struct {
		SKU   string `json:"sku"`
		Count int    `json:"count"`
		Note  string `json:"note"`
	}
	call struct {
		ID    string `json:"id"`
		Items []item `json:"items"`
	}
)

var called = call{"ord-173", []item{{"tea", 2, "leave at the door"}, {"mate", 1, ""}}}

// BenchmarkHTTP posts JSON to a server and reads JSON from it, from several goroutines.
func BenchmarkHTTP(b *testing.B) {
	answer, err := json.Marshal(called)
	if err != nil {
		b.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) //nolint:errcheck // the client notices
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer) //nolint:errcheck // the client notices
	}))
	defer s.Close()
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	check := func(resp *http.Response, err error, read func(io.Reader) (call, error)) error {
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // read before
		got, err := read(resp.Body)
		if err == nil && (resp.StatusCode != http.StatusOK || len(got.Items) != len(called.Items)) {
			err = fmt.Errorf("%s: %v", resp.Status, got)
		}
		return err
	}
	run := func(name string, do func() error) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := do(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
	in, err := value.ParseJSON(answer)
	if err != nil {
		b.Fatal(err)
	}
	send := sent(b, "- {kind: http, name: n, url: '"+s.URL+"', method: POST}", in)
	run("uniflow", func() error {
		out, err := send()
		body, _ := out.Get("body")
		if items, _ := body.Get("items"); err == nil && items.Len() != len(called.Items) {
			err = fmt.Errorf("%v", out)
		}
		return err
	})
	run("by-hand/unmarshal", func() error {
		data, err := json.Marshal(called)
		if err != nil {
			return err
		}
		resp, err := client.Post(s.URL, "application/json", bytes.NewReader(data))
		return check(resp, err, func(r io.Reader) (got call, err error) {
			data, err := io.ReadAll(r)
			if err == nil {
				err = json.Unmarshal(data, &got)
			}
			return got, err
		})
	})
	run("by-hand/decoder", func() error {
		var buf bytes.Buffer
		if err := json.NewEncoder(&buf).Encode(called); err != nil {
			return err
		}
		resp, err := client.Post(s.URL, "application/json", &buf)
		return check(resp, err, func(r io.Reader) (got call, err error) {
			err = json.NewDecoder(r).Decode(&got)
			return got, err
		})
	})
	buffers := sync.Pool{New: func() any { return new(bytes.Buffer) }}
	run("by-hand/pooled", func() error {
		data, err := json.Marshal(called)
		if err != nil {
			return err
		}
		resp, err := client.Post(s.URL, "application/json", bytes.NewReader(data))
		return check(resp, err, func(r io.Reader) (got call, err error) {
			buf := buffers.Get().(*bytes.Buffer)
			defer buffers.Put(buf)
			buf.Reset()
			if _, err := buf.ReadFrom(r); err != nil {
				return got, err
			}
			err = json.Unmarshal(buf.Bytes(), &got)
			return got, err
		})
	})
}
