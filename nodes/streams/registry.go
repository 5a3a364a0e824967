package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/twmb/franz-go/pkg/sr"
	"golang.org/x/sync/singleflight"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	registryTimeout = 30 * time.Second
	mostSchemas     = 1000    // that a node remembers
	mostReferences  = 100     // of a schema, and of those that it refers to
	registryAnswer  = 4 << 20 // bytes
)

// registryFields are those of encode.
func registryFields() []*schema.Field {
	return []*schema.Field{
		schema.String("subject").Required().Doc("The subject whose schema is written, such as `orders-value`. Without `schema`, it is the latest one when the node first needs it."),
		schema.Bool("register").Doc("Whether `schema` is registered if the subject does not have it. Unless set, that is an error."),
	}
}

// A registry is a codec whose schemas another system has. What it has once answered does not
// change, so it is asked once for each schema.
type registry struct {
	schemas
	text     string // of the node's own schema; empty without
	subject  string
	register bool
	config   schema.Config // of the group
	endpoint *httpclient.Endpoint
	pool     *node.Pool

	release func() error
	client  *sr.Client // while the node is open
	flights singleflight.Group
	known   *lru.Cache[int, schemaReader] // by number
	written atomic.Pointer[numbered]
}

// numbered is a schema that is written.
type numbered struct {
	number int
	index  []int // see schemas
	schemaWriter
}

var wire sr.ConfluentHeader

func newRegistry(init *node.Init, of schemas, writing bool) (codec, error) {
	c := init.Config.Group("registry")
	r := &registry{schemas: of, config: c, pool: init.Pool}
	if of.own() != nil {
		var err error
		if r.text, err = schemaText(init.Config.Value("schema")); err != nil {
			return nil, err
		}
	}
	if writing {
		r.subject, r.register = c.String("subject"), c.Bool("register")
		if r.register && of.own() == nil {
			return nil, c.Errorf("register", diag.CodeBadValue, "there is no schema to register").WithHint("add schema")
		}
	}
	var err error
	r.endpoint, err = httpclient.NewEndpoint(c, "http", httpclient.Settings{ConnectTimeout: registryTimeout / 3, HeaderTimeout: registryTimeout, IdleTimeout: 90 * time.Second, Connections: 4})
	if err != nil {
		return nil, err
	}
	r.known, err = lru.New[int, schemaReader](mostSchemas)
	return r, err
}

// Open implements [node.Opener]. It connects to nothing.
func (r *registry) Open(context.Context) error {
	transport, release, err := r.endpoint.Settings.Acquire(r.pool, "schema registry", r.config)
	if err != nil {
		return err
	}
	r.release = release
	r.client, err = sr.NewClient(sr.URLs(strings.TrimSuffix(r.endpoint.URL.String(), "/")), sr.HTTPClient(&http.Client{Transport: limited{transport}, CheckRedirect: transport.Client(httpclient.SameHost).CheckRedirect}),
		sr.PreReq(func(req *http.Request) error {
			for name, values := range r.endpoint.Header {
				req.Header[name] = values
			}
			req.Host = r.endpoint.Host
			return nil
		}))
	if err != nil {
		return errors.Join(err, release())
	}
	return nil
}

// Close lets the connections go.
func (r *registry) Close() error { return r.release() }

// limited bounds answers.
type limited struct{ http.RoundTripper }

func (l limited) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body := resp.Body
	resp.Body = struct {
		io.Reader
		io.Closer
	}{&httpclient.Limited{R: body, Left: registryAnswer}, body}
	return resp, nil
}

func (r *registry) decode(data []byte) (value.Value, error) {
	number, rest, err := wire.DecodeID(data)
	if err != nil {
		return value.Value{}, errors.New("the bytes do not begin with a zero byte and the number of a schema, so no serializer of a registry has written them")
	}
	c, ok := r.known.Get(number)
	if !ok {
		return value.Value{}, &unknownSchema{func(ctx context.Context) error { return r.load(ctx, number) }}
	}
	v, err := c.Decode(rest)
	if err != nil {
		err = fmt.Errorf("schema %d: %w", number, err)
	}
	return v, err
}

