package auth

import (
	_ "embed"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed auth.md
var authPage string

// The types of schemes.
const (
	typeKey   = "key"
	typeBasic = "basic"
	typeJWT   = "jwt"
	typeOIDC  = "oidc"
	typeHMAC  = "hmac"
)

func authDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "auth",
		Summary: "Checks who sends a request, and lets it pass if the sender is known.",
		Page:    node.ReadPage(authPage),
		Config: schema.Fields(
			schema.List("any", schemeFields()).Required().Doc("The schemes, in the order in which they are tried. The first one that accepts a request decides who sends it."),
			schema.Strings("scopes").Doc("The scopes that a sender must have: all of them."),
			schema.Expr("require").Doc("A condition on the sender, over `subject`, `scopes`, `claims`, `type` and the request as `request`, such as `claims.tenant == request.params.tenant`."),
			field.NewTLS("How to connect to issuers whose URL is `https`. Files are read when a node opens."),
			schema.String("realm").Default("api").Doc("The name of what is protected, for `WWW-Authenticate`."),
		),
		In:      []node.Port{{Name: "in", Doc: "A request."}},
		Out:     []node.Port{{Name: "out", Doc: "The request, with `auth`."}},
		Recall:  recallOf,
		Error:   "Why the request does not pass, with a `status` of 401, 403 or 503, a `code`, and `challenges`, the values of `WWW-Authenticate`.",
		OpenAPI: describe,
		Traits: func(c schema.Config) (t node.Traits) {
			switch {
			case readsRaw(c):
				t.Is = node.NeedsRaw
			case !c.Has("require"):
				t.Is = node.IgnoresBody
			}
			t.Credentials = credentialsOf(c)
			return t
		},
		Lint: field.LintTLS,
		New:  func(init *node.Init) (node.Node, error) { return newGuard(o, init) },
	}
}

// schemeFields returns the fields of all types: [fieldsOf] says which type has which.
func schemeFields() schema.Object {
	return schema.Fields(
		schema.Enum("type", typeKey, typeBasic, typeJWT, typeOIDC, typeHMAC).Required().Doc("What the scheme looks for."),
		schema.String("header").Doc("`key`, `jwt`, `oidc`: the header with the key or token; `X-API-Key` or `Authorization` unless set. `hmac`: the header with the signature."),
		schema.String("prefix").Doc("`key`, `jwt`, `oidc`: the word before the key or token in the header; `Bearer` for tokens in `Authorization`. `hmac`: what is before the signature, such as `sha256=`."),
		schema.String("query").Doc("`key`, `jwt`, `oidc`: the query parameter with the key or token. Queries end up in logs: prefer a header."),
		schema.String("cookie").Doc("`key`, `jwt`, `oidc`: the cookie with the key or token."),
		schema.List("keys", schema.Fields(
			schema.String("id").Doc("`key`, `hmac`: the subject. `jwt`: the `kid` of the tokens that the key is for; any unless set."),
			schema.String("secret").Secret().Doc("`key`: the key itself. `jwt`: the secret, at least as long as the hash of its algorithms. `hmac`: the secret; to change it, give several."),
			schema.String("sha256").Doc("`key`: the SHA-256 of the key, in hexadecimal."),
			schema.String("pem").Doc("`jwt`: a public key or a certificate, as PEM."),
			schema.String("jwks").Doc("`jwt`: the URL of the keys of the issuer, as a JSON Web Key Set. `issuer` and `audience` are needed then."),
			schema.Strings("algorithms").Words(false, algorithmNames()...).Doc("`jwt`: the algorithms that the key may be used with."),
			schema.Strings("scopes").Doc("`key`, `hmac`: what the subject may do."),
		)).Doc("`key`, `jwt`, `hmac`: the keys."),
		schema.List("users", schema.Fields(
			schema.String("name").Required().Doc("The name; it is the subject."),
			schema.String("bcrypt").Required().Secret().Doc("The bcrypt hash of the password."),
			schema.Strings("scopes").Doc("What the user may do."),
		)).Doc("`basic`: the users."),
		schema.String("issuer").Doc("`jwt`, `oidc`: the `iss` of tokens; any unless set. For `oidc` it is the URL of the issuer, and required."),
		schema.Strings("algorithms").Words(false, algorithmNames()...).Default([]string{"RS256"}).Doc("`oidc`: the algorithms that the keys of the issuer may be used with."),
		schema.Strings("audience").Doc("`jwt`, `oidc`: whom tokens are for. One of these must be in `aud`."),
		schema.Strings("typ").Doc("`jwt`, `oidc`: the `typ` of tokens, such as `at+jwt`. If it is set, tokens must have it."),
		schema.Strings("scope_claims").Default([]string{"scope", "scp"}).Doc("`jwt`, `oidc`: the claims that have scopes, as a list or as text with spaces."),
		schema.Enum("preset", presetNames()...).Doc("`hmac`: how a well-known sender signs. `standard` is Standard Webhooks."),
		schema.String("timestamp").Doc("`hmac`: the header with the time of the signature, in seconds since 1970."),
		schema.String("message_id").Doc("`hmac`: the header with the id of the message."),
		schema.Enum("hash", "sha256", "sha512").Default("sha256").Doc("`hmac`: the hash function."),
		schema.Enum("encoding", "hex", "base64").Default("hex").Doc("`hmac`: how a signature is encoded."),
		schema.String("signed").Default("{body}").Doc("`hmac`: what is signed, with `{body}`, `{timestamp}` and `{id}`."),
		schema.Duration("tolerance").Default(5*time.Minute).Range(float64(time.Second), float64(24*time.Hour)).Doc("`hmac`: how old a signature with a timestamp may be, and how far ahead."),
		schema.Duration("replay").Range(0, float64(24*time.Hour)).Doc("`hmac`: how long signatures are remembered. Unset, it is twice the tolerance; signatures without a timestamp are then not remembered, as a sender may mean the same message twice."),
		schema.Duration("leeway").Default(30*time.Second).Range(0, float64(10*time.Minute)).Doc("`jwt`, `oidc`: how far clocks may differ."),
	)
}

