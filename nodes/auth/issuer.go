package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/schema"
)

// origin is where the keys of an issuer are. It is comparable.
type origin struct {
	issuer string // of OpenID Connect, which says where its keys are; or empty
	jwks   string // the URL of the keys, without issuer
	tls    field.TLS
}

func (o origin) String() string {
	u, err := url.Parse(o.issuer + o.jwks)
	if err != nil {
		return "an issuer"
	}
	return u.Host // the rest of a URL may be from a template, and secret
}

// readURL checks a field that is the URL of an issuer. It must be one that cannot be changed on
// the way: keys that were changed let anyone in.
func readURL(c schema.Config, name string) error {
	u, err := field.ParseURL(c.String(name), "http", "https")
	switch {
	case err != nil:
		return c.Errorf(name, diag.CodeBadValue, "want a URL such as https://id.example.com").
			WithHint("it has no user and no fragment")
	case !isSafe(u):
		return c.Errorf(name, diag.CodeBadValue, "want https: those who are on the way could put keys of their own there").
			WithHint("http is for addresses of this machine; tls.ca is for certificates of an authority of your own")
	}
	return nil
}

// isSafe reports whether what a URL has cannot be changed on the way.
func isSafe(u *url.URL) bool {
	if u.Scheme == "https" || u.Hostname() == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return u.Scheme == "http" && err == nil && addr.IsLoopback()
}

// configuration is where an issuer of OpenID Connect describes itself, under its URL.
const configuration = "/.well-known/openid-configuration"

// metadata is what an issuer of OpenID Connect says about itself.
type metadata struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	UserInfo      string   `json:"userinfo_endpoint"`
	EndSession    string   `json:"end_session_endpoint"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
	NamesItself   bool     `json:"authorization_response_iss_parameter_supported"` // in callbacks: RFC 9207
}

// A snapshot is what was read of an issuer. It is immutable.
type snapshot struct {
	metadata metadata
	keys     []jose.JSONWebKey // public, for signatures
}

// readIssuer reads the keys, and before them where they are.
func readIssuer(ctx context.Context, client *http.Client, o origin) (*snapshot, error) {
	s := &snapshot{metadata: metadata{JWKS: o.jwks}}
	if o.issuer != "" {
		s.metadata = metadata{}
		if err := get(ctx, client, strings.TrimSuffix(o.issuer, "/")+configuration, "", &s.metadata); err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		if s.metadata.Issuer != o.issuer {
			return nil, fmt.Errorf("configuration: the issuer calls itself %q", node.Clip(s.metadata.Issuer, maxQuote))
		}
		for _, at := range []string{s.metadata.JWKS, s.metadata.Token, s.metadata.UserInfo} {
			if u, err := url.Parse(at); err != nil || !isSafe(u) && at != "" {
				return nil, errors.New("configuration: it names a URL that is not one of https")
			}
		}
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := get(ctx, client, s.metadata.JWKS, "", &set); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	for _, data := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(data, &key) != nil || !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
			continue // a key of a kind that is not known here, or for something else
		}
		if s.keys = append(s.keys, key); len(s.keys) > maxKeys {
			return nil, fmt.Errorf("keys: there are more than %d", maxKeys)
		}
	}
	if len(s.keys) == 0 {
		return nil, errors.New("keys: there is none for signatures")
	}
	return s, nil
}

const (
	maxKeys     = 100
	maxDocument = 1 << 20         // bytes of a document of an issuer
	patience    = 5 * time.Second // for an issuer to answer all that is read
)

// get reads a document of JSON, with a token unless that is empty. The error does not have
// the URL.
func get(ctx context.Context, client *http.Client, at, token string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return errors.New("the URL cannot be used")
	}
	r.Header.Set("Accept", "application/json")
	if token != "" {
		r.Header.Set("Authorization", bearer+token)
	}
	resp, data, err := httpclient.Fetch(client, r, maxDocument)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusOK:
		return fmt.Errorf("the answer has the status %d", resp.StatusCode)
	case json.Unmarshal(data, into) != nil:
		return errors.New("the answer is not the JSON that is expected")
	}
	return nil
}

// newClient returns a client for issuers. It follows no redirects, which could lead to a
// place that isSafe would refuse.
func newClient(tls field.TLS) (*http.Client, error) {
	t, err := httpclient.Settings{ConnectTimeout: patience, IdleTimeout: 30 * time.Second, TLS: tls}.Open()
	if err != nil {
		return nil, err
	}
	client := t.Client(httpclient.NoRedirects)
	client.Timeout = patience
	return client, nil
}

// acquire returns the issuer of an origin, which nodes share.
func acquire(init *node.Init, o origin) (*issuer, func() error, error) {
	return node.Acquire(init.Pool, "auth issuer "+field.Sum(o), func() (*issuer, error) {
		client, err := newClient(o.tls)
		if err != nil {
			return nil, field.Place(err, init.Config)
		}
		return newIssuer(o, client, init.Clock, init.Log), nil
	})
}

// An issuer keeps the keys of one origin. Any goroutine may call its methods.
type issuer struct {
	origin origin
	client *http.Client
	clock  node.Clock
	log    *slog.Logger
	ctx    context.Context
	cancel context.CancelFunc
	issuerState
}
