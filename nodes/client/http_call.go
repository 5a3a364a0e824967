package client

import (
	"context"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

func (n *httpNode) Receive(p node.Process, pkt node.Packet) node.Result {
	hasClient := p.HasClient()
	return node.Block(func(ctx context.Context) node.Result { return n.call(ctx, hasClient, pkt) })
}

// call makes one call. The deadlines are of the network, so they are not measured by
// the clock of the engine.
func (n *httpNode) call(ctx context.Context, hasClient bool, pkt node.Packet) node.Result {
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
