package auth_test

import (
	"context"
	"crypto"
	"encoding/json"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/auth"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// benchProcess is a process that nothing is stored in.
type benchProcess struct{ node.Process }

// BenchmarkJWT compares Receive of auth with the same checks by hand. It includes finding
// the header in a map; it does not include the listener and the engine.
func BenchmarkJWT(b *testing.B) {
	for _, alg := range []jose.SignatureAlgorithm{jose.HS256, jose.RS256, jose.ES256, jose.EdDSA} {
		s := &signer{alg: alg, key: []byte("an example of at least 32 bytes!")}
		key := map[string]any{"algorithms": []string{string(alg)}, "secret": "an example of at least 32 bytes!"}
		var public any = s.key
		if alg != jose.HS256 {
			s = newSigner(b, "", alg)
			public = s.key.(crypto.Signer).Public()
			key = map[string]any{"algorithms": []string{string(alg)}, "pem": s.pem(b)}
		}
		token := s.token(b, nil)
		b.Run(string(alg)+"/node", func(b *testing.B) {
			n := newNode(b, map[string]any{"any": map[string]any{"type": "jwt", "issuer": "https://id.example.com", "audience": "orders", "keys": key}})
			payload := flowtest.Parse(b, request(token))
			b.ReportAllocs()
			for b.Loop() {
				r := n.Receive(benchProcess{}, node.Packet{Payload: payload})
				if _, ok := r.Effect().Payload.Get("auth"); !ok {
					b.Fatal("it does not pass")
				}
			}
		})
		b.Run(string(alg)+"/hand", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{alg})
				if err != nil {
					b.Fatal(err)
				}
				var c jwt.Claims
				var all map[string]any
				if err := t.Claims(public, &c, &all); err != nil {
					b.Fatal(err)
				}
				if err := c.ValidateWithLeeway(jwt.Expected{Issuer: "https://id.example.com", AnyAudience: jwt.Audience{"orders"}, Time: time.Now()}, 30*time.Second); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// newNode makes a node of kind auth without an engine.
func newNode(tb testing.TB, config map[string]any) node.Node {
	tb.Helper()
	data, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	v, err := value.ParseJSON(data)
	if err != nil {
		tb.Fatal(err)
	}
	def := auth.Defs(stream.Options{})[0]
	c, found := def.Config.Decode(schema.RawOf(v))
	if found.HasErrors() {
		tb.Fatal(found)
	}
	n, err := def.New(&node.Init{Config: c, Clock: node.SystemClock{}})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// Context implements [node.Process].
func (benchProcess) Context() context.Context { return context.Background() }
