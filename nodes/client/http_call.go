package client

import (
	"context"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

func (n *httpNode) Receive(p node.Process, pkt node.Packet) node.Result {
	hasClient, key := p.HasClient(), ""
	if r, ok := node.RunOf(p); ok && n.idempotency != "" {
		key = r.Key()
	}
	return node.Block(func(ctx context.Context) node.Result { return n.call(ctx, hasClient, key, pkt) })
}

// call makes one call. The deadlines are of the network, so they are not measured by
// the clock of the engine.
func (n *httpNode) call(ctx context.Context, hasClient bool, key string, pkt node.Packet) node.Result {
	limited := ctx
	if n.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, n.timeout)
		defer cancel()
	}
	req, err := n.newRequest(limited, pkt.Payload)
	if err != nil {
		return node.Fail(n.failure(codeRequest, 0, err))
	}
	if key != "" && (req.Method == http.MethodPost || req.Method == http.MethodPatch) && req.Header.Get(n.idempotency) == "" {
		req.Header = req.Header.Clone() // calls share it
		req.Header.Set(n.idempotency, key)
	}
	start := time.Now()
	n.metrics.inFlight.Add(1)
	defer n.metrics.inFlight.Add(-1)
	resp, err := n.http.Do(req)
	if err != nil {
		n.metrics.calls.Add(0, time.Since(start))
		return node.Fail(n.describe(ctx, limited, err))
	}
	answer, err := n.read(resp)
	if closeErr := resp.Body.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil {
		n.metrics.calls.Add(0, time.Since(start))
		return node.Fail(withStatus(n.describe(ctx, limited, err), resp.StatusCode))
	}
	n.metrics.calls.Add(resp.StatusCode, time.Since(start))
	if err := n.unexpected(ctx, hasClient, resp, answer); err != nil {
		return node.Fail(err)
	}
	return node.Send(0, answer)
}
