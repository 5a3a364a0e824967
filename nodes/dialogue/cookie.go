package dialogue

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// cookieFields returns the fields of a cookie.
func cookieFields() schema.Object {
	return schema.Fields(
		schema.String("name").Default("session").Doc("Its name."),
		schema.Strings("secret").Secret().Doc("What it is signed with, of 16 bytes or more, such as the output of `openssl rand -base64 32`. Of several, at most 8, the first signs, and all are good: put a new one in front, and leave the old one out when browsers have come back, such as after `ttl`. Needed unless the store is `memory`, where a random one is as good."),
		schema.Enum("secure", "auto", "always", "never").Default("auto").Doc("Whether browsers send it by HTTPS only; `auto` decides by the scheme of the request."),
		schema.Enum("same_site", "lax", "strict", "none").Default("lax").Doc("Whether browsers send it with requests that other sites cause. `none` needs HTTPS."),
		schema.String("path").Default("/").Doc("The path below which browsers send it."),
		schema.String("domain").Doc("The domain whose hosts share it; unset is the host of the request alone."),
	)
}

// cookies reads and makes the cookies that name the sessions of browsers. It is immutable.
type cookies struct {
	made    http.Cookie // without a value
	auto    bool        // Secure by the scheme
	secrets [][]byte    // the first signs; nil until Open for a random one
	ttl     time.Duration
}

// shortSecret is the length of a secret that is too short, in bytes. maxSecrets bounds what
// a forged cookie costs.
const (
	shortSecret = 15
	maxSecrets  = 8
)

var (
	cookieName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}$") })
	sameSites  = map[string]http.SameSite{"lax": http.SameSiteLaxMode, "strict": http.SameSiteStrictMode, "none": http.SameSiteNoneMode}
)

// newCookies reads the field cookie. durable says that sessions outlive the program.
func newCookies(c schema.Config, ttl time.Duration, durable bool) (*cookies, error) {
	k := &cookies{ttl: ttl, auto: c.String("secure") == "auto", made: http.Cookie{
		Name: c.String("name"), Path: c.String("path"), Domain: c.String("domain"), HttpOnly: true,
		Secure: c.String("secure") == "always", SameSite: sameSites[c.String("same_site")],
	}}
	if !cookieName().MatchString(k.made.Name) {
		return nil, c.Errorf("name", diag.CodeBadValue, "is not the name of a cookie").WithHint("want letters, digits, _ and -")
	}
	probe := k.made
	if probe.Value = "x"; probe.Valid() != nil || !strings.HasPrefix(probe.Path, "/") {
		field, hint := "path", "want a path such as /"
		if probe.Path = "/"; probe.Valid() != nil {
			field, hint = "domain", "want the name of a host, such as example.com"
		}
		return nil, c.Errorf(field, diag.CodeBadValue, "does not work in a cookie").WithHint("%s", hint)
	}
	if k.made.SameSite == http.SameSiteNoneMode && c.String("secure") == "never" {
		return nil, c.Errorf("same_site", diag.CodeBadValue, "is none, which browsers take with HTTPS only").WithHint("write secure: auto, or same_site: lax")
	}
	secrets := c.Strings("secret")
	if len(secrets) == 1 && secrets[0] == "" {
		secrets = nil
	}
	switch {
	case len(secrets) == 0 && durable:
		return nil, c.Errorf("secret", diag.CodeBadValue, "is missing").
			WithHint("browsers would lose their sessions with the end of the program: take a secret from env, or set key")
	case len(secrets) > maxSecrets:
		return nil, c.Errorf("secret", diag.CodeBadValue, "has %d of them, want at most %d", len(secrets), maxSecrets).WithHint("leave out those that are older than ttl")
	}
	for _, secret := range secrets {
		if len(secret) <= shortSecret {
			return nil, c.Errorf("secret", diag.CodeBadValue, "is shorter than %d bytes", shortSecret+1).WithHint("make one with openssl rand -base64 32").AsPlain()
		}
		k.secrets = append(k.secrets, []byte(secret))
	}
	return k, nil
}

