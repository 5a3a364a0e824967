package main

import (
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/server"
)

// A passThrough is a kind of node that passes its payload on.
type passThrough struct {
	name string
	yaml string // what is between the name and the ports
	kind string
	port string // out-port
}

// passThroughs are what P3 measures: nodes that change nothing. The contract is about
// the first, which evaluates nothing. The last is a constant.
func passThroughs() []passThrough {
	return []passThrough{
		{"pipe of one", "", "pipe", "out[0]"},
		{"if, when: true", "  when: 'true'\n", "if", "out[0]"},
		{"snippet, cel, self", "  language: cel\n  code: self\n", "snippet", "out"},
		{"snippet, text", "  language: text\n  code: pong\n", "snippet", "out"},
	}
}

// chain is ping with n passing nodes between the router and the answer.
func chain(port string, p passThrough, n int) string {
	var b strings.Builder
	b.WriteString(server.Front(port, "pass-0"))
	for i := range n {
		next := "pong"
		if i < n-1 {
			next = fmt.Sprintf("pass-%d", i+1)
		}
		p.write(&b, fmt.Sprintf("pass-%d", i), next)
	}
	b.WriteString(server.Text("pong", "pong"))
	return b.String()
}

func (p passThrough) write(b *strings.Builder, name, next string) {
	fmt.Fprintf(b, "- kind: %s\n  name: %s\n%s  ports:\n    %s:\n      - name: %s\n        port: in\n\n", p.kind, name, p.yaml, p.port, next)
}

// large is a program of n nodes: of ten, four are constants, two are expressions,
// two are conditions, and two are pipes. They form chains of a hundred behind the
// router; GET /ping goes to a node of its own.
func large(port string, n int) string {
	const length = 100
	p := passThroughs()
	mix := []passThrough{p[3], p[2], p[3], p[1], p[0]}
	rest := n - 3 // without the listener, the router, and the answer
	chains := (rest + length - 1) / length
	var routes, ports strings.Builder
	for c := range chains {
		fmt.Fprintf(&routes, "    - method: GET\n      path: /chain/%d\n      port: out[%d]\n", c, c+1)
		fmt.Fprintf(&ports, "    out[%d]:\n      - name: n-%d\n        port: in\n", c+1, c*length)
	}
	var b strings.Builder
	head, tail, _ := strings.Cut(server.Front(port, "pong"), "  ports:\n    out[0]:")
	b.WriteString(head + routes.String() + "  ports:\n    out[0]:" + strings.TrimSuffix(tail, "\n") + ports.String() + "\n")
	for i := range rest {
		next := fmt.Sprintf("n-%d", i+1)
		if i%length == length-1 || i == rest-1 {
			next = "pong"
		}
		mix[i%len(mix)].write(&b, fmt.Sprintf("n-%d", i), next)
	}
	b.WriteString(server.Text("pong", "pong"))
	return b.String()
}
