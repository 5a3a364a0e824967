package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	// apiTimeout is how long a call of a platform may take.
	apiTimeout = 15 * time.Second

	// maxAPIAnswer is how many bytes of an answer are read.
	maxAPIAnswer = 1 << 20
)

// An api calls the methods of a platform. Its errors show neither tokens nor texts.
type api struct {
	base   string
	client *http.Client
	header http.Header // of each call; its owner sets it
}

func newAPI(c schema.Config) (*api, error) {
	u, err := url.Parse(c.String("api"))
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, c.Errorf("api", diag.CodeBadValue, "want a URL of http or https without credentials")
	}
	return &api{
		base: strings.TrimSuffix(c.String("api"), "/"),
		client: &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 90 * time.Second,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // a token goes nowhere else
		},
	}, nil
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
	resp, err := a.client.Do(req)
	if err != nil {
		var u *url.Error // its text has the address, and so may have a token
		if errors.As(err, &u) {
			err = u.Err
		}
		return value.Value{}, fmt.Errorf("%s: the platform cannot be reached: %w", method, err)
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxAPIAnswer))
	if err != nil {
		return value.Value{}, fmt.Errorf("%s: the answer broke off: %w", method, err)
	}
	v, err := value.ParseJSON(data)
	if len(bytes.TrimSpace(data)) == 0 {
		v, err = value.Null(), nil
	}
	if resp.StatusCode >= 300 || err != nil {
		e := &apiError{method: method, status: resp.StatusCode}
		if seconds, convErr := strconv.ParseFloat(resp.Header.Get("Retry-After"), 64); convErr == nil && seconds >= 0 && seconds < 1e6 {
			e.retryAfter = time.Duration(seconds * float64(time.Second))
		}
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

// close closes idle connections.
func (a *api) close() { a.client.CloseIdleConnections() }

// object makes a value of what encoding/json takes.
func object(v any) value.Value {
	data, err := json.Marshal(v)
	if err != nil {
		return value.Null() // only strings, numbers, maps and lists are given
	}
	made, err := value.ParseJSON(data)
	if err != nil {
		return value.Null() // as above
	}
	return made
}
