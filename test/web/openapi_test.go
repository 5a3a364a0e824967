package web_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

const (
	ordersKey   = "a key of the tests, which is long"
	ordersToken = "a secret of at least thirty-two bytes"
)

// startOrders starts examples/orders.yaml as its comment says, after replacing the first
// text of each pair by the second, and returns its URL.
func startOrders(t *testing.T, replaced ...string) (base string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "examples", "orders.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text, port := string(data), freeport.Port(t)
	for i, old := range replaced {
		if i%2 == 0 && !strings.Contains(text, old) {
			t.Fatalf("the example has no %q", old)
		}
	}
	text = strings.NewReplacer(append(replaced, "8000", fmt.Sprint(port))...).Replace(text)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "orders.yaml"), "%s", text)
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, dir, []string{asProgram + "=1"}, program, "start", "orders.yaml", "-e", "ORDERS_KEY="+ordersKey, "-e", "TOKEN_SECRET="+ordersToken)
	p.wait("listening", 1)
	return fmt.Sprintf("http://localhost:%d", port)
}

func fetch(t *testing.T, url string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status, err)
	}
	return data
}

// TestAnswersAreDescribed lets another validator of OpenAPI judge the document of the orders
// API, each answer, and each request: what it refuses must be refused by the API, too.
func TestAnswersAreDescribed(t *testing.T) {
	base := startOrders(t)
	judge := newJudge(t, fetch(t, base+"/openapi.json"))
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	f := func(want int, method, path, body string, headers ...string) {
		t.Helper()
		f := func() *http.Request {
			req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			if body != "" {
				req.Header.Set("Content-Type", "application/json")
			}
			for _, h := range headers {
				name, text, _ := strings.Cut(h, ": ")
				req.Header.Set(name, text)
			}
			return req
		}
		resp, err := transport.RoundTrip(f())
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		what := fmt.Sprintf("%s %s %.60s: %s %.200s", method, path, body, resp.Status, data)
		if resp.StatusCode != want {
			t.Errorf("%s: want %d", what, want)
		}
		resp.Body = io.NopCloser(bytes.NewReader(data))
		if ok, errs := judge.ValidateHttpResponse(f(), resp); !ok {
			t.Errorf("%s: the answer is not described: %v", what, errs)
		}
		if strings.Contains(path, "?state=lost") || slices.Contains(headers, "Authorization: Bearer x.y.z") {
			return // it looks neither at an enum without a type, nor into tokens
		}
		ok, errs := judge.ValidateHttpRequest(f())
		if ours := !slices.Contains([]int{400, 401, 413, 422}, resp.StatusCode); ok != ours {
			t.Errorf("%s: the judge of requests says %v: %v", what, ok, errs)
		}
	}
	for _, accept := range []string{"Accept: */*", "Accept: application/json", "Accept: application/problem+json", "Accept: text/plain"} {
		key := "X-API-Key: " + ordersKey
		both := []string{key, accept}
		f(200, "GET", "/", "", accept)
		f(200, "GET", "/orders", "", both...)
		f(201, "POST", "/orders", `{"reference": "A-1", "item": "tea", "count": 3}`, both...)
		f(409, "POST", "/orders", `{"reference": "A-1", "item": "tea", "count": 3}`, both...)
		f(201, "POST", "/orders", `{"reference": "A-2", "item": "ä", "count": 1000, "note": null}`, both...)
		f(401, "POST", "/orders", `{"reference": "A-3", "item": "tea", "count": 3}`, accept)
		f(401, "GET", "/orders/1", "", accept)
		f(401, "GET", "/orders/1", "", accept, "Authorization: Bearer x.y.z")
		f(422, "POST", "/orders", `{"reference": "A-3", "item": "tea"}`, both...)
		f(422, "POST", "/orders", `{"reference": "A 3", "item": "tea", "count": 1}`, both...)
		f(422, "POST", "/orders", `{"reference": "A-3", "item": "tea", "count": 1.5}`, both...)
		f(422, "POST", "/orders", `{"reference": "A-3", "item": "tea", "count": 1, "x": 1}`, both...)
		f(422, "POST", "/orders", `[]`, both...)
		f(400, "POST", "/orders", `{`, both...)
		f(422, "GET", "/orders?limit=0", "", both...)
		f(422, "GET", "/orders?limit=ten", "", both...)
		f(422, "GET", "/orders?state=lost", "", both...)
		f(200, "GET", "/orders?state=open&limit=1&after=0", "", both...)
		f(200, "GET", "/orders/1", "", both...)
		f(422, "GET", "/orders/x", "", both...)
		f(404, "GET", "/orders/99", "", both...)
		f(200, "PUT", "/orders/1", `{"item": "coffee", "count": 4}`, both...)
		f(422, "PUT", "/orders/1", `{"item": "coffee", "count": 4, "reference": "B"}`, both...)
		f(200, "POST", "/orders/1/shipment", "", both...)
		f(409, "POST", "/orders/1/shipment", "", both...)
		f(409, "PUT", "/orders/1", `{"item": "coffee", "count": 4}`, both...)
		f(409, "DELETE", "/orders/1", "", both...)
		f(204, "DELETE", "/orders/2", "", both...)
		f(404, "DELETE", "/orders/2", "", both...)
		base = startOrders(t) // the next round begins without orders
	}
}
