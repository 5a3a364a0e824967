package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// A session is what the cookie of one has. Times are in seconds since 1970.
type session struct {
	Subject string          `json:"s"`
	Scopes  []string        `json:"g"`
	Claims  json.RawMessage `json:"c"`
	Begun   int64           `json:"b"`
	Until   int64           `json:"u"`
	Renew   int64           `json:"n,omitempty"` // when the provider must be asked again; 0 is never
	Refresh string          `json:"r,omitempty"`
}

// session returns the session of a request, and its cookie.
func (n *login) session(payload value.Value) (s *session, text string, ok bool) {
	text, given := cookie(payload, n.seal.name)
	if given != 1 {
		return nil, "", false
	}
	s = new(session)
	if !n.seal.open("", text, s) || n.clock.Now().Unix() >= s.Until || n.ended.has(s) {
		return nil, "", false
	}
	return s, text, true
}

// keep returns the cookie of a session.
func (n *login) keep(s *session) (string, error) {
	return n.seal.seal("", s, time.Unix(s.Until, 0).Sub(n.clock.Now()))
}

// end ends a login: the provider has sent the browser back.
func (n *login) end(ctx context.Context, payload value.Value) node.Result {
	state, _ := only(payload, "query", "state")
	var a attempt
	if len(state) < 8 || !envelope.ValidToken(state) {
		return node.Fail(errState)
	}
	suffix := "-" + state[:8]
	text, given := cookie(payload, n.seal.name+suffix)
	if given != 1 || !n.seal.open(suffix, text, &a) || a.State != state || n.clock.Now().Unix() >= a.Until {
		return node.Fail(errState)
	}
	have, err := n.tokens.keys[0].remote.await(ctx)
	if err != nil {
		return node.Fail(err)
	}
	if from, given := only(payload, "query", "iss"); (given > 0 || have.metadata.NamesItself) && from != n.issuer {
		return node.Fail(refused("denied", "the answer is of another provider"))
	}
	if code, given := only(payload, "query", "error"); given > 0 {
		if !envelope.ValidToken(code) || len(code) > 60 {
			code = "for a reason that it does not say"
		}
		return node.Fail(refused("denied", "the provider has refused the login: %s", code))
	}
	code, _ := only(payload, "query", "code")
	config, err := n.config(ctx)
	if err != nil {
		return node.Fail(err)
	}
	token, err := config.Exchange(n.client(ctx), code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return node.Fail(failure(err))
	}
	s, err := n.begun(ctx, token, a.Nonce)
	if err != nil {
		return node.Fail(err)
	}
	kept, err := n.keep(s)
	if err != nil {
		return node.Fail(err)
	}
	return redirect(http.StatusSeeOther, local(a.Return), kept, n.seal.remove(suffix))
}

var errState = refused("state", "the login was not begun in this browser, or more than %s ago: begin again", attemptLasts)

// client returns a context in which oauth2 asks the provider with its client.
func (n *login) client(ctx context.Context) context.Context {
	return context.WithValue(ctx, oauth2.HTTPClient, n.tokens.keys[0].remote.issuer.client)
}

// failure is the error of a provider that gives no tokens. What it writes is not shown: it
// may have secrets.
func failure(err error) error {
	var answer *oauth2.RetrieveError
	if !errors.As(err, &answer) || answer.Response == nil || answer.Response.StatusCode >= 500 {
		return unavailable(errors.New("it gives no tokens"))
	}
	code := answer.ErrorCode
	if !envelope.ValidToken(code) || len(code) > 60 {
		code = http.StatusText(answer.Response.StatusCode)
	}
	return refused("denied", "the provider gives no tokens: %s", code)
}

// begun makes a session of the tokens of a provider.
func (n *login) begun(ctx context.Context, token *oauth2.Token, nonce string) (*session, error) {
	claims, err := n.verify(ctx, token)
	if err != nil {
		return nil, err
	}
	if textClaim(claims, "nonce") != nonce || nonce == "" {
		return nil, refused("denied", "the ID token is of another login")
	}
	now := n.clock.Now()
	s := &session{Subject: textClaim(claims, "sub"), Begun: now.Unix(), Until: now.Add(n.ttl).Unix()}
	return s, n.fill(ctx, s, claims, token)
}

// verify returns the claims of an ID token.
func (n *login) verify(ctx context.Context, token *oauth2.Token) (value.Value, error) {
	text, _ := token.Extra("id_token").(string)
	claims, err := n.claimsOf(ctx, text)
	if isRefusal(err) {
		err = refused("denied", "the ID token is not genuine: %w", err)
	}
	return claims, err
}

// claimsOf returns the claims of an ID token. The error is a refusal, or says that the keys
// of the provider cannot be read.
func (n *login) claimsOf(ctx context.Context, text string) (value.Value, error) {
	parsed, err := parseToken(text, n.tokens.algorithms, nil)
	if err != nil {
		return value.Null(), err
	}
	if err := n.tokens.verify(ctx, &request{now: n.clock.Now(), wait: true}, parsed); err != nil {
		return value.Null(), err
	}
	id, err := n.tokens.rules.identity(parsed.claims, n.clock.Now()) // now, as verify may have waited
	if err != nil {
		return value.Null(), err
	}
	azp, given := id.claims.Get("azp")
	if by, _ := azp.AsString(); given && by != n.clientID || id.subject == "" {
		return value.Null(), errAudience
	}
	return id.claims, nil
}

// fill takes from tokens what the session keeps. Most providers return more about a person for
// the access token than the ID token has.
func (n *login) fill(ctx context.Context, s *session, claims value.Value, token *oauth2.Token) error {
	more, err := n.userInfo(ctx, s, claims, token)
	if err != nil {
		return err
	}
	var b value.MapBuilder
	for _, name := range n.claims {
		if v, ok := claims.Get(name); ok {
			b.Set(name, v)
		} else if v, ok := more.Get(name); ok {
			b.Set(name, v)
		}
	}
	if s.Claims, err = b.Build().AppendJSON(nil); err != nil {
		return err
	}
	n.grant(s, token)
	return nil
}

// userInfo asks the provider for claims that the ID token does not have; null if it has all.
func (n *login) userInfo(ctx context.Context, s *session, claims value.Value, token *oauth2.Token) (more value.Value, err error) {
	have, err := n.tokens.keys[0].remote.await(ctx)
	missing := slices.ContainsFunc(n.claims, func(name string) bool { _, ok := claims.Get(name); return !ok })
	if err != nil || have.metadata.UserInfo == "" || !missing {
		return value.Null(), err
	}
	if err := get(ctx, n.tokens.keys[0].remote.issuer.client, have.metadata.UserInfo, token.AccessToken, &more); err != nil {
		return value.Null(), unavailable(fmt.Errorf("user info: %w", err))
	}
	if textClaim(more, "sub") != s.Subject {
		return value.Null(), refused("denied", "the provider tells of another person")
	}
	return more, nil
}

// grant takes what a token allows, and how it is renewed.
func (n *login) grant(s *session, token *oauth2.Token) {
	if granted, ok := token.Extra("scope").(string); ok {
		s.Scopes = strings.Fields(granted)
	} else if s.Scopes == nil {
		s.Scopes = n.scopes
	}
	if token.RefreshToken != "" {
		s.Refresh = token.RefreshToken
	}
	s.Renew = 0
	if s.Refresh != "" && !token.Expiry.IsZero() {
		// Expiry is by the clock of the machine.
		s.Renew = n.clock.Now().Add(time.Until(token.Expiry)).Unix()
	}
}
