package auth

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// readsRaw reports whether auth reads the bytes of the body.
func readsRaw(c schema.Config) bool {
	return slices.ContainsFunc(c.List("any"), func(s schema.Config) bool { return s.String("type") == typeHMAC })
}

// describe is the [node.Def.OpenAPI] of auth.
func describe(c schema.Config) value.Value {
	var security []value.Value
	var schemes value.MapBuilder
	refused := []value.Value{openapi.Failure(http.StatusUnauthorized, "It is not known who sends the request.", "WWW-Authenticate")}
	for _, s := range c.List("any") {
		name, scheme := securityScheme(s)
		schemes.Set(name, scheme)
		security = append(security, openapi.Object(name, texts(c.Strings("scopes"))))
		if s.String("type") == typeHMAC {
			refused = append(refused, openapi.Failure(http.StatusConflict, "The request came before."))
		}
		if mayWait(s) {
			refused = append(refused, openapi.Failure(http.StatusServiceUnavailable, "The sender cannot be checked now.", "Retry-After"))
		}
	}
	if c.Has("require") || len(c.Strings("scopes")) > 0 {
		refused = append(refused, openapi.Failure(http.StatusForbidden, "The sender must not do this."))
	}
	return openapi.Object(
		"security", value.List(security...),
		"responses", refusals(refused...),
		"components", openapi.Object("securitySchemes", schemes.Build()),
	)
}

// mayWait reports whether a scheme may be unable to decide.
func mayWait(s schema.Config) bool {
	switch s.String("type") {
	case typeBasic, typeOIDC, typeHMAC:
		return true
	}
	return slices.ContainsFunc(s.List("keys"), func(k schema.Config) bool { return k.Has("jwks") })
}

// securityScheme returns a Security Scheme Object, and a name that others do not have.
func securityScheme(c schema.Config) (name string, scheme value.Value) {
	switch c.String("type") {
	case typeBasic:
		return "basic", openapi.Object("type", "http", "scheme", "basic")
	case typeKey:
		at, _ := newPlace(c, "X-Api-Key", "")
		return at.securityScheme("key")
	case typeHMAC:
		f, _ := newFormat(c)
		return place{header: f.header}.securityScheme("signature")
	}
	at, _ := newPlace(c, "Authorization", "Bearer")
	if c.String("type") == typeOIDC && at.header == "Authorization" {
		issuer := c.String("issuer")
		u, err := url.Parse(issuer)
		if err == nil && !c.Hidden("issuer") {
			return openapi.ComponentName("oidc-" + u.Host), openapi.Object("type", "openIdConnect", "openIdConnectUrl", strings.TrimSuffix(issuer, "/")+configuration)
		}
	}
	if at.header != "Authorization" {
		return at.securityScheme("token")
	}
	return "bearer", openapi.Object("type", "http", "scheme", "bearer", "bearerFormat", "JWT")
}

func (p place) securityScheme(what string) (name string, scheme value.Value) {
	in, name := "header", p.header
	switch {
	case p.query != "":
		in, name = "query", p.query
	case p.cookie != "":
		in, name = "cookie", p.cookie
	}
	return openapi.ComponentName(what + "-" + in + "-" + name), openapi.Object("type", "apiKey", "in", in, "name", name)
}

// refusals are Responses Objects of errors, as one.
func refusals(all ...value.Value) value.Value {
	var b value.MapBuilder
	for _, one := range all {
		for status, response := range one.Fields() {
			b.Set(status, response)
		}
	}
	return b.Build()
}
