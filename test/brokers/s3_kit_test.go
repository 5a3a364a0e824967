package brokers_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/test/brokers"
	"github.com/uniflow-labs/uniflow/value"
)

// An s3System is a server with a bucket.
type s3System struct {
	server *brokers.S3
	client *minio.Client
	last   atomic.Int64 // number of an object
}

func newS3System(t testing.TB, o brokers.S3Options) *s3System {
	t.Helper()
	s := &s3System{server: brokers.StartS3(t, o)}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true} // versitygw may answer an empty body twice
	t.Cleanup(transport.CloseIdleConnections)
	var err error
	s.client, err = minio.New(s.server.Addr, &minio.Options{Creds: credentials.NewStaticV4(brokers.S3User, brokers.S3Secret, ""), Region: "us-east-1", Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fields returns the fields that each kind needs for a server at an address.
func (s *s3System) fields(kind, addr string, more map[string]any) map[string]any {
	f := map[string]any{"kind": kind, "endpoint": s.server.URL(addr), "bucket": brokers.S3Bucket, "access_key": brokers.S3User, "secret_key": brokers.S3Secret}
	for name, v := range more {
		f[name] = v
	}
	return f
}

func (s *s3System) put(t testing.TB, key string, data []byte) {
	t.Helper()
	for {
		_, err := s.client.PutObject(t.Context(), brokers.S3Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{})
		if err == nil || t.Context().Err() != nil {
			return // the row has failed, or is over
		}
		if minio.ToErrorResponse(err).StatusCode != 0 { // otherwise the server may be away
			t.Fatal(err)
		}
	}
}

func (s *s3System) get(t testing.TB, key string) []byte {
	t.Helper()
	o, err := s.client.GetObject(context.Background(), brokers.S3Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	data, err := io.ReadAll(o)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (s *s3System) keys(t testing.TB, prefix string) (keys []string) {
	t.Helper()
	for o := range s.client.ListObjectsIter(context.Background(), brokers.S3Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

// produce puts messages as one object of NDJSON, whose key is after those before.
func (s *s3System) produce(t testing.TB, messages []streamtest.Message) {
	var text []byte
	for _, m := range messages {
		body := m.Body
		if len(body) == 0 {
			body = []byte(`""`) // an empty line is not a message
		}
		text = append(append(text, body...), '\n')
	}
	s.put(t, fmt.Sprintf("new/%08d.ndjson", s.last.Add(1)), text)
}

func refuseS3(fields map[string]any) (field, secret string) {
	fields["secret_key"] = wrongPassword
	return "secret_key", wrongPassword
}

func TestS3Source(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: std.Defs(""), Source: true,
		System: func(t testing.TB) *streamtest.System {
			s := newS3System(t, brokers.S3Options{})
			dir := t.TempDir()
			return &streamtest.System{
				Addr:    s.server.Addr,
				Restart: s.server.Restart,
				Source: func(addr string) map[string]any {
					return s.fields("s3_source", addr, map[string]any{
						"prefix": "new/", "interval": "20ms", "max_record": "64MiB", "timeout": "3s",
						"checkpoint": map[string]any{"file": dir + "/positions", "interval": "50ms"},
					})
				},
				Produce: s.produce,
				Refuse:  refuseS3,
			}
		},
	})
}

func TestS3Sink(t *testing.T) {
	streamtest.Run(t, streamtest.Subject{
		Kinds: std.Defs(""), Sink: true,
		System: func(t testing.TB) *streamtest.System {
			s := newS3System(t, brokers.S3Options{})
			return &streamtest.System{
				Addr:    s.server.Addr,
				Restart: s.server.Restart,
				Sink: func(addr string) map[string]any {
					return s.fields("s3_sink", addr, map[string]any{"key": "out/{part}.ndjson"})
				},
				Consume: func(t testing.TB) (bodies [][]byte) {
					for _, key := range s.keys(t, "out/") {
						lines := bytes.Split(s.get(t, key), []byte{'\n'})
						bodies = append(bodies, lines[:len(lines)-1]...)
					}
					return bodies
				},
				Reject: func() value.Value { // infinite numbers are not JSON
					zero := 0.0
					return value.Map(value.Field{Name: "body", Value: value.Float(1 / zero)})
				},
				Refuse: refuseS3,
			}
		},
	})
}
