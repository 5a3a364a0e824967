package auth

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// rules says what the claims of a token must be.
type rules struct {
	issuer   string // empty is any
	audience []string
	types    []string // of the header typ
	scopes   []string // claims that have scopes
	leeway   time.Duration
}

func newRules(c schema.Config) rules {
	return rules{
		issuer: c.String("issuer"), audience: c.Strings("audience"), types: c.Strings("typ"),
		scopes: c.Strings("scope_claims"), leeway: c.Duration("leeway"),
	}
}

var (
	errClaims   = &refusal{"the claims of the token are malformed"}
	errAudience = &refusal{"the token is for another audience"}
	errNoExpiry = &refusal{"the token has no expiry"}
	errExpired  = &refusal{"the token has expired"}
	errTooEarly = &refusal{"the token is not valid yet"}
)

// identity returns whose token it is that has signed claims.
func (r *rules) identity(claims value.Value, now time.Time) (identity, error) {
	if err := r.check(claims, now); err != nil {
		return identity{}, err
	}
	id := identity{subject: textClaim(claims, "sub"), claims: claims}
	for _, name := range r.scopes {
		v, _ := claims.Get(name)
		id.scopes = appendScopes(id.scopes, v)
	}
	return id, nil
}

func (r *rules) check(claims value.Value, now time.Time) error {
	if r.issuer != "" && textClaim(claims, "iss") != r.issuer {
		return errIssuer
	}
	if err := r.checkAudience(claims); err != nil {
		return err
	}
	expiry, given, ok := timeClaim(claims, "exp")
	switch {
	case !given:
		return errNoExpiry
	case !ok:
		return errClaims
	case !now.Add(-r.leeway).Before(expiry):
		return errExpired
	}
	for _, name := range []string{"nbf", "iat"} {
		from, given, ok := timeClaim(claims, name)
		switch {
		case !given:
		case !ok:
			return errClaims
		case now.Add(r.leeway).Before(from):
			return errTooEarly
		}
	}
	return nil
}

// checkAudience refuses tokens for others. Without an audience of its own the node is not
// in any that a token names.
func (r *rules) checkAudience(claims value.Value) error {
	aud, given := claims.Get("aud")
	if !given && len(r.audience) == 0 {
		return nil
	}
	if text, ok := aud.AsString(); ok && slices.Contains(r.audience, text) {
		return nil
	}
	if aud.Kind() == value.KindList {
		for _, e := range aud.Elems() {
			if text, ok := e.AsString(); ok && slices.Contains(r.audience, text) {
				return nil
			}
		}
	}
	return errAudience
}

func textClaim(claims value.Value, name string) string {
	v, _ := claims.Get(name)
	text, _ := v.AsString()
	return text
}

// timeClaim returns a claim in seconds since 1970. given is false if there is none.
func timeClaim(claims value.Value, name string) (t time.Time, given, ok bool) {
	v, given := claims.Get(name)
	if !given || v.IsNull() {
		return time.Time{}, false, false
	}
	switch v.Kind() {
	case value.KindInt, value.KindUint, value.KindFloat:
	default:
		return time.Time{}, true, false
	}
	seconds, ok := v.AsFloat()
	if !ok || math.IsNaN(seconds) || math.Abs(seconds) > 1e12 {
		return time.Time{}, true, false
	}
	return time.Unix(int64(seconds), 0), true, true
}

// appendScopes appends the scopes of a claim: a list of texts, or text with spaces.
func appendScopes(scopes []string, v value.Value) []string {
	add := func(scope string) {
		if !slices.Contains(scopes, scope) && len(scopes) < maxScopes {
			scopes = append(scopes, scope)
		}
	}
	if text, ok := v.AsString(); ok {
		for scope := range strings.FieldsSeq(text) {
			add(scope)
		}
	}
	if v.Kind() == value.KindList {
		for _, e := range v.Elems() {
			if scope, ok := e.AsString(); ok {
				add(scope)
			}
		}
	}
	return scopes
}

// maxScopes is how many scopes of a token count.
const maxScopes = 1000
