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

// object makes a map of names and values in turn; texts are values, too.
func object(list ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(list); i += 2 {
		switch v := list[i+1].(type) {
		case string:
			b.Set(list[i].(string), value.String(v))
		case value.Value:
			b.Set(list[i].(string), v)
		}
	}
	return b.Build()
}

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
		security = append(security, object(name, texts(c.Strings("scopes"))))
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
	return object(
		"security", value.List(security...),
		"responses", refusals(refused...),
		"components", object("securitySchemes", schemes.Build()),
	)
}

// mayWait reports whether a scheme may be unable to tell.
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
		return "basic", object("type", "http", "scheme", "basic")
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
			return componentName("oidc-" + u.Host), object("type", "openIdConnect", "openIdConnectUrl", strings.TrimSuffix(issuer, "/")+configuration)
		}
	}
	if at.header != "Authorization" {
		return at.securityScheme("token")
	}
	return "bearer", object("type", "http", "scheme", "bearer", "bearerFormat", "JWT")
}

func (p place) securityScheme(what string) (name string, scheme value.Value) {
	in, name := "header", p.header
	switch {
	case p.query != "":
		in, name = "query", p.query
	case p.cookie != "":
		in, name = "cookie", p.cookie
	}
	return componentName(what + "-" + in + "-" + name), object("type", "apiKey", "in", in, "name", name)
}

// componentName replaces what the name of a component cannot have.
func componentName(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			return r
		}
		return '_'
	}, name)
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
