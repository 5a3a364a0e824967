package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// renewed sends a request on when the provider has renewed its session.
func (n *login) renewed(ctx context.Context, payload value.Value, method string, s *session, text string) node.Result {
	r, mine := n.renewals.enter(sha256.Sum256([]byte(text)), n.clock.Now())
	switch {
	case r == nil:
		return node.Fail(&node.Error{Err: errors.New("too many sessions are being renewed"), Status: http.StatusServiceUnavailable, Code: "provider", RetryAfter: time.Second})
	case mine:
		// Others wait for this one: it goes on without its client.
		func() {
			defer close(r.over) // also after a panic
			r.err = errProvider
			r.cookie, r.session, r.err = n.renew(context.WithoutCancel(ctx), *s)
		}()
	default:
		if err := n.clock.Wait(ctx, r.over); err != nil {
			return node.Fail(err)
		}
	}
	var refusedErr *node.Error
	switch {
	case errors.As(r.err, &refusedErr) && refusedErr.Status == http.StatusForbidden: // the session has ended there
		setCookie(ctx, n.seal.remove(""))
		if !n.required {
			return node.Send(0, payload)
		}
		return n.missing(payload, method)
	case r.err != nil:
		return node.Fail(r.err)
	}
	setCookie(ctx, r.cookie)
	return n.pass(payload, r.session)
}

// renew asks the provider to renew a session.
func (n *login) renew(ctx context.Context, s session) (cookie string, _ *session, err error) {
	config, err := n.config(ctx)
	if err != nil {
		return "", nil, err
	}
	token, err := config.TokenSource(n.client(ctx), &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if err != nil {
		return "", nil, failure(err)
	}
	if _, ok := token.Extra("id_token").(string); ok {
		claims, err := n.verify(ctx, token)
		if err != nil {
			return "", nil, err
		}
		if textClaim(claims, "sub") != s.Subject {
			return "", nil, refused("denied", "the ID token is of another person")
		}
		if err := n.fill(ctx, &s, claims, token); err != nil {
			return "", nil, err
		}
	} else {
		n.grant(&s, token)
	}
	cookie, err = n.keep(&s)
	return cookie, &s, err
}

// renewals has the renewals of sessions that are under way or just done: requests that a
// browser sends together have the same cookie, and a refresh token is often good for once.
// The zero value is ready.
type renewals struct {
	mu struct {
		sync.Mutex
		all   map[[sha256.Size]byte]*renewal
		swept time.Time
	}
}

type renewal struct {
	begun   time.Time
	over    chan struct{} // closed when the others are set
	cookie  string        // a header Set-Cookie
	session *session
	err     error
}

const (
	renewalLasts = 30 * time.Second
	maxRenewals  = 10_000
)

// enter returns the renewal of a cookie, and whether the caller must carry it out; nil if
// there are too many.
func (r *renewals) enter(key [sha256.Size]byte, now time.Time) (_ *renewal, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.mu.swept) >= renewalLasts || len(r.mu.all) >= maxRenewals {
		r.mu.swept = now
		for key, one := range r.mu.all {
			if now.Sub(one.begun) >= renewalLasts {
				delete(r.mu.all, key)
			}
		}
	}
	if one, ok := r.mu.all[key]; ok && now.Sub(one.begun) < renewalLasts {
		return one, false
	}
	if len(r.mu.all) >= maxRenewals {
		return nil, false
	}
	if r.mu.all == nil {
		r.mu.all = make(map[[sha256.Size]byte]*renewal)
	}
	one := &renewal{begun: now, over: make(chan struct{})}
	r.mu.all[key] = one
	return one, true
}