// fieldsOf says which types a field of a scheme is for.
var fieldsOf = map[string][]string{
	"header": {typeKey, typeJWT, typeOIDC, typeHMAC}, "prefix": {typeKey, typeJWT, typeOIDC, typeHMAC}, "query": {typeKey, typeJWT, typeOIDC}, "cookie": {typeKey, typeJWT, typeOIDC},
	"keys": {typeKey, typeJWT, typeHMAC}, "users": {typeBasic},
	"issuer": {typeJWT, typeOIDC}, "audience": {typeJWT, typeOIDC}, "typ": {typeJWT, typeOIDC},
	"scope_claims": {typeJWT, typeOIDC}, "leeway": {typeJWT, typeOIDC}, "algorithms": {typeOIDC},
	"preset": {typeHMAC}, "timestamp": {typeHMAC}, "message_id": {typeHMAC}, "hash": {typeHMAC}, "encoding": {typeHMAC}, "signed": {typeHMAC},
	"tolerance": {typeHMAC}, "replay": {typeHMAC},
}

// keyFieldsOf is the same for the fields of a key.
var keyFieldsOf = map[string][]string{
	"sha256": {typeKey}, "scopes": {typeKey, typeHMAC}, "pem": {typeJWT}, "jwks": {typeJWT}, "algorithms": {typeJWT},
}

// credentialsOf returns the fields of requests in which the schemes look for what lets others in, too. A signature is
// none: it is good for one body.
func credentialsOf(c schema.Config) (fields []string) {
	for _, s := range c.List("any") {
		header := ""
		switch s.String("type") {
		case typeKey:
			header = "X-Api-Key"
		case typeBasic, typeJWT, typeOIDC:
			header = "Authorization"
		default:
			continue
		}
		at, err := newPlace(s, header, "")
		switch {
		case err != nil: // New reports it
		case at.query != "":
			fields = append(fields, "query."+at.query)
		case at.cookie != "":
			fields = append(fields, "header.Cookie")
		default:
			fields = append(fields, "header."+at.header)
		}
	}
	return fields
}

// recallOf says that a request whose signature is checked is remembered: the check marks it, so that it is
// good once.
func recallOf(c schema.Config) node.Recall {
	if readsRaw(c) {
		return node.Effects
	}
	return node.Reads
}