func (r *registry) encode(v value.Value) (value.Value, error) {
	w := r.written.Load()
	if w == nil {
		return value.Value{}, &unknownSchema{r.loadWritten}
	}
	data, err := wire.AppendEncode(nil, w.number, w.index)
	if err == nil {
		data, err = w.Append(data, v)
	}
	return value.Binary(data), err
}

// once lets one caller ask, for all who ask the same meanwhile. what begins messages.
func (r *registry) once(ctx context.Context, what string, ask func(context.Context) error) error {
	c := r.flights.DoChan(what, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registryTimeout) // others wait for it, too
		defer cancel()
		return nil, r.explain(what, ask(ctx))
	})
	select {
	case done := <-c:
		return done.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// load asks for the schema of a number.
func (r *registry) load(ctx context.Context, number int) error {
	return r.once(ctx, fmt.Sprintf("schema %d", number), func(ctx context.Context) error {
		s, err := r.client.SchemaByID(ctx, number)
		if err != nil {
			return err
		}
		others, err := r.others(ctx, s)
		if err != nil {
			return err
		}
		c, err := r.read(s, others)
		if err != nil {
			return err
		}
		r.known.Add(number, c)
		return nil
	})
}

// loadWritten asks for the schema that is written.
func (r *registry) loadWritten(ctx context.Context) error {
	return r.once(ctx, fmt.Sprintf("subject %q", r.subject), func(ctx context.Context) error {
		var s sr.SubjectSchema
		var err error
		switch {
		case r.text == "":
			s, err = r.client.SchemaByVersion(ctx, r.subject, -1) // the latest
		case r.register:
			s, err = r.client.CreateSchema(ctx, r.subject, sr.Schema{Schema: r.text, Type: r.typ()})
		default:
			s, err = r.client.LookupSchema(ctx, r.subject, sr.Schema{Schema: r.text, Type: r.typ()})
		}
		w := &numbered{number: s.ID, schemaWriter: r.own()}
		if err == nil && r.text == "" {
			var others []reference
			if others, err = r.others(ctx, s.Schema); err == nil {
				w.schemaWriter, w.index, err = r.write(s.Schema, others)
			}
		}
		if err != nil {
			return err
		}
		r.written.Store(w)
		return nil
	})
}

// others returns what a schema of the right type refers to.
func (r *registry) others(ctx context.Context, s sr.Schema) ([]reference, error) {
	if s.Type != r.typ() {
		return nil, fmt.Errorf("it is of type %s, not %s", s.Type, r.typ())
	}
	return r.references(ctx, s.References, nil)
}

// references returns the schemas that others refer to, each behind those that it refers to
// itself.
func (r *registry) references(ctx context.Context, refs []sr.SchemaReference, found []reference) ([]reference, error) {
	for _, ref := range refs {
		s, err := r.client.SchemaByVersion(ctx, ref.Subject, ref.Version)
		if err == nil {
			found, err = r.references(ctx, s.References, found)
		}
		if err != nil {
			return nil, fmt.Errorf("reference to version %d of %q: %w", ref.Version, ref.Subject, err)
		}
		if other := (reference{ref.Name, s.Schema.Schema}); !slices.Contains(found, other) {
			found = append(found, other)
		}
		if len(found) > mostReferences {
			return nil, fmt.Errorf("it refers to more than %d schemas", mostReferences)
		}
	}
	return found, nil
}

// explain says why the registry has not answered, or cannot be used: that it is away is an
// outage.
func (r *registry) explain(what string, err error) error {
	if err == nil {
		return nil
	}
	e := &node.Error{Code: "registry", Status: http.StatusBadGateway}
	var answered *sr.ResponseError
	var failed *httpclient.Failure
	text := err.Error()
	switch {
	case errors.As(err, &answered):
		text = fmt.Sprintf("%s (status %d)", answered.Message, answered.StatusCode)
		e.Outage = httpclient.IsOutage(answered.StatusCode)
	case errors.As(err, &failed): // without the URL, which net/http quotes
		text, e.Code, e.Status, e.Outage = failed.Error(), failed.Code, failed.Status(), failed.Away
	}
	e.Err = errors.New(r.endpoint.Label + what + ": " + node.Clip(text, 500))
	return e
}
