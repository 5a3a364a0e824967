package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// tokens is the scheme of JSON Web Tokens.
type tokens struct {
	place      place
	keys       []verifier
	algorithms []jose.SignatureAlgorithm // of all keys
	rules      rules
	init       *node.Init
}

// A verifier has the keys of one entry.
type verifier struct {
	id         string // kid of its tokens; empty is any
	algorithms []jose.SignatureAlgorithm
	key        any // []byte or a public key; nil if remote has the keys
	remote     *remote
}

func newJWT(c schema.Config, init *node.Init) (scheme, error) {
	at, err := newPlace(c, "Authorization", "Bearer")
	if err != nil {
		return nil, err
	}
	t := &tokens{place: at, rules: newRules(c), init: init}
	if c.String("type") == typeOIDC {
		return t, t.discover(c)
	}
	var found []error
	if len(c.List("keys")) == 0 {
		found = append(found, c.Errorf("keys", diag.CodeBadValue, "there are no keys").WithHint("add one such as {algorithms: [RS256], pem: …}"))
	}
	for _, key := range c.List("keys") {
		v, err := t.newVerifier(key)
		if err == nil && v.remote != nil && (t.rules.issuer == "" || len(t.rules.audience) == 0) {
			err = key.Errorf("jwks", diag.CodeBadValue, "keys of an issuer need issuer and audience").
				WithHint("they also sign tokens that are for others")
		}
		if err != nil {
			found = append(found, err)
			continue
		}
		t.add(v)
	}
	return t, errors.Join(found...)
}

func (t *tokens) add(v verifier) {
	t.keys = append(t.keys, v)
	for _, alg := range v.algorithms {
		if !slices.Contains(t.algorithms, alg) {
			t.algorithms = append(t.algorithms, alg)
		}
	}
}

// maxToken is the size of the largest token, in bytes.
const maxToken = 16 << 10

func (t *tokens) identify(ctx context.Context, r *request) (identity, error) {
	text, err := t.place.find(r.payload)
	if err != nil {
		return identity{}, err
	}
	token, err := parseToken(text, t.algorithms, t.rules.types)
	if err != nil {
		return identity{}, err
	}
	// The issuer is checked first, so that the keys of one are not asked for tokens of
	// another. All claims are checked once more when they are known to be genuine.
	if t.rules.issuer != "" && textClaim(token.claims, "iss") != t.rules.issuer {
		return identity{}, errIssuer
	}
	if err := t.verify(ctx, r, token); err != nil {
		return identity{}, err
	}
	return t.rules.identity(token.claims, r.now)
}

// verify returns nil if the signature was made with one of the keys.
func (t *tokens) verify(ctx context.Context, r *request, token *token) error {
	var failed error = errKey
	for _, v := range t.keys {
		if v.id != "" && token.kid != "" && v.id != token.kid || !slices.Contains(v.algorithms, token.algorithm) {
			continue
		}
		keys := []any{v.key}
		if v.remote != nil {
			var err error
			if keys, err = v.remote.keysFor(ctx, r, token); err != nil {
				if !isRefusal(err) {
					return err
				}
				continue
			}
		}
		for _, key := range keys {
			if _, err := token.jws.Verify(key); err == nil {
				return nil
			}
			failed = errSignature
		}
	}
	return failed
}

func (t *tokens) at() place { return t.place }

func (t *tokens) challenge(realm string) string { return bearer + "realm=" + realm }

var (
	errToken     = &refusal{"the token is malformed"}
	errAlgorithm = &refusal{"the algorithm of the token is not accepted"}
	errType      = &refusal{"the type of the token is not accepted"}
	errCritical  = &refusal{"the token has critical headers"}
	errKey       = &refusal{"the key of the token is not known"}
	errSignature = &refusal{"the signature of the token is wrong"}
	errIssuer    = &refusal{"the issuer of the token is not accepted"}
)

// A token is one whose signature has not been checked.
type token struct {
	jws       *jose.JSONWebSignature
	algorithm jose.SignatureAlgorithm
	kid       string
	claims    value.Value // a map
}

// parseToken parses a token in the compact form. Its algorithm is one of those given. Types
// are those that it may have; without them it may also have none.
func parseToken(text string, algorithms []jose.SignatureAlgorithm, types []string) (*token, error) {
	if len(text) > maxToken || strings.Count(text, ".") != 2 || strings.ContainsAny(text, " \t\r\n=+/") {
		return nil, errToken
	}
	for part := range strings.SplitSeq(text, ".") {
		if !canonical(part) {
			return nil, errToken
		}
	}
	jws, err := jose.ParseSignedCompact(text, algorithms)
	var unexpected *jose.ErrUnexpectedSignatureAlgorithm
	switch {
	case errors.As(err, &unexpected):
		return nil, errAlgorithm
	case err != nil || len(jws.Signatures) != 1:
		return nil, errToken
	}
	h := jws.Signatures[0].Protected
	if _, ok := h.ExtraHeaders["crit"]; ok {
		return nil, errCritical
	}
	typ, given := h.ExtraHeaders[jose.HeaderType]
	if given || len(types) > 0 {
		text, ok := typ.(string)
		if !ok || !acceptsType(types, text) {
			return nil, errType
		}
	}
	claims, err := value.ParseJSON(jws.UnsafePayloadWithoutVerification())
	if err != nil || claims.Kind() != value.KindMap {
		return nil, errClaims
	}
	return &token{jws, jose.SignatureAlgorithm(h.Algorithm), h.KeyID, claims}, nil
}

// strictURL refuses bits behind the last byte that are not 0.
var strictURL = base64.RawURLEncoding.Strict()

// canonical reports whether the end of a text is what an encoder writes. Other ends stand for
// the same bytes, so that one token would have several texts: one that is kept in a list of
// those withdrawn would come back as another.
func canonical(text string) bool {
	var end [3]byte
	_, err := strictURL.Decode(end[:], []byte(text[len(text)&^3:]))
	return err == nil
}

// plainTypes are the types of access tokens. Other tokens, such as logout tokens, are signed
// by the same keys, and mean something else.
var plainTypes = []string{"JWT", "at+jwt"}

func acceptsType(types []string, typ string) bool {
	if len(types) == 0 {
		types = plainTypes
	}
	typ = strings.TrimPrefix(strings.ToLower(typ), "application/")
	return slices.ContainsFunc(types, func(t string) bool { return strings.EqualFold(t, typ) })
}
