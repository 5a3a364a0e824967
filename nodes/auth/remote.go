package auth

import (
	"context"
	"errors"

	"github.com/go-jose/go-jose/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// A remote is the issuer that a verifier gets its keys from.
type remote struct {
	origin  origin
	clock   node.Clock
	issuer  *issuer // from open to Close
	release func() error
}

func (t *tokens) newRemote(o origin) (*remote, error) {
	var err error
	o.tls, err = field.TLSOf(t.init.Config)
	return &remote{origin: o, clock: t.init.Clock}, err
}

// checkRemote refuses secrets: an issuer shows its keys to all.
func checkRemote(c schema.Config, algorithms []jose.SignatureAlgorithm) error {
	for _, alg := range algorithms {
		if leastSecret(alg) > 0 {
			return c.Errorf("algorithms", diag.CodeBadValue, "%s needs a secret, and the keys of an issuer are public", alg)
		}
	}
	return nil
}

// discover makes the scheme one of OpenID Connect.
func (t *tokens) discover(c schema.Config) error {
	v := verifier{}
	var err error
	switch {
	case !c.Has("issuer"):
		return c.Errorf("issuer", diag.CodeBadValue, "the issuer is missing").WithHint("write its URL, such as https://id.example.com")
	case len(t.rules.audience) == 0:
		return c.Errorf("audience", diag.CodeBadValue, "the audience is missing").WithHint("write what the issuer calls this API: it also signs tokens that are for others")
	}
	if err = readURL(c, "issuer"); err != nil {
		return err
	}
	if v.algorithms, err = readAlgorithms(c); err != nil {
		return err
	}
	if err = checkRemote(c, v.algorithms); err != nil {
		return err
	}
	v.remote, err = t.newRemote(origin{issuer: c.String("issuer")})
	t.add(v)
	return err
}

// keysFor returns the keys that a token may be signed with. The error is errWaits, errKey,
// or that there are no keys at all.
func (m *remote) keysFor(ctx context.Context, r *request, token *token) ([]any, error) {
	for {
		have := m.issuer.current()
		keys := have.keysFor(token)
		var f *reading
		if len(keys) > 0 {
			f = m.issuer.due(have)
		} else {
			f = m.issuer.fresh(have)
		}
		switch {
		case f == nil && len(keys) > 0:
			return keys, nil
		case f == nil && m.issuer.current() != have:
			continue
		case f == nil && have == nil:
			return nil, m.issuer.missing()
		case f == nil:
			return nil, errKey
		case !r.wait:
			return nil, errWaits
		}
		if err := m.clock.Wait(ctx, f.over); err != nil {
			return nil, err
		}
	}
}

// await returns what is known of the issuer, and waits until something is.
func (m *remote) await(ctx context.Context) (*snapshot, error) {
	for {
		if have := m.issuer.current(); have != nil {
			return have, nil
		}
		f := m.issuer.fresh(nil)
		if f == nil {
			if have := m.issuer.current(); have != nil {
				return have, nil
			}
			return nil, m.issuer.missing()
		}
		if err := m.clock.Wait(ctx, f.over); err != nil {
			return nil, err
		}
	}
}

// keysFor returns the keys that a token names. One that names none may be signed with the
// only key for its algorithm.
func (s *snapshot) keysFor(token *token) (keys []any) {
	if s == nil {
		return nil
	}
	for i := range s.keys {
		k := &s.keys[i]
		if token.kid != "" && k.KeyID != token.kid || k.Algorithm != "" && k.Algorithm != string(token.algorithm) || unfit(token.algorithm, k.Key) != "" {
			continue
		}
		keys = append(keys, k.Key)
	}
	if token.kid == "" && len(keys) > 1 {
		return nil
	}
	return keys
}

func (t *tokens) open() (err error) {
	for i, v := range t.keys {
		if v.remote == nil {
			continue
		}
		if v.remote.issuer, v.remote.release, err = acquire(t.init, v.remote.origin); err != nil {
			return errors.Join(err, releaseAll(t.keys[:i]))
		}
	}
	return nil
}

// Close lets the issuers go.
func (t *tokens) Close() error { return releaseAll(t.keys) }

func releaseAll(keys []verifier) error {
	var failed []error
	for _, v := range keys {
		if v.remote != nil {
			failed = append(failed, v.remote.release())
		}
	}
	return errors.Join(failed...)
}

func (t *tokens) ready() error {
	for _, v := range t.keys {
		if v.remote != nil {
			if err := v.remote.issuer.ready(); err != nil {
				return err
			}
		}
	}
	return nil
}