// Sizes of what a cookie says, in bytes: the id of the session, when the cookie was made,
// and the signature.
const (
	idBytes     = 16
	stampBytes  = 8
	signedBytes = idBytes + stampBytes
)

// errNoRequest is the failure of a session that has neither a key nor a cookie.
var errNoRequest = &keyError{errors.New("the payload is not a request of a listener, which would have a cookie: set key")}

// session returns the key of the session that a request names; one that names none gets a
// new cookie, and one whose cookie is getting old or has an old secret, too.
func (k *cookies) session(ctx context.Context, request value.Value, now time.Time) (string, error) {
	header, ok := request.Get("header")
	if !ok || header.Kind() != value.KindMap {
		return "", errNoRequest
	}
	sent, _ := header.Get("Cookie")
	id, stamp, ok := k.find(sent)
	if !ok {
		id = make([]byte, idBytes)
		rand.Read(id) // never fails
	}
	if age := now.Sub(stamp); !ok || stamp.IsZero() || k.ttl > 0 && age > renewAfter(k.ttl) {
		scheme, _ := request.Get("scheme")
		s, _ := scheme.AsString()
		if !handover.SetHeader(ctx, "Set-Cookie", k.cookie(id, now, s == "https")) {
			if !ok {
				return "", errNoRequest
			}
		} else { // a cache in between would give the cookie, and so the session, to others
			handover.SetHeader(ctx, "Cache-Control", "no-store")
		}
	}
	return base64.RawURLEncoding.EncodeToString(id), nil
}

// renewAfter is the age from which a cookie is made again, and a session that has not
// changed is saved again.
func renewAfter(ttl time.Duration) time.Duration { return ttl / 10 }

// find returns the first cookie that is signed, without a stamp if that is by an old secret. There may be others of its name, of other
// paths or domains.
func (k *cookies) find(sent value.Value) (id []byte, stamp time.Time, ok bool) {
	if sent.Kind() != value.KindList {
		sent = value.List(sent)
	}
	for _, line := range sent.Elems() {
		text, _ := line.AsString()
		for part := range strings.SplitSeq(text, ";") {
			name, data, _ := strings.Cut(strings.TrimSpace(part), "=")
			if name != k.made.Name {
				continue
			}
			if id, stamp, ok = k.open(data); ok {
				return id, stamp, true
			}
		}
	}
	return nil, stamp, false
}

func (k *cookies) open(text string) (id []byte, stamp time.Time, ok bool) {
	data, err := base64.RawURLEncoding.Strict().DecodeString(strings.Trim(text, `"`))
	if err != nil || len(data) != signedBytes+sha256.Size {
		return nil, stamp, false
	}
	for i, secret := range k.secrets {
		if !hmac.Equal(data[signedBytes:], k.sign(secret, data[:signedBytes])) {
			continue
		}
		if i == 0 {
			stamp = time.Unix(int64(binary.BigEndian.Uint64(data[idBytes:])), 0)
		}
		return data[:idBytes], stamp, true
	}
	return nil, stamp, false
}

func (k *cookies) sign(secret, data []byte) []byte {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("uniflow session " + k.made.Name + "\x00"))
	mac.Write(data)
	return mac.Sum(nil)
}

// cookie returns the value of Set-Cookie. A browser keeps it until the session has expired,
// or, without ttl, until it ends.
func (k *cookies) cookie(id []byte, now time.Time, https bool) string {
	c := k.made
	data := binary.BigEndian.AppendUint64(append(make([]byte, 0, signedBytes+sha256.Size), id...), uint64(now.Unix()))
	c.Value = base64.RawURLEncoding.EncodeToString(append(data, k.sign(k.secrets[0], data)...))
	if k.ttl > 0 {
		c.MaxAge = int((k.ttl + renewAfter(k.ttl) + time.Second) / time.Second)
	}
	c.Secure = c.Secure || k.auto && https || c.SameSite == http.SameSiteNoneMode
	return c.String()
}
