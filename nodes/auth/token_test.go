package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
)

// A signer makes tokens.
type signer struct {
	kid string
	alg jose.SignatureAlgorithm
	key any
}

func newSigner(t testing.TB, kid string, alg jose.SignatureAlgorithm) *signer {
	t.Helper()
	var key any
	var err error
	switch alg {
	case jose.ES256:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.EdDSA:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	default:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &signer{kid, alg, key}
}

func (s *signer) public() jose.JSONWebKey {
	return jose.JSONWebKey{Key: s.key.(crypto.Signer).Public(), KeyID: s.kid, Algorithm: string(s.alg), Use: "sig"}
}

func (s *signer) pem(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(s.key.(crypto.Signer).Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

type claims map[string]any

// token makes a token of claims that are added to good ones; nil removes one.
func (s *signer) token(t testing.TB, more claims, header ...string) string {
	t.Helper()
	all := claims{"iss": "https://id.example.com", "aud": "orders", "sub": "ann", "exp": 4102444800, "scope": "read write"}
	for name, v := range more {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	data, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	o := &jose.SignerOptions{}
	o.WithType("JWT")
	if s.kid != "" {
		o.WithHeader("kid", s.kid)
	}
	for i := 0; i < len(header); i += 2 {
		o.WithHeader(jose.HeaderKey(header[i]), header[i+1])
	}
	by, err := jose.NewSigner(jose.SigningKey{Algorithm: s.alg, Key: s.key}, o)
	if err != nil {
		t.Fatal(err)
	}
	jws, err := by.Sign(data)
	if err != nil {
		t.Fatal(err)
	}
	text, err := jws.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func request(token string) string {
	data, _ := json.Marshal(map[string]any{"header": map[string]any{"Authorization": []string{"Bearer " + token}}})
	return string(data)
}

// forge signs the parts of a token with the text of a public key as if it were a secret.
func forge(token, header, secret string) string {
	payload := strings.Split(token, ".")[1]
	input := base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + payload
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(input))
	return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

const base64url = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n"+by)
}

// TestPublicKeys checks tokens with keys that are in the document.
func TestPublicKeys(t *testing.T) {
	for _, alg := range []jose.SignatureAlgorithm{jose.RS256, jose.PS384, jose.ES256, jose.EdDSA} {
		t.Run(string(alg), func(t *testing.T) {
			s, other := newSigner(t, "", alg), newSigner(t, "", alg)
			f := load(t, "any:\n      - type: jwt\n        audience: orders\n        keys:\n          - algorithms: "+string(alg)+"\n            pem: |\n"+indent(s.pem(t), "              "))
			good := s.token(t, nil)
			check(t, f, request(good), `{"subject":"ann","scopes":["read","write"],"claims":{"aud":"orders","exp":4102444800,"iss":"https://id.example.com","scope":"read write","sub":"ann"},"type":"jwt"}`)
			check(t, f, request(other.token(t, nil)), "401: the signature of the token is wrong")
			check(t, f, request(forge(good, `{"alg":"HS256"}`, s.pem(t))), "401: the algorithm of the token is not accepted")
			check(t, f, request(forge(good, `{"alg":"`+string(alg)+`"}`, s.pem(t))), "401: the signature of the token is wrong")
			check(t, f, request(forge(good, `{"alg":"none"}`, "")), "401: the algorithm of the token is not accepted")
			check(t, f, request(forge(good, `{"alg":"None"}`, "")), "401: the algorithm of the token is not accepted")
			check(t, f, request(good[:strings.LastIndex(good, ".")+1]), "401: the signature of the token is wrong")
			check(t, f, request(good+"="), "401: the token is malformed")
			for i, part := range strings.Split(good, ".") {
				if len(part)%4 == 0 {
					continue // has no bits behind its last byte
				}
				parts := strings.Split(good, ".")
				last := strings.IndexByte(base64url, part[len(part)-1])
				parts[i] = part[:len(part)-1] + base64url[last+1:last+2] // the same bytes
				check(t, f, request(strings.Join(parts, ".")), "401: the token is malformed")
			}
			check(t, f, request(good+"\n"), "401: the token is malformed")
			// A key within the token is not one to check it with.
			check(t, f, request(other.token(t, nil, "jku", "http://127.0.0.1:1/keys")), "401: the signature of the token is wrong")
		})
	}
}
