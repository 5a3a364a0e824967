package auth

import (
	_ "embed"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed login.md
var loginPage string

func loginDef() *node.Def {
	return &node.Def{
		Kind:    "login",
		Summary: "Signs people in with a provider of OpenID Connect.",
		Page:    node.ReadPage(loginPage),
		Config: schema.Fields(
			schema.String("issuer").Required().Doc("The URL of the provider, where its discovery document is."),
			schema.String("url").Required().Doc("The URL of this site, as browsers see it: scheme, host and port."),
			schema.String("path").Default("/auth").Doc("The prefix of the node's own paths."),
			schema.String("client_id").Required().Doc("The id of this site at the provider."),
			schema.String("client_secret").Secret().Doc("The secret that the provider has given to this site. A public client has none."),
			schema.Strings("secret").Required().Secret().Doc("The secret that encrypts cookies: at least 32 bytes, such as those of `openssl rand -hex 32`. If there are several, new cookies use the first, and all can read cookies."),
			schema.Strings("scopes").Default([]string{"openid", "profile", "email"}).Doc("The scopes to ask the provider for."),
			schema.String("prompt").Doc("What the provider asks people for at each login, such as `login` or `consent`. Unset, it is `consent` if the scopes have `offline_access`, since strict providers need both, and nothing otherwise. An empty text asks for nothing."),
			schema.Strings("claims").Default([]string{"name", "email", "email_verified", "preferred_username", "groups", "roles"}).Doc("The claims of the ID token that the session keeps."),
			schema.Strings("algorithms").Words(false, algorithmNames()...).Default([]string{"RS256"}).Doc("The algorithms that the keys of the provider may be used with."),
			schema.Duration("ttl").Default(12*time.Hour).Range(float64(time.Minute), float64(90*24*time.Hour)).Doc("How long a session lasts."),
			schema.Duration("leeway").Default(30*time.Second).Range(0, float64(10*time.Minute)).Doc("How far clocks may differ."),
			schema.List("ended", schema.Fields(
				schema.String("before").Required().Doc("Ends sessions that began before this time, in RFC 3339: `2026-01-31T12:00:00Z`."),
				schema.String("subject").Doc("Ends only sessions of this subject; unset, those of all subjects."),
			)).Doc("Sessions that the server has ended."),
			schema.Bool("required").Default(true).Doc("Whether a session is required. If not, requests without a session pass without `auth`; `PATH/login` begins a session."),
			schema.String("cookie").Default("login").Doc("The prefix of the names of the cookies."),
			field.NewTLS("How to connect to a provider whose URL is `https`. Files are read when the node opens."),
		),
		In:     []node.Port{{Name: "in", Doc: "A request."}},
		Out:    []node.Port{{Name: "out", Doc: "The request, with `auth`."}},
		Error:  "Why there is no session, with a `status` of 401, 403 or 503, and a `code`.",
		Recall: node.Always(node.Attached),
		Traits: func(c schema.Config) node.Traits {
			return node.Traits{
				Is:    node.SendsParts | node.IgnoresBody, // a session that is renewed adds a header to the answer
				Paths: []string{strings.TrimSuffix(c.String("path"), "/") + "/callback"},
			}
		},
		Lint:    field.LintTLS,
		OpenAPI: describeLogin,
		New:     newLogin,
	}
}

// A login is a node of that kind.
type login struct {
	issuer       string
	clientID     string
	clientSecret string
	url          *url.URL // of this site
	path         string   // of the node's own paths
	scopes       []string
	prompt       string
	claims       []string
	ttl          time.Duration
	required     bool
	tokens       *tokens // ID tokens
	seal         *sealer
	ended        ended
	clock        node.Clock
	renewals     renewals
}

func newLogin(init *node.Init) (node.Node, error) {
	c := init.Config
	n := &login{
		issuer: c.String("issuer"), clientID: c.String("client_id"), clientSecret: c.String("client_secret"), path: strings.TrimSuffix(c.String("path"), "/"),
		claims: c.Strings("claims"), ttl: c.Duration("ttl"), required: c.Bool("required"), clock: init.Clock,
	}
	n.scopes = append([]string{"openid"}, c.Strings("scopes")...)
	n.scopes = appendScopes(nil, texts(n.scopes))
	if n.prompt = c.String("prompt"); !c.Has("prompt") && slices.Contains(n.scopes, "offline_access") {
		n.prompt = "consent" // without it, OpenID Connect lets a provider ignore the scope (Core, section 11)
	}
	n.tokens = &tokens{init: init, rules: rules{issuer: n.issuer, audience: []string{n.clientID}, leeway: c.Duration("leeway")}}
	found := []error{n.tokens.discover(c), n.readOrigin(c)}
	if !envelope.ValidToken(c.String("cookie")) {
		found = append(found, c.Errorf("cookie", diag.CodeBadValue, "want a name of letters, digits and hyphens"))
	}
	if path := c.String("path"); path != local(path) || strings.ContainsAny(path, "?%") {
		found = append(found, c.Errorf("path", diag.CodeBadValue, "want a path such as /auth"))
	}
	secrets := c.Strings("secret")
	for _, secret := range secrets {
		if len(secret) < 32 {
			found = append(found, c.Errorf("secret", diag.CodeBadValue, "the secret is shorter than 32 bytes").WithHint("make one with: openssl rand -hex 32").AsPlain())
		}
	}
	if len(secrets) > maxSecrets {
		found = append(found, c.Errorf("secret", diag.CodeBadValue, "there are %d secrets, and each cookie may be tried with all of them: want at most %d", len(secrets), maxSecrets).WithHint("leave out those that are older than ttl"))
	}
	var err error
	n.ended, err = newEnded(c, n.clock.Now().Add(n.tokens.rules.leeway))
	if err := errors.Join(append(found, err)...); err != nil {
		return nil, err
	}
	n.seal, err = newSealer(secrets, n.issuer+"\x00"+n.clientID, c.String("cookie"), n.url.Scheme == "https")
	return n, err
}

// readOrigin reads the URL of this site.
func (n *login) readOrigin(c schema.Config) (err error) {
	if err := readURL(c, "url"); err != nil {
		return err
	}
	n.url, err = url.Parse(c.String("url"))
	if err != nil || strings.Trim(n.url.Path, "/") != "" || n.url.RawQuery != "" {
		return c.Errorf("url", diag.CodeBadValue, "want scheme, host and port only").WithHint("write one such as https://shop.example.com; the paths are below path, %s", c.String("path"))
	}
	n.url = &url.URL{Scheme: n.url.Scheme, Host: n.url.Host}
	return nil
}
