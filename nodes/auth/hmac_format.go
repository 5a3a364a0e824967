package auth

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"maps"
	"net/textproto"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
)

// A format is how a sender signs.
type format struct {
	name      string
	header    string           // canonical; it has the signature
	prefix    string           // before each signature
	timestamp string           // the header with the time of the signature; empty for none
	id        string           // the header with the id of the message; empty for none
	split     string           // what is between several signatures; empty if there is one
	time      string           // before the timestamp, if that is in header
	signed    string           // what is signed, with {body}, {timestamp} and {id}
	hash      func() hash.Hash // of the HMAC
	decode    func(string) ([]byte, error)
	encoded   string // before a secret that is in base64; empty if secrets are bytes
}

// presets returns the formats of well-known senders.
func presets() map[string]format {
	return map[string]format{
		"github":   {header: "X-Hub-Signature-256", prefix: "sha256=", signed: "{body}", decode: hex.DecodeString},
		"shopify":  {header: "X-Shopify-Hmac-Sha256", signed: "{body}", decode: base64.StdEncoding.DecodeString},
		"slack":    {header: "X-Slack-Signature", prefix: "v0=", timestamp: "X-Slack-Request-Timestamp", signed: "v0:{timestamp}:{body}", decode: hex.DecodeString},
		"standard": {header: "Webhook-Signature", prefix: "v1,", split: " ", timestamp: "Webhook-Timestamp", id: "Webhook-Id", signed: "{id}.{timestamp}.{body}", decode: base64.StdEncoding.DecodeString, encoded: "whsec_"},
		"stripe":   {header: "Stripe-Signature", prefix: "v1=", split: ",", timestamp: "Stripe-Signature", time: "t=", signed: "{timestamp}.{body}", decode: hex.DecodeString},
	}
}

func presetNames() []string { return slices.Sorted(maps.Keys(presets())) }

// newFormat reads the fields of a scheme.
func newFormat(c schema.Config) (format, error) {
	if c.Has("preset") {
		for _, name := range []string{"header", "prefix", "signed", "timestamp", "message_id", "hash", "encoding"} {
			if c.Has(name) {
				return format{}, c.Errorf(name, diag.CodeBadValue, "the preset says this").WithHint("remove it, or the preset")
			}
		}
		f := presets()[c.String("preset")]
		f.name, f.hash = c.String("preset"), sha256.New
		return f, nil
	}
	canonical := textproto.CanonicalMIMEHeaderKey
	f := format{
		name: "hmac", header: canonical(c.String("header")), prefix: c.String("prefix"), timestamp: canonical(c.String("timestamp")),
		id: canonical(c.String("message_id")), signed: c.String("signed"), hash: sha256.New, decode: hex.DecodeString,
	}
	if c.String("hash") == "sha512" {
		f.hash = sha512.New
	}
	if c.String("encoding") == "base64" {
		f.decode = base64.StdEncoding.DecodeString
	}
	for _, name := range []string{"header", "timestamp", "message_id"} {
		if text := c.String(name); (c.Has(name) || name == "header") && !envelope.ValidToken(text) {
			return f, c.Errorf(name, diag.CodeBadValue, "want the name of a header").WithHint("or use a preset: %s", strings.Join(presetNames(), ", "))
		}
	}
	switch {
	case !strings.Contains(f.signed, "{body}"):
		return f, c.Errorf("signed", diag.CodeBadValue, "the body is not signed").WithHint("write {body} where the bytes of the body are")
	case f.timestamp != "" && !strings.Contains(f.signed, "{timestamp}"):
		return f, c.Errorf("signed", diag.CodeBadValue, "the timestamp is not signed, so it could be changed").WithHint("write {timestamp} where it is, or remove the field timestamp")
	case f.timestamp == "" && strings.Contains(f.signed, "{timestamp}"):
		return f, c.Errorf("timestamp", diag.CodeBadValue, "the header with the timestamp is missing")
	case f.id == "" && strings.Contains(f.signed, "{id}"):
		return f, c.Errorf("message_id", diag.CodeBadValue, "the header with the id is missing")
	}
	return f, nil
}

// minSecret is the shortest secret, in bytes: people make up the secrets of webhooks.
const minSecret = 16

func (f *format) secret(key schema.Config) ([]byte, error) {
	text := key.String("secret")
	if f.encoded != "" {
		secret, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, f.encoded))
		if err != nil || len(secret) < minSecret {
			return nil, key.Errorf("secret", diag.CodeBadValue, "want %s and at least %d bytes in base64", f.encoded, minSecret).AsPlain()
		}
		return secret, nil
	}
	if len(text) < minSecret {
		return nil, key.Errorf("secret", diag.CodeBadValue, "the secret is missing, or shorter than %d bytes", minSecret).
			WithHint("make one with: openssl rand -hex 32").AsPlain()
	}
	return []byte(text), nil
}
