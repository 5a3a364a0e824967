package auth

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// signatures is the scheme of requests whose body is signed with a secret that both sides
// have, as webhooks are.
type signatures struct {
	format  format
	secrets [][]byte
	senders []identity // of secrets

	tolerance time.Duration // how far a timestamp may be off
	window    time.Duration // how long signatures are remembered; 0 is not at all
	init      *node.Init
	shared    string // key of seen in the pool
	seen      *seen  // from open to Close
	release   func() error
}

func newSignatures(c schema.Config, init *node.Init) (scheme, error) {
	f, err := newFormat(c)
	if err != nil {
		return nil, err
	}
	s := &signatures{format: f, tolerance: c.Duration("tolerance"), init: init}
	var found []error
	if len(c.List("keys")) == 0 {
		found = append(found, c.Errorf("keys", diag.CodeBadValue, "there are no keys").WithHint("add one such as {secret: …}"))
	}
	for _, key := range c.List("keys") {
		secret, err := f.secret(key)
		if err != nil {
			found = append(found, err)
			continue
		}
		id := key.String("id")
		if id == "" {
			id = f.name
		}
		s.secrets = append(s.secrets, secret)
		s.senders = append(s.senders, identity{subject: id, scopes: key.Strings("scopes"), claims: value.Map()})
	}
	switch {
	case c.Has("replay"):
		s.window = c.Duration("replay")
		if f.timestamp != "" && s.window < 2*s.tolerance {
			found = append(found, c.Errorf("replay", diag.CodeBadValue, "a signature is good for twice the tolerance, and would be forgotten before").
				WithHint("leave replay out"))
		}
	case f.timestamp != "":
		s.window = 2 * s.tolerance
	}
	s.shared = fmt.Sprintf("auth replay %q %q %s %s", init.Node.Namespace, init.Node.String(), c.Path(""), s.window)
	return s, errors.Join(found...)
}

// maxSignatures is how many signatures of a request are checked: a sender that changes
// its secret sends two.
const maxSignatures = 4

var (
	errSigned    = &refusal{"the signature is wrong"}
	errForm      = &refusal{"the signature is malformed"}
	errTimestamp = &refusal{"the timestamp is malformed"}
	errOld       = &refusal{"the timestamp is too old"}
	errAhead     = &refusal{"the timestamp is in the future"}
	errRaw       = errors.New("the request does not have the bytes of its body: signatures can be checked behind a listener only")
)

func (s *signatures) identify(_ context.Context, r *request) (identity, error) {
	text, err := s.at().find(r.payload)
	if err != nil {
		return identity{}, err
	}
	sent, err := s.format.read(text, r.payload)
	if err != nil {
		return identity{}, err
	}
	if s.format.timestamp != "" {
		if err := s.checkTime(sent.timestamp, r.now); err != nil {
			return identity{}, err
		}
	}
	body, err := rawBody(r.payload)
	if err != nil {
		return identity{}, err
	}
	for i, secret := range s.secrets {
		mac := hmac.New(s.format.hash, secret)
		s.format.sign(mac, sent, body)
		sum := mac.Sum(nil)
		for _, signature := range sent.signatures {
			if hmac.Equal(sum, signature) {
				return s.accept(i, sum, r.now)
			}
		}
	}
	return identity{}, errSigned
}

// accept returns who has sent a signature, unless it came before.
func (s *signatures) accept(i int, sum []byte, now time.Time) (identity, error) {
	id := s.senders[i]
	if s.window == 0 {
		return id, nil
	}
	key := sha256.Sum256(sum)
	if err := s.seen.add(key, now); err != nil {
		return identity{}, err
	}
	id.failed = func() { s.seen.remove(key) }
	return id, nil
}

func (s *signatures) checkTime(text string, now time.Time) error {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1e11 {
		return errTimestamp
	}
	switch age := now.Sub(time.Unix(seconds, 0)); {
	case age > s.tolerance:
		return errOld
	case age < -s.tolerance:
		return errAhead
	}
	return nil
}

// rawBody returns the bytes of a request's body, as they were sent.
func rawBody(payload value.Value) ([]byte, error) {
	v, ok := payload.Get("raw")
	if data, isBinary := v.AsBinary(); isBinary {
		return data, nil
	}
	if ok && v.IsNull() {
		return nil, nil
	}
	return nil, errRaw
}

func (s *signatures) at() place { return place{header: s.format.header} }

func (s *signatures) challenge(realm string) string {
	return "Signature realm=" + realm + ", header=" + quoted(s.format.header)
}

func (s *signatures) open() (err error) {
	if s.window > 0 {
		s.seen, s.release, err = node.Acquire(s.init.Pool, s.shared, func() (*seen, error) { return newSeen(s.window), nil })
	}
	return err
}

func (s *signatures) Close() error {
	if s.release == nil {
		return nil
	}
	return s.release()
}

func (s *signatures) ready() error { return nil }
