package chat

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// apiTimeout is how long a call of a platform may take.
	apiTimeout = 15 * time.Second

	// maxAPIAnswer is how many bytes an answer may have.
	maxAPIAnswer = 1 << 20
)

// An api calls the methods of a platform. Its errors show neither tokens nor texts.
type api struct {
	base   string
	client *http.Client
	header http.Header // of each call; its owner sets it
}

func newAPI(c schema.Config) (*api, error) {
	if _, err := field.ParseURL(c.String("api"), "http", "https"); err != nil {
		return nil, c.Errorf("api", diag.CodeBadValue, "%v", err)
	}
	t, err := httpclient.Settings{ConnectTimeout: apiTimeout, IdleTimeout: 90 * time.Second}.Open()
	if err != nil {
		return nil, err
	}
	return &api{base: strings.TrimSuffix(c.String("api"), "/"), client: t.Client(httpclient.NoRedirects)}, nil // a token goes nowhere else
}

// An apiError is an answer of a platform that is not good.
type apiError struct {
	method     string
	status     int
	says       string
	retryAfter time.Duration // 0 if the platform does not say
}

func (e *apiError) Error() string {
	return strings.TrimSpace(fmt.Sprintf("%s: the platform answered %d %s", e.method, e.status, node.Clip(e.says, 200)))
}

// again reports whether the same call may succeed later.
func (e *apiError) again() bool {
	return e.status == http.StatusTooManyRequests || e.status >= http.StatusInternalServerError
}

// call sends a value as JSON, and returns the answer, which may be null. method is what errors
// call it; path may have a token.
func (a *api) call(ctx context.Context, verb, method, path string, body value.Value, timeout time.Duration) (value.Value, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := body.AppendJSON(nil)
	if err != nil {
		return value.Value{}, fmt.Errorf("%s: %w", method, err)
	}
	if body.IsNull() {
		data = nil
	}
	req, err := http.NewRequestWithContext(ctx, verb, a.base+path, bytes.NewReader(data))
	if err != nil {
		return value.Value{}, fmt.Errorf("%s: the address of the API is not one", method)
	}
	for name, list := range a.header {
		req.Header[name] = list
	}
	if data != nil {
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
	}
	resp, data, err := httpclient.Fetch(a.client, req, maxAPIAnswer)
	if err != nil {
		return value.Value{}, fmt.Errorf("%s: the platform gives no answer: %w", method, err)
	}
	v, err := value.ParseJSON(data)
	if len(bytes.TrimSpace(data)) == 0 {
		v, err = value.Null(), nil
	}
	if resp.StatusCode >= 300 || err != nil {
		e := &apiError{method: method, status: resp.StatusCode, retryAfter: httpclient.RetryAfter(resp.Header, time.Now())}
		for _, name := range []string{"description", "error", "message"} {
			if v.Kind() == value.KindMap && e.says == "" {
				e.says, _ = fieldText(v, name)
			}
		}
		if err != nil && resp.StatusCode < 300 {
			e.says = "with what is not JSON"
		}
		return v, e
	}
	return v, nil
}

func (a *api) close() { a.client.CloseIdleConnections() }

// object makes a value of plain Go.
func object(v any) value.Value {
	made, err := value.Encode(v)
	if err != nil {
		return value.Null() // only strings, numbers, maps and lists are given
	}
	return made
}
