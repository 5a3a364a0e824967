package s3

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"github.com/minio/minio-go/v7/pkg/s3utils"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// withConnection adds the fields that say where a bucket is, which all kinds have.
func withConnection(own ...*schema.Field) schema.Object {
	return schema.Fields(append([]*schema.Field{
		schema.String("bucket").Required().Doc("The bucket. It must exist."),
		schema.String("endpoint").Default("https://s3.amazonaws.com").Doc("The URL of the service, such as `http://127.0.0.1:9000`, without the bucket."),
		schema.String("region").Default("us-east-1").Doc("The region of the bucket. Requests are signed for it."),
		schema.String("access_key").Doc("Whose requests they are, with `secret_key`. Without both, requests are anonymous."),
		schema.String("secret_key").Secret().Doc("What requests are signed with."),
		schema.String("session_token").Secret().Doc("The token of temporary credentials."),
		schema.Enum("addressing", "auto", "path", "host").Default("auto").Doc("Where a URL has the bucket: in its `path` or in its `host`. `auto` is the host for Amazon and a few others, and the path otherwise."),
		field.NewTLS("How a service with `https` is trusted."),
	}, own...)...)
}

// settings are how to reach a bucket. They are immutable, and comparable.
type settings struct {
	endpoint, bucket, region string
	access, secret, token    string
	lookup                   minio.BucketLookupType
	tls                      field.TLS
	tries                    int // of a request
	host                     string
	https                    bool
}

// newSettings reads and checks the fields of withConnection.
func newSettings(c schema.Config, tries int) (*settings, error) {
	s := &settings{
		endpoint: c.String("endpoint"), bucket: c.String("bucket"), region: c.String("region"), tries: tries,
		access: c.String("access_key"), secret: c.String("secret_key"), token: c.String("session_token"),
	}
	switch c.String("addressing") {
	case "path":
		s.lookup = minio.BucketLookupPath
	case "host":
		s.lookup = minio.BucketLookupDNS
	}
	u, err := field.ParseURL(s.endpoint, "http", "https")
	if err != nil || u.User != nil || u.RawQuery != "" || u.Path != "" && u.Path != "/" {
		return nil, c.Errorf("endpoint", diag.CodeBadValue, "not the URL of a service").WithHint("write one such as https://s3.eu-central-1.amazonaws.com, without path and credentials; these and the bucket have fields of their own")
	}
	s.host, s.https = u.Host, u.Scheme == "https"
	if err := s3utils.CheckValidBucketName(s.bucket); err != nil {
		return nil, c.Errorf("bucket", diag.CodeBadValue, "%q cannot be the name of a bucket: %s", s.bucket, err)
	}
	if (s.access == "") != (s.secret == "") {
		at := "access_key"
		if s.access == "" {
			at = "secret_key"
		}
		return nil, c.Errorf(at, diag.CodeBadValue, "access_key and secret_key belong together")
	}
	if s.token != "" && s.access == "" {
		return nil, c.Errorf("session_token", diag.CodeBadValue, "a session token needs access_key and secret_key")
	}
	if s.tls, err = field.TLSOf(c); err != nil {
		return nil, err
	}
	if c.Has("tls") && !s.https {
		return nil, c.Errorf("tls", diag.CodeBadValue, "the endpoint has no TLS").WithHint("write an endpoint of https, or remove tls")
	}
	return s, nil
}

// dialTimeout bounds connecting to the service, and idleTimeout how long a connection is kept that
// is not used.
const dialTimeout, idleTimeout = 4 * time.Second, time.Minute

// A store is a client of one bucket. Any goroutine may call its methods.
type store struct {
	*settings
	api       minio.Core
	transport *http.Transport
}

// open makes a client. It does not connect.
func (s *settings) open() (*store, error) {
	t := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: dialTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: dialTimeout, MaxIdleConnsPerHost: parallel, IdleConnTimeout: idleTimeout, ExpectContinueTimeout: time.Second,
		DisableCompression: true, // an object that is packed stays so
	}
	if s.https {
		config, err := s.tls.Config()
		if err != nil {
			return nil, err
		}
		t.TLSClientConfig = config
	}
	creds := credentials.NewStaticV4(s.access, s.secret, s.token)
	if s.access == "" {
		creds = credentials.NewStatic("", "", "", credentials.SignatureAnonymous)
	}
	client, err := minio.New(s.host, &minio.Options{Creds: creds, Secure: s.https, Transport: t, Region: s.region, BucketLookup: s.lookup, MaxRetries: s.tries})
	if err != nil {
		return nil, &stream.RefusedError{Field: "endpoint", Err: err}
	}
	return &store{settings: s, api: minio.Core{Client: client}, transport: t}, nil
}

// close lets go of the connections.
func (s *store) close() { s.transport.CloseIdleConnections() }

// check returns nil if the bucket is there and the credentials are right. reads says that they must
// allow listing, too: who may only write finds out with the first object otherwise.
func (s *store) check(ctx context.Context, prefix string, reads bool) error {
	_, err := s.list(ctx, minio.ListObjectsOptions{Prefix: prefix, Recursive: true, MaxKeys: 1}, 1)
	if code := codeOf(err); code == minio.AccessDenied && !reads && s.access != "" {
		return nil
	}
	if err != nil {
		return s.refused(err)
	}
	return nil
}

// list returns up to most objects, in one request if that is at most maxPage.
func (s *store) list(ctx context.Context, o minio.ListObjectsOptions, most int) (objects []minio.ObjectInfo, err error) {
	owner := false
	o.FetchOwner = &owner
	for info := range s.api.ListObjectsIter(ctx, s.bucket, o) {
		if info.Err != nil {
			return nil, info.Err
		}
		if objects = append(objects, info); len(objects) == most {
			break
		}
	}
	return objects, ctx.Err()
}

// maxPage is the most objects that a service lists in one answer.
const maxPage = 1000

// place returns an object for messages to users.
func (s *store) place(key string) string { return fmt.Sprintf("s3://%s/%s", s.bucket, key) }
