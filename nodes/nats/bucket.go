package nats

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

var (
	keyShape      = value.NewShape("key")
	revisionShape = value.NewShape("key", "revision")
	entryShape    = value.NewShape("key", "value", "revision", "time")
)

// listKeys returns the keys that match a filter; without one, all.
func listKeys(ctx context.Context, kv jetstream.KeyValue, filter string) (out value.Value, err error) {
	if filter == "" {
		filter = ">"
	}
	lister, err := kv.ListKeysFiltered(ctx, filter)
	if err != nil {
		return out, err
	}
	var keys []string
	for key := range lister.Keys() {
		keys = append(keys, key)
	}
	if ctx.Err() != nil {
		return out, errors.Join(context.Cause(ctx), lister.Stop())
	}
	slices.Sort(keys)
	list := make([]value.Value, len(keys))
	for i, key := range keys {
		list[i] = value.String(key)
	}
	return value.List(list...), nil
}

func (n *bucket) history(ctx context.Context, kv jetstream.KeyValue, key string) (out value.Value, err error) {
	entries, err := kv.History(ctx, key)
	if err != nil {
		return out, err
	}
	list := make([]value.Value, len(entries))
	for i, e := range entries {
		v := keyShape.Map(value.String(e.Key()))
		if e.Operation() == jetstream.KeyValuePut {
			if v, err = n.entry(e); err != nil {
				return out, err
			}
		}
		list[i] = v.With("revision", value.Uint(e.Revision())).With("time", value.Time(e.Created())).With("operation", value.String(operations[e.Operation()]))
	}
	return value.List(list...), nil
}

var operations = map[jetstream.KeyValueOp]string{jetstream.KeyValuePut: "put", jetstream.KeyValueDelete: "delete", jetstream.KeyValuePurge: "purge"}

func (n *bucket) entry(e jetstream.KeyValueEntry) (value.Value, error) {
	v, err := n.value(e.Value())
	return entryShape.Map(value.String(e.Key()), v, value.Uint(e.Revision()), value.Time(e.Created())), err
}

// open returns the bucket over the connection there is now.
func (n *bucket) open(ctx context.Context) (jetstream.KeyValue, error) {
	conn, err := n.conn.now()
	if err != nil {
		return nil, lostError(err)
	}
	n.mu.Lock()
	kv := n.mu.kv
	known := n.mu.conn == conn
	n.mu.Unlock()
	if known {
		return kv, nil
	}
	js, err := jetstream.New(conn)
	if err != nil {
		return nil, err
	}
	if kv, err = js.KeyValue(ctx, n.name); err != nil {
		return nil, err
	}
	n.mu.Lock()
	n.mu.conn, n.mu.kv = conn, kv
	n.mu.Unlock()
	return kv, nil
}

// describe returns an error as workflows see it.
func (n *bucket) describe(err error) error {
	var api *jetstream.APIError
	switch {
	case errors.Is(err, jetstream.ErrKeyNotFound), errors.Is(err, jetstream.ErrKeyDeleted):
		return &node.Error{Err: errors.New("no such key"), Status: 404, Code: "not_found"}
	case errors.Is(err, jetstream.ErrKeyExists) && n.operation == "create":
		return &node.Error{Err: errors.New("the key exists"), Status: 409, Code: "exists"}
	case errors.As(err, &api) && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return &node.Error{Err: errors.New("the key has another revision"), Status: 409, Code: "revision"}
	case errors.Is(err, jetstream.ErrInvalidKey):
		return node.Unusable("", errors.New("not a key: it has letters, digits and -/_=. only"))
	case errors.Is(err, jetstream.ErrBucketNotFound), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, jetstream.ErrStreamNotFound):
		return &node.Error{Err: fmt.Errorf("there is no bucket %q", n.name), Status: 503, Code: "bucket", Outage: true}
	}
	return n.failure(err, n.name)
}
