package auth

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// attempt is what the browser keeps of a login that it begins.
type attempt struct {
	State, Nonce, Verifier, Return string
	Until                          int64 // in seconds since 1970
}

// tries count logins, to find one that never ends.
type tries struct {
	Count int
	Since int64 // in seconds since 1970
}

const (
	attemptLasts = 10 * time.Minute
	triesLast    = time.Minute
	maxTries     = 10
	maxAttempts  = 5 // that a browser may have
)

// begin sends a browser to the provider.
func (n *login) begin(ctx context.Context, payload value.Value, back string) node.Result {
	config, err := n.config(ctx)
	if err != nil {
		return node.Fail(err)
	}
	now := n.clock.Now()
	var t tries
	if text, given := cookie(payload, n.seal.name+"-tries"); given != 1 || !n.seal.open("-tries", text, &t) || now.Unix() >= t.Since+int64(triesLast/time.Second) {
		t = tries{Since: now.Unix()}
	}
	if t.Count++; t.Count > maxTries {
		e := refused("loop", "%d logins in %s have not made a session: the browser does not keep the cookie %s, or there is another one of this name", maxTries, triesLast, n.seal.name)
		e.RetryAfter = triesLast
		return node.Fail(e)
	}
	a := attempt{State: oauth2.GenerateVerifier(), Nonce: oauth2.GenerateVerifier(), Verifier: oauth2.GenerateVerifier(), Return: back, Until: now.Add(attemptLasts).Unix()}
	kept, err := n.seal.seal("-"+a.State[:8], a, attemptLasts)
	if err != nil {
		return node.Fail(err)
	}
	counted, err := n.seal.seal("-tries", t, triesLast)
	if err != nil {
		return node.Fail(err)
	}
	options := []oauth2.AuthCodeOption{oauth2.S256ChallengeOption(a.Verifier), oauth2.SetAuthURLParam("nonce", a.Nonce)}
	if n.prompt != "" {
		options = append(options, oauth2.SetAuthURLParam("prompt", n.prompt))
	}
	return redirect(http.StatusFound, config.AuthCodeURL(a.State, options...), append(n.stale(payload), kept, counted)...)
}

// stale removes the cookies of logins that were not ended if there are many: a request has
// only so many bytes for them.
func (n *login) stale(payload value.Value) (lines []string) {
	for _, name := range cookieNames(payload) {
		if suffix, ok := strings.CutPrefix(name, n.seal.name+"-"); ok && suffix != "tries" && envelope.ValidToken(suffix) {
			lines = append(lines, n.seal.remove("-"+suffix))
		}
	}
	if len(lines) < maxAttempts {
		return nil
	}
	return lines
}

// config returns how to talk to the provider. It waits until that is known.
func (n *login) config(ctx context.Context) (*oauth2.Config, error) {
	have, err := n.tokens.keys[0].remote.await(ctx)
	if err != nil {
		return nil, err
	}
	m := have.metadata
	u, err := url.Parse(m.Authorization)
	if err != nil || !isSafe(u) || m.Token == "" {
		return nil, unavailable(errors.New("it does not say where to log in"))
	}
	return &oauth2.Config{
		ClientID: n.clientID, ClientSecret: n.clientSecret, Scopes: n.scopes, RedirectURL: n.url.String() + n.path + "/callback",
		Endpoint: oauth2.Endpoint{AuthURL: m.Authorization, TokenURL: m.Token, AuthStyle: n.style(m)},
	}, nil
}

// style says where the provider takes the secret.
func (n *login) style(m metadata) oauth2.AuthStyle {
	if n.clientSecret == "" {
		return oauth2.AuthStyleInParams
	}
	for _, method := range m.Methods {
		if method == "client_secret_basic" {
			return oauth2.AuthStyleInHeader
		}
	}
	if len(m.Methods) == 0 {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}

// logout ends the session, here and at the provider.
func (n *login) logout(payload value.Value) node.Result {
	if n.crossSite(payload) {
		return node.Fail(errCrossSite)
	}
	to := "/"
	if have := n.tokens.keys[0].remote.issuer.current(); have != nil && have.metadata.EndSession != "" {
		if u, err := url.Parse(have.metadata.EndSession); err == nil && isSafe(u) {
			q := u.Query()
			q.Set("client_id", n.clientID)
			q.Set("post_logout_redirect_uri", n.url.String()+"/")
			u.RawQuery = q.Encode()
			to = u.String()
		}
	}
	return redirect(http.StatusSeeOther, to, n.seal.remove(""), n.seal.remove("-tries"))
}
