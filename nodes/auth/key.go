package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// keys is the scheme that looks for one of several keys.
type keys struct {
	place   place
	hashes  [][sha256.Size]byte
	holders []identity // of hashes
}

func newKeys(c schema.Config) (scheme, error) {
	at, err := newPlace(c, "X-Api-Key", "")
	if err != nil {
		return nil, err
	}
	k := &keys{place: at}
	var found []error
	if len(c.List("keys")) == 0 {
		found = append(found, c.Errorf("keys", diag.CodeBadValue, "there are no keys").WithHint("add one such as {id: billing, sha256: …}"))
	}
	for _, key := range c.List("keys") {
		hash, err := keyHash(key)
		switch {
		case err != nil:
			found = append(found, err)
		case key.String("id") == "":
			found = append(found, key.Errorf("id", diag.CodeBadValue, "the key has no id").WithHint("name who has it, such as billing"))
		}
		k.hashes = append(k.hashes, hash)
		k.holders = append(k.holders, identity{subject: key.String("id"), scopes: key.Strings("scopes"), claims: value.Map()})
	}
	return k, errors.Join(found...)
}

// minKey is the shortest key, in bytes, that cannot be guessed.
const minKey = 16

func keyHash(key schema.Config) (hash [sha256.Size]byte, err error) {
	switch {
	case key.Has("secret") == key.Has("sha256"):
		return hash, key.Errorf("", diag.CodeBadValue, "want secret or sha256, and not both")
	case key.Has("secret"):
		secret := key.String("secret")
		if len(secret) < minKey {
			return hash, key.Errorf("secret", diag.CodeBadValue, "the key is shorter than %d bytes", minKey).
				WithHint("make one with: openssl rand -hex 32").AsPlain()
		}
		return sha256.Sum256([]byte(secret)), nil
	}
	data, err := hex.DecodeString(key.String("sha256"))
	if err != nil || len(data) != sha256.Size {
		return hash, key.Errorf("sha256", diag.CodeBadValue, "want 64 hexadecimal digits").
			WithHint("make them with: printf %%s KEY | sha256sum")
	}
	return [sha256.Size]byte(data), nil
}

func (k *keys) identify(_ context.Context, r *request) (identity, error) {
	text, err := k.place.find(r.payload)
	if err != nil {
		return identity{}, err
	}
	// All hashes are compared, so that the time does not show which one is near.
	hash := sha256.Sum256([]byte(text))
	found := -1
	for i := range k.hashes {
		if subtle.ConstantTimeCompare(hash[:], k.hashes[i][:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return identity{}, refuse("the key is not known")
	}
	return k.holders[found], nil
}

func (k *keys) at() place { return k.place }

func (k *keys) challenge(realm string) string {
	in, name := "header", k.place.header
	switch {
	case k.place.query != "":
		in, name = "query", k.place.query
	case k.place.cookie != "":
		in, name = "cookie", k.place.cookie
	}
	return "ApiKey realm=" + realm + ", in=" + in + ", name=" + quoted(name)
}
