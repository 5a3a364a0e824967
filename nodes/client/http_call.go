package client

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/httpclient"
)

// Receive makes one call.
func (n *httpNode) Receive(p node.Process, pkt node.Packet) node.Result {
	hasClient := p.HasClient()
	return node.Block(func(ctx context.Context) node.Result { return n.call(ctx, hasClient, pkt) })
}

// call makes one call. The deadlines are of the network, so they are not measured by
// the clock of the engine.
func (n *httpNode) call(ctx context.Context, hasClient bool, pkt node.Packet) node.Result {
	if n.http == nil {
		return node.Fail(node.ErrNotOpen)
	}
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

// checkRedirect decides on a redirect, and removes the headers that are not for another
// host. Once a redirect has left the host, one back to it does not get them either.
func (n *httpNode) checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	away := !sameOrigin(first, req.URL)
	for _, r := range via[1:] {
		away = away || !sameOrigin(first, r.URL)
	}
	switch {
	case n.redirects == "none" || n.redirects == "same_host" && !sameOrigin(first, req.URL):
		return http.ErrUseLastResponse
	case len(via) > httpclient.MaxRedirects:
		return errRedirects
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return errRedirectScheme
	}
	delete(req.Header, "Referer") // net/http has set it, and its query may be a secret
	if away {
		for name := range req.Header {
			if !isHarmless(name) {
				delete(req.Header, name)
			}
		}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// isHarmless reports whether a header cannot be a credential, and may go to a host that
// the workflow does not name.
func isHarmless(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Type",
		"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "Traceparent", "Tracestate", "User-Agent":
		return true
	}
	return false
}
