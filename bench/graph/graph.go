// Package graph writes the workflows that are measured, as text.
//
// [Ping] is the one that requests per second are about. The package knows what a
// document looks like and nothing of the engine.
package graph

import "fmt"

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
