package chat

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// A signer makes ids of conversations that no one can guess or make up. A token is an id
// and its signature; who has it can read the conversation and take part. The token of a
// client who has logged in is of no use to others.
type signer struct {
	keys [][]byte // the first signs, all are good
}

// newSigner reads the secrets of a node.
func newSigner(c schema.Config, field string) (s signer, err error) {
	secrets := c.Strings(field)
	if len(secrets) > maxSecrets {
		return s, c.Errorf(field, diag.CodeBadValue, "got %d secrets, want at most %d", len(secrets), maxSecrets).WithHint("leave the oldest ones out")
	}
	for _, secret := range secrets {
		if len(secret) < minSecret {
			return s, c.Errorf(field, diag.CodeBadValue, "got %d characters, want at least %d", len(secret), minSecret).
				WithHint("make one with: openssl rand -hex 32").AsPlain()
		}
		sum := sha256.Sum256([]byte("conversations\x00" + secret))
		s.keys = append(s.keys, sum[:])
	}
	return s, nil
}

// minSecret is how long a secret of a signer must be, in bytes. maxSecrets bounds what a
// forged token costs.
const (
	minSecret  = 16
	maxSecrets = 8
)

// mint makes an id.
func (s signer) mint(subject string) (id, token string) {
	id = rand.Text()
	return id, s.token(id, subject)
}

// token returns the token of an id.
func (s signer) token(id, subject string) string { return id + "." + sign(s.keys[0], id, subject) }

// verify returns the id of a token.
func (s signer) verify(token, subject string) (id string, ok bool) {
	id, signature, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxToken {
		return "", false
	}
	for _, key := range s.keys {
		if hmac.Equal([]byte(signature), []byte(sign(key, id, subject))) {
			return id, true
		}
	}
	return "", false
}

// maxToken is how long a token is at most; ours are shorter.
const maxToken = 128

func sign(key []byte, id, subject string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "\x00" + subject))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
