package web_test

import "testing"

// TestDurableErrorTwice checks that the error that a run has ended with is the same for who asks later.
func TestDurableErrorTwice(t *testing.T) {
	f, _ := serveDurable(t, new(held), `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, durability: {level: checkpoint, `+keyed+`}, ports: {out: [{name: do}]}}
- {kind: held, name: do, ports: {out: [{name: message}]}}
- {kind: snippet, name: message, language: text, code: it is sold out, ports: {out: [{name: no}]}}
- {kind: throw, name: no, status: 409, public: true}
`)
	first := f.Request("POST", "/", "x", "Idempotency-Key", "k")
	later := f.Request("POST", "/", "x", "Idempotency-Key", "k")
	if first.Status != 409 || first.Body == "" || later.Status != first.Status || later.Body != first.Body || later.Header.Get("Content-Type") != first.Header.Get("Content-Type") {
		t.Errorf("got %+v, was %+v", later, first)
	}
}
