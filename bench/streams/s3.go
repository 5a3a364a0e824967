package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// s3Lines is how many lines there are at scale 1, of about 300 bytes, in objects of s3Together.
const s3Lines, s3Together = 1_000_000, 10_000

// s3Bucket is the bucket of the broker, with its user and secret.
const s3Bucket, s3User, s3Secret = "orders", "ann", "correct-horse"

// measureS3 is OBJECTS: objects of NDJSON into objects of as many lines. What has arrived is known by
// its bytes, of which both sides write the same.
func measureS3(ctx context.Context, l *lab) error {
	server, addr, err := l.broker(ctx, "s3", "-dir", l.File("s3"))
	if err != nil {
		return err
	}
	defer server.end()
	client, err := s3Client(addr)
	if err != nil {
		return err
	}
	n := max(2, l.count(s3Lines)/s3Together) * s3Together
	return l.eachShape(func(shape string) error {
		all, err := fillS3(ctx, client, shape, n)
		if err != nil {
			return err
		}
		move := func(name, program string, args ...string) round {
			return round{name, func(ctx context.Context) (cost, int, error) {
				c, moved, err := l.through(ctx, n, func(ctx context.Context) (int, error) {
					size, err := s3Size(ctx, client)
					return int(size * int64(n) / all), err
				}, program, args...)
				return c, moved, errors.Join(err, s3Clear(ctx, client, "out/"))
			}}
		}
		rounds := make([]round, 0, 4)
		for _, form := range []struct{ name, fields, code string }{
			{"uniflow", "", mapCode(shape)},
			{"uniflow, batches of 1,000", "batch: {count: 1000}, ", "self.map(m, " + strings.ReplaceAll(mapCode(shape), "body.", "m.body.") + ")"},
		} {
			document, err := l.write(fmt.Sprintf("s3-%d.yaml", len(rounds)), fmt.Sprintf(`
- {kind: s3_source, name: in, endpoint: 'http://%[1]s', bucket: orders, access_key: ann, secret_key: correct-horse, prefix: in/, %[2]smax_in_flight: 40000, ports: {out: [{name: map}]}}
- {kind: snippet, name: map, language: cel, code: '%[3]s', ports: {out: [{name: out}]}}
- {kind: s3_sink, name: out, endpoint: 'http://%[1]s', bucket: orders, access_key: ann, secret_key: correct-horse, key: 'out/{part}.ndjson', max_in_flight: 40000, batch: {count: %[4]d, bytes: 64MiB, linger: 200ms}}
`, addr, form.fields, form.code, s3Together))
			if err != nil {
				return err
			}
			rounds = append(rounds, move(form.name+", "+shape, l.Binary, "start", document))
		}
		for _, workers := range []string{"1", "4"} {
			rounds = append(rounds, move(workers+" at a time, "+shape, l.Self, formArgs("s3", workers, shape, addr)...))
		}
		ours, best, err := l.compare(ctx, "OBJECTS", rounds...)
		if err != nil {
			return err
		}
		l.rate("OBJECTS", ours, best, 0.7)
		l.cpu("OBJECTS", ours, best, 1.5)
		return s3Clear(ctx, client, "in/")
	})
}

func s3Client(addr string) (*minio.Client, error) {
	return minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4(s3User, s3Secret, ""), Region: "us-east-1", Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 8}})
}

// fillS3 makes the objects, and returns the size of what they become.
func fillS3(ctx context.Context, client *minio.Client, shape string, n int) (size int64, err error) {
	m := mappers(shape)[onDemand]
	for i := 0; i < n; i += s3Together {
		var text, out []byte
		for j := range s3Together {
			at := len(text)
			text, _ = appendMessage(text, shape, i+j)
			if out, err = m(out[:0], text[at:]); err != nil {
				return 0, err
			}
			text = append(text, '\n')
			size += int64(len(out)) + 1
		}
		if err := s3Put(ctx, client, fmt.Sprintf("in/%06d.ndjson", i/s3Together), text); err != nil {
			return 0, err
		}
	}
	return size, nil
}

func s3Put(ctx context.Context, client *minio.Client, key string, data []byte) error {
	_, err := client.PutObject(ctx, s3Bucket, key, bytes.NewReader(data), int64(len(data)), minio.PutObjectOptions{ContentType: "application/x-ndjson"})
	return err
}

func s3Size(ctx context.Context, client *minio.Client) (size int64, err error) {
	for o := range client.ListObjectsIter(ctx, s3Bucket, minio.ListObjectsOptions{Prefix: "out/", Recursive: true}) {
		if o.Err != nil {
			return 0, o.Err
		}
		size += o.Size
	}
	return size, nil
}

func s3Clear(ctx context.Context, client *minio.Client, prefix string) error {
	for o := range client.ListObjectsIter(ctx, s3Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if o.Err != nil {
			return o.Err
		}
		if err := client.RemoveObject(ctx, s3Bucket, o.Key, minio.RemoveObjectOptions{}); err != nil {
			return err
		}
	}
	return nil
}

// s3Form is the baseline: workers, shape, server. Each takes an object, and writes what it becomes.
func s3Form(ctx context.Context, args []string) error {
	workers, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	m := mappers(args[1])[onDemand]
	client, err := s3Client(args[2])
	if err != nil {
		return err
	}
	var keys []string
	for o := range client.ListObjectsIter(ctx, s3Bucket, minio.ListObjectsOptions{Prefix: "in/", Recursive: true}) {
		if o.Err != nil {
			return o.Err
		}
		keys = append(keys, o.Key)
	}
	var next struct {
		sync.Mutex
		keys []string
	}
	next.keys = slices.Clone(keys)
	err = together(workers, func() error {
		for {
			next.Lock()
			if len(next.keys) == 0 {
				next.Unlock()
				return nil
			}
			key := next.keys[0]
			next.keys = next.keys[1:]
			next.Unlock()
			if err := s3Move(ctx, client, key, m); err != nil {
				return err
			}
		}
	})
	if err == nil {
		<-ctx.Done() // it is measured until all has arrived
	}
	return err
}

func s3Move(ctx context.Context, client *minio.Client, key string, m mapper) error {
	o, err := client.GetObject(ctx, s3Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return err
	}
	defer o.Close()
	var out []byte
	lines := bufio.NewReaderSize(o, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && (err != io.EOF || len(line) > 0) {
			return fmt.Errorf("%s: %w", key, err)
		}
		if err == io.EOF {
			return s3Put(ctx, client, "out"+key[2:], out)
		}
		if out, err = m(out, bytes.TrimSuffix(line, []byte("\n"))); err != nil {
			return err
		}
		out = append(out, '\n')
	}
}
