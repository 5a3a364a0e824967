package auth

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// Algorithms are those that keys may be used with.
var algorithms = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA, jose.HS256, jose.HS384, jose.HS512,
}

func algorithmNames() []string {
	names := make([]string, len(algorithms))
	for i, alg := range algorithms {
		names[i] = string(alg)
	}
	return names
}

func (t *tokens) newVerifier(c schema.Config) (verifier, error) {
	v := verifier{id: c.String("id")}
	var err error
	if v.algorithms, err = readAlgorithms(c); err != nil {
		return v, err
	}
	var field string
	n := 0
	for _, name := range []string{"secret", "pem", "jwks"} {
		if c.Has(name) {
			n++
		}
	}
	switch {
	case n != 1:
		return v, c.Errorf("", diag.CodeBadValue, "want one of secret, pem and jwks")
	case c.Has("jwks"):
		if err := readURL(c, "jwks"); err != nil {
			return v, err
		}
		v.remote, err = t.newRemote(origin{jwks: c.String("jwks")})
		return v, errors.Join(err, checkRemote(c, v.algorithms))
	case c.Has("secret"):
		field = "secret"
		secret := []byte(c.String("secret"))
		if block, _ := pem.Decode(secret); block != nil {
			return v, c.Errorf("secret", diag.CodeBadValue, "the secret is a PEM block").
				WithHint("a public key is not a secret: who has it could sign tokens; use pem")
		}
		v.key = secret
	default:
		field = "pem"
		if v.key, err = readPEM(c); err != nil {
			return v, err
		}
	}
	for _, alg := range v.algorithms {
		if why := unfit(alg, v.key); why != "" {
			return v, c.Errorf(field, diag.CodeBadValue, "%s", why).AsPlain()
		}
	}
	return v, nil
}

func readAlgorithms(c schema.Config) (list []jose.SignatureAlgorithm, err error) {
	for _, name := range c.Strings("algorithms") {
		if !slices.Contains(algorithms, jose.SignatureAlgorithm(name)) {
			d := c.Errorf("algorithms", diag.CodeBadValue, "an algorithm is not known")
			if !c.Hidden("algorithms") {
				d = c.Errorf("algorithms", diag.CodeBadValue, "the algorithm %q is not known", node.Clip(name, maxQuote))
			}
			return nil, d.WithHint("use some of %s", strings.Join(algorithmNames(), ", "))
		}
		list = append(list, jose.SignatureAlgorithm(name))
	}
	if len(list) == 0 {
		return nil, c.Errorf("algorithms", diag.CodeBadValue, "the algorithms are missing").
			WithHint("name what the key is good for, such as [RS256]: a token must not choose it")
	}
	return list, nil
}

// maxQuote is how many bytes of a token an error quotes.
const maxQuote = 60

// readPEM reads a public key, or the public key of a certificate.
func readPEM(c schema.Config) (crypto.PublicKey, error) {
	fail := func(msg string) error {
		return c.Errorf("pem", diag.CodeBadValue, "%s", msg).WithHint("paste a public key or a certificate, which begins with -----BEGIN PUBLIC KEY----- or -----BEGIN CERTIFICATE-----")
	}
	block, rest := pem.Decode([]byte(c.String("pem")))
	switch {
	case block == nil:
		return nil, fail("there is no PEM block")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, fail("there is more than one PEM block")
	}
	var key any
	var err error
	switch {
	case strings.HasSuffix(block.Type, "PRIVATE KEY"):
		return nil, fail("this is a private key, which only the issuer should have")
	case block.Type == "CERTIFICATE":
		var cert *x509.Certificate
		if cert, err = x509.ParseCertificate(block.Bytes); err == nil {
			key = cert.PublicKey
		}
	case block.Type == "RSA PUBLIC KEY":
		key, err = x509.ParsePKCS1PublicKey(block.Bytes)
	default:
		key, err = x509.ParsePKIXPublicKey(block.Bytes)
	}
	if err != nil {
		return nil, fail("the PEM block cannot be read")
	}
	return key, nil
}

// unfit says why a key is not one for an algorithm; it is empty if the key is.
func unfit(alg jose.SignatureAlgorithm, key any) string {
	switch name := string(alg); k := key.(type) {
	case []byte:
		switch least := leastSecret(alg); {
		case least == 0:
			return name + " needs a public key, not a secret"
		case len(k) < least:
			return fmt.Sprintf("the secret is too short for %s, which needs %d bytes", name, least)
		}
		return ""
	case *rsa.PublicKey:
		switch {
		case !strings.HasPrefix(name, "RS") && !strings.HasPrefix(name, "PS"):
			return name + " is not an algorithm of an RSA key"
		case k.N.BitLen() < 2048:
			return "the RSA key has fewer than 2048 bits"
		}
		return ""
	case *ecdsa.PublicKey:
		if k.Curve != curveOf(alg) {
			return name + " is not the algorithm of this elliptic curve"
		}
		return ""
	case ed25519.PublicKey:
		if alg != jose.EdDSA {
			return name + " is not the algorithm of an Ed25519 key"
		}
		return ""
	}
	return "keys of this type are not known"
}

// leastSecret returns the length of the shortest secret for an algorithm, in bytes; 0 if it
// takes a public key.
func leastSecret(alg jose.SignatureAlgorithm) int {
	switch alg {
	case jose.HS256:
		return 32
	case jose.HS384:
		return 48
	case jose.HS512:
		return 64
	}
	return 0
}

// curveOf returns the curve of an algorithm; nil if it has none.
func curveOf(alg jose.SignatureAlgorithm) elliptic.Curve {
	switch alg {
	case jose.ES256:
		return elliptic.P256()
	case jose.ES384:
		return elliptic.P384()
	case jose.ES512:
		return elliptic.P521()
	}
	return nil
}
