package nats

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed nats_kv.md
var natsKvPage string

func kvDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "nats_kv",
		Summary: "Reads and writes the keys of a bucket of JetStream.",
		Page:    node.ReadPage(natsKvPage),
		Config: withClient(append([]*schema.Field{
			schema.String("bucket").Required().Doc("The name of the bucket."),
			schema.Enum("operation", "get", "put", "create", "update", "delete", "purge", "keys", "history").Required().Doc("What to do."),
			schema.String("key").Doc("The key. It may have expressions over the payload in it: `user.${self.id}`."),
			schema.Expr("value").Default("self").Doc("What `put`, `create` and `update` store."),
			schema.Expr("revision").Doc("The revision that the key must have."),
		}, bodyFields()...)...),
		In:  []node.Port{{Name: "in", Doc: "What the expressions see."}},
		Out: []node.Port{{Name: "out", Doc: "The result."}},
		Recall: func(c schema.Config) node.Recall {
			if slices.Contains([]string{"get", "keys", "history"}, c.String("operation")) {
				return node.Reads
			}
			return node.Effects
		},
		New: func(init *node.Init) (node.Node, error) { return newBucket(o, init) },
	}
}

// A bucket is a node of the kind nats_kv.
type bucket struct {
	*client
	bodies
	name, operation string
	key             template.Template
	stored          lang.Program
	revision        lang.Program // nil without
	ref             node.Ref
	lookup          *stream.Lookup // of the bucket

	mu struct {
		sync.Mutex
		conn *nats.Conn // of kv
		kv   jetstream.KeyValue
	}
}

func newBucket(o stream.Options, init *node.Init) (node.Node, error) {
	c := init.Config
	client, err := newClient(init)
	if err != nil {
		return nil, err
	}
	n := &bucket{client: client, bodies: newBodies(c), name: c.String("bucket"), operation: c.String("operation"), ref: init.Node}
	if n.name == "" || strings.ContainsAny(n.name, " \t\r\n.*>/\\") {
		return nil, c.Errorf("bucket", diag.CodeBadValue, "%q cannot be the name of a bucket", n.name).WithHint("names have letters, digits, _ and -")
	}
	if n.operation != "keys" && !c.Has("key") {
		return nil, c.Errorf("", diag.CodeBadValue, "%s needs a key", n.operation).WithHint("add key")
	}
	if n.operation == "update" && !c.Has("revision") {
		return nil, c.Errorf("", diag.CodeBadValue, "update needs the revision that the key must have").WithHint("add revision, or write put")
	}
	if c.Has("revision") && !slices.Contains([]string{"get", "update", "delete", "purge"}, n.operation) {
		return nil, c.Errorf("revision", diag.CodeBadValue, "%s has no revision", n.operation).WithHint("remove revision, or write update")
	}
	if n.key, err = template.OfField(c, "key", template.Compiler(o.Languages, o.Language)); err != nil {
		return nil, err
	}
	if n.stored, err = o.Expr(c, "value", lang.Options{Warn: init.Warn}); err != nil {
		return nil, err
	}
	n.revision, err = o.Expr(c, "revision", lang.Options{Warn: init.Warn})
	return n, err
}

// Find looks for the bucket. See [node.Finder].
func (n *bucket) Find(ctx context.Context) (err error) {
	n.lookup, err = stream.NewLookup(ctx, n.ref, n.log, n.find)
	return err
}

func (n *bucket) find(ctx context.Context) error {
	if _, err := n.open(ctx); err != nil {
		return n.describe(err)
	}
	return nil
}

// Ready implements [node.Readier].
func (n *bucket) Ready() error {
	if err := n.client.Ready(); err != nil {
		return err
	}
	return n.lookup.Ready()
}

// Close ends what Open and Find began.
func (n *bucket) Close() error { return errors.Join(n.lookup.Close(), n.client.Close()) }

// Receive implements [node.Node].
func (n *bucket) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result {
		ctx, cancel := context.WithTimeout(ctx, n.timeout)
		defer cancel()
		out, err := n.do(ctx, pkt.Payload)
		if err != nil {
			return node.Fail(n.describe(err))
		}
		return node.Send(0, out)
	})
}

// do does the operation.
func (n *bucket) do(ctx context.Context, payload value.Value) (out value.Value, err error) {
	key, err := n.key.Text(ctx, payload)
	if err != nil {
		return out, err
	}
	var revision uint64
	if n.revision != nil {
		v, err := n.revision.Eval(ctx, payload)
		if err != nil {
			return out, err
		}
		var ok bool
		if revision, ok = v.AsUint(); !ok {
			return out, node.Unusable("", fmt.Errorf("revision: must be a whole number, got %s", v.Kind()))
		}
	}
	kv, err := n.open(ctx)
	if err != nil {
		return out, err
	}
	switch n.operation {
	case "get":
		var entry jetstream.KeyValueEntry
		if n.revision != nil {
			entry, err = kv.GetRevision(ctx, key, revision)
		} else {
			entry, err = kv.Get(ctx, key)
		}
		if err != nil {
			return out, err
		}
		return n.entry(entry)
	case "keys":
		return listKeys(ctx, kv, key)
	case "history":
		return n.history(ctx, kv, key)
	case "delete", "purge":
		var opts []jetstream.KVDeleteOpt
		if n.revision != nil {
			opts = append(opts, jetstream.LastRevision(revision))
		}
		if n.operation == "purge" {
			err = kv.Purge(ctx, key, opts...)
		} else {
			err = kv.Delete(ctx, key, opts...)
		}
		return keyShape.Map(value.String(key)), err
	}
	return n.store(ctx, kv, key, revision, payload)
}

func (n *bucket) store(ctx context.Context, kv jetstream.KeyValue, key string, revision uint64, payload value.Value) (out value.Value, err error) {
	v, err := n.stored.Eval(ctx, payload)
	if err != nil {
		return out, err
	}
	data, err := n.bytes(v)
	if err != nil {
		return out, err
	}
	switch n.operation {
	case "put":
		revision, err = kv.Put(ctx, key, data)
	case "create":
		revision, err = kv.Create(ctx, key, data)
	case "update":
		revision, err = kv.Update(ctx, key, data, revision)
	}
	return revisionShape.Map(value.String(key), value.Uint(revision)), err
}
