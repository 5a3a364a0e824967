package server

import (
	"context"
	_ "embed" // for the document of the shop
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/load"
)

// A Workload is a workflow and what it is loaded with.
type Workload struct {
	Name     string
	Document func(port string) string
	Ready    string       // a path that answers GET with Status
	Status   int          // 200 if 0
	Load     load.Options // without address and duration
}

// PingWorkload is [Ping] and 64 connections.
func PingWorkload() Workload {
	return Workload{Name: "ping", Document: Ping, Ready: "/ping", Load: load.Options{Path: "/ping", Conns: 64, KeepAlive: true}}
}

//go:embed shop.yaml
var shop string

// Shop is an API of orders on a port.
func Shop(port string) string { return strings.Replace(shop, "port: 8000", "port: "+port, 1) }

//go:embed guarded.yaml
var guarded string

// Guarded is an API of orders with tokens and a schema, on a port.
func Guarded(port string) string { return strings.Replace(guarded, "port: 8000", "port: "+port, 1) }

// An Order is what clients send to the API of [Shop].
const Order = `{"customer":"ada.lovelace@example.com","note":"please ring twice","lines":[` +
	`{"sku":"tea","count":3},{"sku":"coffee","count":1},{"sku":"cocoa","count":12},{"sku":"mate","count":2}]}`

// ShopWorkload is [Shop] and 64 connections that send an [Order].
func ShopWorkload() Workload {
	return Workload{Name: "shop", Document: Shop, Ready: "/orders", Status: http.StatusMethodNotAllowed, Load: ShopLoad("/orders")}
}

// ShopLoad is what loads a server of [Shop] at a path.
func ShopLoad(path string) load.Options {
	return load.Options{
		Path: path, JSON: Order, Conns: 64, KeepAlive: true,
		Accept: func(status int, _ []byte) bool { return status == http.StatusCreated },
	}
}

// Workloads returns ping, the shop, and the API of prices.yaml in a folder.
func Workloads(examples string) ([]Workload, error) {
	orders, err := os.ReadFile(filepath.Join(examples, "prices.yaml"))
	return []Workload{
		PingWorkload(),
		ShopWorkload(),
		{Name: "orders", Document: func(port string) string {
			return strings.Replace(string(orders), "port: 8000", "host: 127.0.0.1\n  port: "+port, 1)
		}, Ready: "/greet/ada", Load: load.Options{
			Path: "/orders", JSON: `{"item": "tea", "count": 3}`, Conns: 64, KeepAlive: true,
			Accept: func(status int, _ []byte) bool { return status == http.StatusCreated },
		}},
	}, err
}

// Run serves the workflow by a program with flags, as for profiles, loads it, and
// stops it. A request that fails is an error.
func (w Workload) Run(ctx context.Context, program, dir string, env []string, d time.Duration, flags ...string) (*load.Result, error) {
	s, err := Workflow{
		Name: w.Name, Document: w.Document, Path: w.Ready, Status: w.Status, Program: program, Dir: dir, Env: env, Flags: flags,
	}.Serve(ctx)
	if err != nil {
		return nil, err
	}
	o := w.Load
	o.Addr, o.Duration = s.Addr, d
	got, err := load.Run(ctx, o)
	if err = errors.Join(err, s.Stop(), context.Cause(ctx)); err != nil {
		return nil, fmt.Errorf("%s: %w", w.Name, err)
	}
	if got.Failed > 0 || got.Requests == 0 {
		return nil, fmt.Errorf("%s: %d requests answered, %d not: %w", w.Name, got.Requests, got.Failed, errors.Join(got.Errors...))
	}
	return got, nil
}

// Ping is the graph of examples/ping.yaml on another port, on loopback only.
func Ping(port string) string { return Answering(port, "pong") }

// Answering is Ping with another answer.
func Answering(port, answer string) string {
	return Front(port, "pong") + Text("pong", answer)
}

// Front is a listener, and a router that sends GET /ping to the node.
func Front(port, to string) string {
	return fmt.Sprintf(`- kind: listener
  name: listener
  protocol: http
  host: 127.0.0.1
  port: %s
  ports:
    out:
      - name: router
        port: in

- kind: router
  name: router
  routes:
    - method: GET
      path: /ping
      port: out[0]
  ports:
    out[0]:
      - name: %s
        port: in

`, port, to)
}

// Text is the node that answers with a constant.
func Text(name, answer string) string {
	return fmt.Sprintf("- kind: snippet\n  name: %s\n  language: text\n  code: %s\n\n", name, answer)
}
