package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// This file has what the fields of kinds with a buffer have in common.

// longest is the longest time of a field.
const longest = 366 * 24 * time.Hour

// withinFlight lowers how many packets may wait for each other to what may be in flight here,
// and reports whether it has; if the field says more, that is an error.
func withinFlight(init *node.Init, name, what string, n *int) (lowered bool, err error) {
	most := init.InFlight()
	if most == 0 || *n <= most {
		return false, nil
	}
	if c := init.Config; c.Has(name) {
		return false, c.Errorf(name, diag.CodeBadValue, "%s can never be full: what leads here has at most %d messages in flight", what, most).
			WithHint("write at most %d, or raise max_in_flight of the source", most)
	}
	*n = most
	return true, nil
}

// warnOfOrder warns if a source upstream holds messages back until the one before, of the same key, is answered.
func warnOfOrder(init *node.Init, what, hint string) {
	if init.Vertex == nil {
		return
	}
	for v := range node.Reach(node.Up, init.Vertex.In, nil) {
		if v.Traits.InFlight == 0 {
			continue
		}
		if in, name := v.Config.Find("order"); name == "order" && in.String(name) == stream.OrderKey.String() {
			init.AddWarning(init.Config.Errorf("", diag.CodeNoEffect, "the source %q has order: key, and sends no message before the one with the same key is answered, so %s", v.Ref.String(), what).WithHint("%s", hint))
		}
	}
}

// keyOf returns the key of a payload; the zero Key without the field key. The value is null then.
func keyOf(ctx context.Context, key lang.Program, payload value.Value) (k state.Key, v value.Value, err error) {
	if key == nil {
		return k, value.Null(), nil
	}
	if v, err = key.Eval(ctx, payload); err != nil {
		return k, v, unusable("key", fmt.Errorf("key: %w", err), payload)
	}
	return state.KeyOf(v), v, nil
}

// unusable is the failure of a payload, which is in the error.
func unusable(code string, err error, payload value.Value) error {
	bad := node.Unusable(code, err)
	bad.Data = payload
	return bad
}
