package examples

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	ordersKey   = "a key of the tests, which is long"
	tokenSecret = "a secret of at least thirty-two bytes"
)

// token returns a JWT with scopes.
func token(claims string) string {
	part := base64.RawURLEncoding.EncodeToString
	text := part([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + part([]byte(claims))
	mac := hmac.New(sha256.New, []byte(tokenSecret))
	mac.Write([]byte(text))
	return text + "." + part(mac.Sum(nil))
}

// An asker sends requests to the API of orders.
type asker struct {
	t    *testing.T
	base string
	c    *http.Client
}

// ask sends a request with headers, each "Name: value", and returns the answer and its body.
func (a asker) ask(method, path, body string, headers ...string) (*http.Response, string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, text, _ := strings.Cut(h, ": ")
		req.Header.Set(name, text)
	}
	resp, err := a.c.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp, string(data)
}

func ordersAPI(t *testing.T, replaced ...string) asker {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	port := listenWith(t, "orders.yaml", map[string]string{"ORDERS_KEY": ordersKey, "TOKEN_SECRET": tokenSecret}, replaced...)
	return asker{t, "http://localhost:" + port, &http.Client{Transport: transport}}
}

// TestOrders is what a client sees who does right, and who does wrong.
func TestOrders(t *testing.T) {
	a := ordersAPI(t)
	key, problem := "X-API-Key: "+ordersKey, "Accept: application/json"
	answered := make(map[string]map[string]bool) // statuses by operation
	f := func(method, path, body, want string) {
		t.Helper()
		resp, got := a.ask(method, path, body, key, problem)
		at, _, _ := strings.Cut(path, "?")
		if parts := strings.Split(at, "/"); len(parts) > 2 {
			parts[2] = "{id}"
			at = strings.Join(parts, "/")
		}
		if op := strings.ToLower(method) + " " + at; answered[op] == nil {
			answered[op] = map[string]bool{resp.Status[:3]: true}
		} else {
			answered[op][resp.Status[:3]] = true
		}
		if !strings.HasPrefix(resp.Status[:3]+" "+got, want) {
			t.Errorf("%s %s %s: got %s %s, want %s", method, path, body, resp.Status, got, want)
		}
	}
	f("GET", "/orders", "", `200 {"orders":[],"next":null}`)
	f("POST", "/orders", `{"reference": "A-1", "item": "tea", "count": 3}`, `201 {"id":1,"reference":"A-1","item":"tea","count":3,"note":null,"state":"open","created":"`)
	f("POST", "/orders", `{"reference": "A-1", "item": "tea", "count": 3}`, `409 {"type":"about:blank","title":"Conflict","status":409,"detail":"there is an order with this reference"`)
	f("POST", "/orders", `{"reference": "A 1", "item": "", "count": 0, "price": 1}`, `422 `)
	f("POST", "/orders", `{"reference"`, `400 `)
	f("POST", "/orders", `{"note": "`+strings.Repeat("x", 70_000)+`"}`, `413 `)
	f("POST", "/orders", `{"reference": "A-2", "item": "rice", "count": 1, "note": "soon"}`, `201 {"id":2,`)
	f("POST", "/orders", `{"reference": "A-3", "item": "salt", "count": 1}`, `201 {"id":3,`)
	f("GET", "/orders/2", "", `200 {"id":2,"reference":"A-2","item":"rice","count":1,"note":"soon","state":"open"`)
	f("GET", "/orders/7", "", `404 {"type":"about:blank","title":"Not Found","status":404,"detail":"there is no such order"`)
	f("GET", "/orders/tea", "", `422 `)
	f("PUT", "/orders/2", `{"item": "salt", "count": 2}`, `200 {"id":2,"reference":"A-2","item":"salt","count":2,"note":null`)
	f("PUT", "/orders/7", `{"item": "salt", "count": 2}`, `404 `)
	f("POST", "/orders/1/shipment", "", `200 {"id":1,"reference":"A-1","item":"tea","count":3,"note":null,"state":"sent"`)
	f("POST", "/orders/1/shipment", "", `409 `)
	f("PUT", "/orders/1", `{"item": "salt", "count": 2}`, `409 `)
	f("DELETE", "/orders/1", "", `409 `)
	f("GET", "/orders/1", "", `200 {"id":1,"reference":"A-1","item":"tea","count":3,`)
	f("GET", "/orders?state=open&limit=1", "", `200 {"orders":[{"id":2,`)
	f("GET", "/orders?after=2&limit=1&state=open", "", `200 {"orders":[{"id":3,`)
	f("GET", "/orders?limit=1000", "", `422 `)
	f("DELETE", "/orders/2", "", `204 `)
	f("DELETE", "/orders/2", "", `404 `)
	f("PATCH", "/orders/3", "", `405 `)
	f("GET", "/order", "", `404 `)
	f("GET", "/", "", "200 <!doctype html>")

	f("POST", "/orders/7/shipment", "", "404 ")
	f("POST", "/orders/tea/shipment", "", "422 ")
	f("PUT", "/orders/2", `{"item": ""}`, "422 ")
	f("DELETE", "/orders/tea", "", "422 ")
	compareStatuses(t, a, answered)

	_, body := a.ask("GET", "/orders?state=open&limit=1", "", key)
	if !strings.Contains(body, `"next":null`) {
		t.Errorf("got a next page after the last order: %s", body)
	}
	resp, body := a.ask("POST", "/orders", `{"reference": "A-4", "count": 0}`, key, problem, "X-Request-Id: mine")
	var p struct {
		Status    int
		RequestID string `json:"request_id"`
		Errors    []struct{ Path, Message string }
	}
	if err := json.Unmarshal([]byte(body), &p); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(p), "{422 mine [{/body/item is missing} {/body/count want at least 1}]}"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if resp.Header.Get("X-Request-Id") != "mine" || resp.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("got the header %v", resp.Header)
	}
}

