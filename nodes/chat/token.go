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
// and its signature; who has it can read the conversation and take part. That of a client
// who has logged in is of no use to others.
type signer struct{ key []byte }

// newSigner reads the secret of a node.
func newSigner(c schema.Config, field string) (signer, error) {
	secret := c.String(field)
	if len(secret) < minSecret {
		return signer{}, c.Errorf(field, diag.CodeBadValue, "got %d characters, want at least %d", len(secret), minSecret).
			WithHint("make one with: openssl rand -hex 32")
	}
	sum := sha256.Sum256([]byte("conversations\x00" + secret))
	return signer{sum[:]}, nil
}

// minSecret is how long the secret of a signer must be, in bytes.
const minSecret = 16

// mint makes an id.
func (s signer) mint(subject string) (id, token string) {
	id = rand.Text()
	return id, id + "." + s.sign(id, subject)
}

// verify returns the id of a token.
func (s signer) verify(token, subject string) (id string, ok bool) {
	id, signature, ok := strings.Cut(token, ".")
	if !ok || len(token) > maxToken {
		return "", false
	}
	return id, hmac.Equal([]byte(signature), []byte(s.sign(id, subject)))
}

// maxToken is how long a token is at most; ours are shorter.
const maxToken = 128

func (s signer) sign(id, subject string) string {
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(id + "\x00" + subject))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
