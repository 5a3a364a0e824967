package admin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
)

const (
	codeLife    = 10 * time.Minute
	codeEvery   = time.Minute // between codes that pages ask for
	sessionIdle = 12 * time.Hour
	maxSessions = 1000
)

// auth says who may ask for what. Any goroutine may use it.
type auth struct {
	tokens map[sum]api.Scope // of the options
	most   api.Scope         // that anybody has
	hosts  []string          // under which the server may be asked

	mu       sync.Mutex
	code     sum // of the code that was printed last
	codeEnds time.Time
	codeMade time.Time
	sessions map[sum]*session
}

// A sum is a hash: comparing it takes the same time for any secret.
type sum [sha256.Size]byte

func sumOf(secret string) sum { return sha256.Sum256([]byte(secret)) }

type session struct {
	scope api.Scope
	ends  time.Time
}

func newAuth(opts *Options) *auth {
	a := &auth{tokens: make(map[sum]api.Scope), most: opts.Most, hosts: opts.Hosts, sessions: make(map[sum]*session)}
	if a.most == api.Open {
		a.most = api.Control
	}
	if opts.ViewToken != "" {
		a.tokens[sumOf(opts.ViewToken)] = api.View
	}
	if opts.Token != "" {
		a.tokens[sumOf(opts.Token)] = api.Control
	}
	return a
}

// scope returns what a request may ask for. It is not known if it has a token that is not.
func (a *auth) scope(r *http.Request) (scope api.Scope, known bool) {
	header := r.Header.Get("Authorization")
	if header == "" {
		if len(a.tokens) > 0 {
			return api.Open, true
		}
		return min(api.View, a.most), true
	}
	scheme, token, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return api.Open, false
	}
	scope, known = a.lookup(strings.TrimSpace(token))
	return min(scope, a.most), known
}

func (a *auth) lookup(token string) (scope api.Scope, known bool) {
	given := sumOf(token)
	for want, s := range a.tokens {
		if subtle.ConstantTimeCompare(given[:], want[:]) == 1 {
			scope, known = s, true
		}
	}
	if known {
		return scope, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.sessions[given] // of 256 random bits: time tells nothing of others
	if s == nil || time.Now().After(s.ends) {
		return api.Open, false
	}
	s.ends = time.Now().Add(sessionIdle)
	return s.scope, true
}

// newCode makes a code that is good for one session. Those before it are good no more. It returns none
// less than a minute after the last.
func (a *auth) newCode() (code string, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if !a.codeMade.IsZero() && now.Sub(a.codeMade) < codeEvery {
		return "", false
	}
	code = rand.Text()
	a.code, a.codeMade, a.codeEnds = sumOf(code), now, now.Add(codeLife)
	return code, true
}

// open opens a session.
func (a *auth) open(c api.Credentials) (api.Session, bool) {
	scope := api.Control
	if c.Token != "" {
		var known bool
		if scope, known = a.lookup(c.Token); !known {
			return api.Session{}, false
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if c.Token == "" {
		given := sumOf(c.Code)
		if now.After(a.codeEnds) || subtle.ConstantTimeCompare(given[:], a.code[:]) == 0 {
			return api.Session{}, false
		}
		a.codeEnds = time.Time{}
	}
	for key, s := range a.sessions {
		if now.After(s.ends) || len(a.sessions) >= maxSessions {
			delete(a.sessions, key)
		}
	}
	token := rand.Text() + rand.Text()
	s := &session{min(scope, a.most), now.Add(sessionIdle)}
	a.sessions[sumOf(token)] = s
	return api.Session{Token: token, Scope: s.scope.String(), Expires: s.ends.UTC()}, true
}

// host reports whether a request names the server as its clients do. A page in a browser could reach it
// under a name of the page's site that resolves to this machine (DNS rebinding). That page has no token,
// so a request with one may use any name, as scrapers do; and an address is not such a name.
func (a *auth) host(r *http.Request) bool {
	if r.Header.Get("Authorization") != "" {
		return true // it is refused if the token is not known
	}
	host := hostOf(r)
	if isLoopback(host) || slices.ContainsFunc(a.hosts, func(name string) bool { return strings.EqualFold(name, host) }) {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil && len(a.tokens) > 0
}

// guard lets through what a client may ask of a route.
func (s *Server) guard(route *api.Route, next http.Handler) http.Handler {
	scope := route.Scope
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		may, known := s.auth.scope(r)
		switch {
		case crossSite(r) && !(route.Path == "/{$}" && r.Header.Get("Sec-Fetch-Mode") == "navigate"):
			api.Fail(w, http.StatusForbidden, "pages of other sites are not answered", "")
		case !s.auth.host(r):
			api.Fail(w, http.StatusForbidden, "the server is not asked under its name", "ask for localhost or its address, or name the host with --admin-host")
		case !known || scope > may && may == api.Open:
			header.Set("WWW-Authenticate", `Bearer realm="uniflow admin"`)
			api.Fail(w, http.StatusUnauthorized, "the request has no token, or one that is not known", "send the header Authorization: Bearer TOKEN")
		case scope > may:
			api.Fail(w, http.StatusForbidden, "this needs the scope "+scope.String()+", and the client has "+may.String(), s.more(scope))
		default:
			if scope == api.Control && r.Method != http.MethodGet && !route.Asks { // what changes something
				s.opts.Log.Info("admin request", "method", r.Method, "path", r.URL.Path, "client", r.RemoteAddr)
			}
			r.Body = http.MaxBytesReader(w, r.Body, api.MaxBody)
			next.ServeHTTP(w, r)
		}
	})
}

// more says how a client gets a scope.
func (s *Server) more(scope api.Scope) string {
	switch {
	case scope > s.auth.most:
		return "the program was started with --admin-scope " + s.auth.most.String()
	case len(s.auth.tokens) > 0:
		return "send the token of --admin-token"
	case s.opts.Announce == nil:
		return "start the program with --console, in a terminal or with --console-code-file, and open the address that it prints, or send the code at its end with --code; or start it with --admin-token"
	}
	return "open the address that the program has printed or written to --console-code-file, or send the code at its end with --code; POST " + api.CodePath + " asks for another"
}

// session opens a session for a code or a token.
func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	var c api.Credentials
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil || (c.Code == "") == (c.Token == "") {
		api.Fail(w, http.StatusBadRequest, "want a JSON object with code or token", "")
		return
	}
	session, ok := s.auth.open(c)
	if !ok {
		api.Fail(w, http.StatusUnauthorized, "the code or token is not known, or no longer", s.more(api.Control))
		return
	}
	s.json(w, session)
}

// newCode has the program print another code.
func (s *Server) newCode(w http.ResponseWriter, _ *http.Request) {
	if s.opts.Announce == nil {
		api.Fail(w, http.StatusNotFound, "the program prints no codes", s.more(api.Control))
		return
	}
	if err := s.announce(); err != nil {
		api.Fail(w, http.StatusTooManyRequests, err.Error(), "")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// A refusal is where a mux says that it has no such path, or not with that method: as the API does.
type refusal struct{ http.ResponseWriter }

func (r refusal) WriteHeader(status int) {
	api.Fail(r.ResponseWriter, status, strings.ToLower(http.StatusText(status)), api.Base+" lists the paths")
}

func (refusal) Write(text []byte) (int, error) { return len(text), nil }

// crossSite reports whether a request comes from a page of another site. The page
// could not read the answer, but it could start a profile. Browsers set
// Sec-Fetch-Site, which pages cannot set, and older ones set Origin.
func crossSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none": // none: the user has typed the address
	default:
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	at, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(at.Host, r.Host)
}
