package auth

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// A sealer makes cookies that only it can read and change.
type sealer struct {
	aeads  []cipher.AEAD // the first seals, all open
	about  string        // what a cookie is good for, in addition to its name
	secure bool          // cookies are for https only
	name   string        // what the names of all cookies begin with
}

// maxSecrets bounds what a forged cookie costs.
const maxSecrets = 8

// newSealer makes a sealer of secrets, at least one: the first seals, all open. about
// separates cookies of nodes that have the same secret.
func newSealer(secrets []string, about, name string, secure bool) (*sealer, error) {
	s := &sealer{about: about, name: cookieName(name, secure), secure: secure}
	for _, secret := range secrets {
		key, err := hkdf.Key(sha256.New, []byte(secret), nil, "uniflow login cookies, version 1", 32)
		if err != nil {
			return nil, err
		}
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return nil, err
		}
		s.aeads = append(s.aeads, aead)
	}
	return s, nil
}

// cookieName returns the name of a cookie, which browsers take from this host only, and over
// https, if it is for that.
func cookieName(name string, secure bool) string {
	if secure {
		return "__Host-" + name
	}
	return name
}

// maxCookie is the size of the largest cookie that browsers take, with its name, in bytes.
// Attributes are not in it.
const maxCookie = 4000

// seal returns a cookie with content, as a line of Set-Cookie.
func (s *sealer) seal(suffix string, content any, lasts time.Duration) (string, error) {
	plain, err := json.Marshal(content)
	if err != nil {
		return "", err
	}
	name := s.name + suffix
	text := base64.RawURLEncoding.EncodeToString(s.aeads[0].Seal(nil, nil, plain, s.bound(name)))
	if n := len(name) + len(text); n > maxCookie {
		return "", fmt.Errorf("the session takes %d bytes, and a cookie at most %d: keep fewer claims", n, maxCookie)
	}
	return s.format(name, text, max(1, int(lasts/time.Second))), nil
}

// remove returns a line of Set-Cookie that removes a cookie.
func (s *sealer) remove(suffix string) string { return s.format(s.name+suffix, "", -1) }

func (s *sealer) format(name, text string, seconds int) string {
	c := http.Cookie{Name: name, Value: text, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: s.secure, SameSite: http.SameSiteLaxMode}
	return c.String()
}

// open reads the content of a cookie, and reports whether it is one that was sealed under
// this name. How old it may be is the content's business.
func (s *sealer) open(suffix, text string, content any) bool {
	data, err := strictURL.DecodeString(text)
	if err != nil || len(text) > maxCookie {
		return false
	}
	for _, aead := range s.aeads {
		if plain, err := aead.Open(nil, nil, data, s.bound(s.name+suffix)); err == nil {
			return json.Unmarshal(plain, content) == nil
		}
	}
	return false
}

// bound is what a cookie is bound to: one of another name or node cannot stand for it.
func (s *sealer) bound(name string) []byte { return []byte(s.about + "\x00" + name) }

// local returns where to go after a login: the path and the query of a URL of this site, or
// "/" if it is of another one.
func local(target string) string {
	u, err := url.Parse(target)
	if err != nil || len(target) > maxReturn || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" ||
		!strings.HasPrefix(target, "/") || strings.HasPrefix(target, "//") || strings.ContainsAny(target, "\\\t\r\n") {
		return "/"
	}
	u.Fragment = ""
	text := u.String()
	if !strings.HasPrefix(text, "/") || strings.HasPrefix(text, "//") {
		return "/"
	}
	return text
}

// maxReturn is the length of the longest target to come back to, in bytes.
const maxReturn = 2000