// compareStatuses compares the statuses that a client has got with those of the description: each that it has
// got is there, and each that is there it has got, except for those that any operation may have.
func compareStatuses(t *testing.T, a asker, answered map[string]map[string]bool) {
	t.Helper()
	_, text := a.ask("GET", "/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Paths) != 4 {
		t.Errorf("got %d paths, want 4", len(doc.Paths))
	}
	common := []string{"400", "401", "403", "405", "413", "415", "429", "500", "503", "default"}
	for path, operations := range doc.Paths {
		for method, op := range operations {
			got := answered[method+" "+path]
			for status := range op.Responses {
				if !got[status] && !slices.Contains(common, status) {
					t.Errorf("%s %s: %s is described, and no request has got it", method, path, status)
				}
			}
			for status := range got {
				if _, ok := op.Responses[status]; !ok {
					t.Errorf("%s %s: a request got %s, which is not described", method, path, status)
				}
			}
		}
	}
}

// TestOrdersStatuses reads the statuses of successes from the code of the snippets, without what the routes say
// of them.
func TestOrdersStatuses(t *testing.T) {
	document, err := os.ReadFile("orders.yaml")
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`        responses:\n          201:(\n {12}.*)+\n`).FindString(string(document))
	if written == "" {
		t.Fatal("the example has no responses of its own")
	}
	a := ordersAPI(t, written, "")
	_, text := a.ask("GET", "/openapi.json", "")
	var doc struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"post /orders 201", "post /orders 409", "get /orders/{id} 404", "delete /orders/{id} 204", "put /orders/{id} 409"} {
		parts := strings.Split(want, " ")
		if _, ok := doc.Paths[parts[1]][parts[0]].Responses[parts[2]]; !ok {
			t.Errorf("%s is not described, only %v", want, slices.Sorted(maps.Keys(doc.Paths[parts[1]][parts[0]].Responses)))
		}
	}
	if _, ok := doc.Paths["/orders"]["post"].Responses["200"]; ok {
		t.Error("the answer of POST /orders is described with status 200")
	}
}

// TestOrdersOfStrangers are those of clients that bring no key, a wrong one, or a token
// that is not good for what they want.
func TestOrdersOfStrangers(t *testing.T) {
	a := ordersAPI(t)
	exp := time.Now().Add(time.Hour).Unix()
	f := func(want int, method, path, body string, headers ...string) {
		t.Helper()
		resp, text := a.ask(method, path, body, headers...)
		if resp.StatusCode != want {
			t.Errorf("%s %s %v: got %s %s, want %d", method, path, headers, resp.Status, text, want)
		}
		if want == 401 && len(resp.Header["Www-Authenticate"]) == 0 {
			t.Errorf("%s %s %v: no WWW-Authenticate", method, path, headers)
		}
	}
	order := `{"reference": "A-1", "item": "tea", "count": 3}`
	f(401, "GET", "/orders", "")
	f(401, "GET", "/orders/1", "")
	f(401, "GET", "/orders/1/2/3", "")
	f(401, "GET", "/orders", "", "X-API-Key: "+ordersKey+"x")
	reader := "Authorization: Bearer " + token(fmt.Sprintf(`{"sub":"ann","aud":"orders","exp":%d,"scope":"orders:read"}`, exp))
	f(200, "GET", "/orders", "", reader)
	f(403, "POST", "/orders", order, reader)
	f(403, "DELETE", "/orders/1", "", reader)
	f(201, "POST", "/orders", order, "Authorization: Bearer "+token(fmt.Sprintf(`{"sub":"ann","aud":"orders","exp":%d,"scope":"orders:write"}`, exp)))
	f(403, "GET", "/orders", "", "Authorization: Bearer "+token(fmt.Sprintf(`{"sub":"ann","aud":"orders","exp":%d}`, exp)))
	f(401, "GET", "/orders", "", "Authorization: Bearer "+token(fmt.Sprintf(`{"sub":"ann","aud":"bills","exp":%d,"scope":"orders:read"}`, exp)))
	f(401, "GET", "/orders", "", "Authorization: Bearer "+token(fmt.Sprintf(`{"sub":"ann","aud":"orders","exp":%d,"scope":"orders:read"}`, exp-7200)))
	f(401, "GET", "/orders", "", reader+"x")

	resp, _ := a.ask("OPTIONS", "/orders", "", "Origin: http://localhost:5173", "Access-Control-Request-Method: POST", "Access-Control-Request-Headers: x-api-key")
	if resp.StatusCode != 204 || resp.Header.Get("Access-Control-Allow-Origin") != "http://localhost:5173" {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
	resp, _ = a.ask("GET", "/openapi.json", "")
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/json" {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
}

// TestOrdersTooMany is a client that asks more often than it may.
func TestOrdersTooMany(t *testing.T) {
	a := ordersAPI(t, "rate: 50/s", "rate: 1/d", "burst: 100", "burst: 2")
	for range 2 {
		if resp, _ := a.ask("GET", "/", ""); resp.StatusCode != 200 {
			t.Errorf("got %s", resp.Status)
		}
	}
	if resp, _ := a.ask("GET", "/", ""); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "86400" {
		t.Errorf("got %s %v", resp.Status, resp.Header)
	}
}
