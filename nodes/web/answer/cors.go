package answer

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
)

func corsField() *schema.Field {
	return schema.Group("cors", schema.Fields(
		schema.Strings("origins").Required().Doc("The origins, such as `https://shop.example`, `https://*.shop.example` or `http://localhost:5173`. `*` is all."),
		schema.Strings("methods").Default([]string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"}).Doc("What their pages may do."),
		schema.Strings("headers").Default([]string{"Authorization", "Content-Type"}).Doc("The headers that their pages may send. `*` is all."),
		schema.Strings("expose").Doc("The headers of answers that their pages may read, in addition to those that all may."),
		schema.Bool("credentials").Default(false).Doc("Whether browsers send cookies along. Not with the origin `*`."),
		schema.Duration("max_age").Default(10*time.Minute).Range(0, float64(24*time.Hour)).Doc("How long a browser need not ask again."),
	)).Doc("Lets pages of other origins read the answers. What a browser asks beforehand is answered by the listener, and starts no process.")
}

// A CORS says which pages of other origins may read the answers. It is immutable.
type CORS struct {
	all         bool
	exact       map[string]bool
	patterns    [][2]string // what an origin begins and ends with
	methods     []string
	headers     []string // nil is what is asked for
	expose      []string // nil is none
	maxAge      []string
	credentials bool
}

var (
	headerAll   = []string{"*"}
	headerTrue  = []string{"true"}
	errNoOrigin = errors.New("pages of this origin may not read the answers")
)

// newCORS returns nil without the field.
func newCORS(c schema.Config) (*CORS, error) {
	if !c.Has("cors") {
		return nil, nil
	}
	c = c.Group("cors")
	r := &CORS{
		exact:       make(map[string]bool),
		methods:     []string{strings.Join(c.Strings("methods"), ", ")},
		headers:     []string{strings.Join(c.Strings("headers"), ", ")},
		maxAge:      []string{strconv.Itoa(int(c.Duration("max_age").Seconds()))},
		credentials: c.Bool("credentials"),
	}
	for _, text := range c.Strings("origins") {
		if err := r.add(text); err != nil {
			return nil, c.Errorf("origins", diag.CodeBadValue, "%q is not an origin: %v", text, err).WithHint("write one such as https://shop.example, without a path")
		}
	}
	for _, name := range [...]string{"methods", "headers", "expose"} {
		for _, text := range c.Strings(name) {
			if !envelope.ValidToken(text) {
				return nil, c.Errorf(name, diag.CodeBadValue, "%q is not the name of a header or a method", text)
			}
			if text == "*" && name == "headers" {
				r.headers = nil
			}
			if text == "*" && name != "headers" && r.credentials {
				return nil, c.Errorf(name, diag.CodeBadValue, "with credentials, * means nothing to a browser").WithHint("write the names")
			}
		}
	}
	if list := c.Strings("expose"); len(list) > 0 {
		r.expose = []string{strings.Join(list, ", ")}
	}
	if r.all && r.credentials {
		return nil, c.Errorf("credentials", diag.CodeBadValue, "credentials cannot go to all origins: each page could act as its visitors").WithHint("write the origins in place of *")
	}
	return r, nil
}

// add adds an origin that a workflow has named.
func (c *CORS) add(text string) error {
	if text == "*" {
		c.all = true
		return nil
	}
	text = strings.ToLower(text)
	before, after, wild := strings.Cut(text, "*")
	u, err := url.Parse(strings.Replace(text, "*.", "any.", 1))
	switch {
	case err != nil || u.Scheme == "" || u.Host == "" || strings.Contains(u.Host, "*"):
		return errors.New("want a scheme and a host")
	case u.Scheme == "https" && u.Port() == "443" || u.Scheme != "https" && u.Port() == "80":
		return errors.New("want no port where it is the scheme's own: browsers leave it out")
	case u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return errors.New("want nothing after the host")
	case wild && (!strings.HasSuffix(before, "://") || strings.Count(after, ".") < 2):
		return errors.New("want at least two more labels after *")
	case wild:
		c.patterns = append(c.patterns, [2]string{before, after})
	default:
		c.exact[text] = true
	}
	return nil
}

// admits reports whether pages of an origin may read answers.
func (c *CORS) admits(origin string) bool {
	if c.all || c.exact[origin] {
		return true
	}
	for _, p := range c.patterns {
		label, ok := strings.CutPrefix(origin, p[0])
		if label, found := strings.CutSuffix(label, p[1]); ok && found && validLabels(label) {
			return true
		}
	}
	return false
}

// validLabels reports whether s can be the first labels of the name of a host.
func validLabels(s string) bool {
	for i := range len(s) {
		if c := s[i]; !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_') {
			return false
		}
	}
	return s != ""
}

// mark adds to an answer that the page which has asked may read it, unless the workflow has
// said who may.
func (c *CORS) mark(h http.Header, r *http.Request) {
	if len(h["Access-Control-Allow-Origin"]) > 0 {
		return
	}
	if c.all {
		h["Access-Control-Allow-Origin"] = headerAll
	} else {
		Vary(h, varyOrigin)
		origin := r.Header["Origin"]
		if len(origin) != 1 || !c.admits(origin[0]) {
			return
		}
		h["Access-Control-Allow-Origin"] = []string{origin[0]}
	}
	if c.credentials {
		h["Access-Control-Allow-Credentials"] = headerTrue
	}
	if c.expose != nil {
		h["Access-Control-Expose-Headers"] = c.expose
	}
}

// IsPreflight reports whether a browser asks what a page may do.
func IsPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) == 1 && len(r.Header["Access-Control-Request-Method"]) == 1
}

// Preflight sets the headers of the answer to a browser that asks what a page may do. An error
// is the answer instead.
func (c *CORS) Preflight(h http.Header, r *http.Request) *node.Error {
	if !c.admits(r.Header["Origin"][0]) {
		return &node.Error{Err: errNoOrigin, Status: http.StatusForbidden, Public: true}
	}
	h["Access-Control-Allow-Methods"] = c.methods
	h["Access-Control-Max-Age"] = c.maxAge
	if asked := r.Header["Access-Control-Request-Headers"]; c.headers != nil {
		h["Access-Control-Allow-Headers"] = c.headers
	} else if len(asked) > 0 {
		h["Access-Control-Allow-Headers"] = asked[:1]
		h["Vary"] = []string{"Access-Control-Request-Headers"}
	}
	return nil
}
