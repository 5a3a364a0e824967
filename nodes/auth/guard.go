package auth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// An identity is who a request comes from.
type identity struct {
	subject string
	scopes  []string
	claims  value.Value // a map
}

// A scheme is one way to prove who a request comes from. Many goroutines use it
// concurrently.
type scheme interface {
	// identify returns who sent a request; errAbsent if the request has nothing that the
	// scheme looks for; errWaits if it cannot tell without waiting and r.wait is not set;
	// a *refusal if it does not accept what the request has; or another failure.
	identify(ctx context.Context, r *request) (identity, error)

	// challenge is the value of WWW-Authenticate, without what is wrong.
	challenge(realm string) string
}

// bearer is how the challenges of tokens begin.
const bearer = "Bearer "

// quoted returns text as a quoted string of a header.
func quoted(text string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(text) + `"`
}

// A request is what the schemes see of one.
type request struct {
	payload value.Value
	now     time.Time
	wait    bool // the schemes may block
}

var (
	errAbsent = errors.New("credentials are missing")
	errWaits  = errors.New("the scheme has to wait")
)

// A refusal is why a scheme does not accept a request. Its text is for the client.
type refusal struct{ why string }

func (r *refusal) Error() string { return r.why }

func refuse(format string, args ...any) error { return &refusal{fmt.Sprintf(format, args...)} }

// A guard is a node of the kind auth.
type guard struct {
	types      []string // of schemes
	schemes    []scheme
	challenges []string // of schemes
	scopes     []string
	require    lang.Program // nil lets all pass
	clock      node.Clock
}

// evaluation is how long one evaluation of an expression may take.
const evaluation = 10 * time.Second

func newGuard(o stream.Options, init *node.Init) (node.Node, error) {
	g := &guard{scopes: init.Config.Strings("scopes"), clock: init.Clock}
	var found []error
	for _, c := range init.Config.List("any") {
		s, err := newScheme(c, init)
		if err != nil {
			found = append(found, err)
			continue
		}
		g.types = append(g.types, c.String("type"))
		g.schemes = append(g.schemes, s)
		g.challenges = append(g.challenges, s.challenge(quoted(init.Config.String("realm"))))
	}
	if !init.Config.Has("require") {
		return g, errors.Join(found...)
	}
	var err error
	g.require, err = o.Languages.Compile(o.Language, init.Config.Text("require"), lang.Options{Mode: lang.ModeExpression, Timeout: evaluation, Log: init.Log})
	return g, errors.Join(append(found, err)...)
}

func newScheme(c schema.Config, init *node.Init) (scheme, error) {
	if err := checkFields(c, "any", fieldsOf, c.String("type")); err != nil {
		return nil, err
	}
	for _, key := range c.List("keys") {
		if err := checkFields(key, "keys", keyFieldsOf, c.String("type")); err != nil {
			return nil, err
		}
	}
	switch c.String("type") {
	case typeKey:
		return newKeys(c)
	case typeBasic:
		return newBasic(c)
	default:
		return newJWT(c)
	}
}

// checkFields refuses the fields that another type has.
func checkFields(c schema.Config, where string, of map[string][]string, typ string) error {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if types := of[name]; c.Has(name) && !slices.Contains(types, typ) {
			return c.Errorf(name, diag.CodeBadValue, "%s of type %s has no field %s", where, typ, name).
				WithHint("it is for %s", strings.Join(types, " and "))
		}
	}
	return nil
}

// Receive implements [node.Node].
func (g *guard) Receive(p node.Process, pkt node.Packet) node.Result {
	r := &request{payload: pkt.Payload, now: g.clock.Now()}
	id, by, err := g.identify(p.Context(), r)
	if errors.Is(err, errWaits) {
		return node.Block(func(ctx context.Context) node.Result {
			r.wait = true
			id, by, err := g.identify(ctx, r)
			return g.admit(ctx, r, id, by, err)
		})
	}
	return g.admit(p.Context(), r, id, by, err)
}

// identify returns who sent a request, and the index of the scheme that knows or, after an
// error, of the one that failed; -1 if none found anything.
func (g *guard) identify(ctx context.Context, r *request) (id identity, by int, err error) {
	by, err = -1, errAbsent
	for i, s := range g.schemes {
		id, failed := s.identify(ctx, r)
		switch {
		case failed == nil:
			return id, i, nil
		case errors.Is(failed, errWaits):
			return identity{}, i, errWaits
		case errors.Is(failed, errAbsent):
		case by < 0, isRefusal(err) && !isRefusal(failed): // what could not tell might have accepted it
			by, err = i, failed
		}
	}
	return identity{}, by, err
}

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// admit sends a request on, or fails.
func (g *guard) admit(ctx context.Context, r *request, id identity, by int, err error) node.Result {
	if err != nil {
		return node.Fail(g.unknown(by, err))
	}
	who := authShape.Map(value.String(id.subject), texts(id.scopes), id.claims, value.String(g.types[by]))
	if err := g.allow(ctx, r, who, id, by); err != nil {
		return node.Fail(err)
	}
	return node.Send(0, r.payload.With("auth", who))
}

var authShape = value.NewShape("subject", "scopes", "claims", "type")

func texts(list []string) value.Value {
	elems := make([]value.Value, len(list))
	for i, s := range list {
		elems[i] = value.String(s)
	}
	return value.List(elems...)
}

// unknown returns the error of a request whose sender is not known. The message is public:
// it is fixed text, or about what the client itself has sent.
func (g *guard) unknown(by int, err error) error {
	if !errors.Is(err, errAbsent) && !isRefusal(err) {
		return err
	}
	e := &node.Error{Err: err, Status: http.StatusUnauthorized, Code: "credentials", Public: true, Challenges: g.challenges}
	if by >= 0 && strings.HasPrefix(g.challenges[by], bearer) {
		e.Challenges = slices.Clone(g.challenges)
		e.Challenges[by] += `, error="invalid_token", error_description=` + quoted(err.Error())
	}
	return e
}

// allow returns an error if the sender must not do what it asks for.
func (g *guard) allow(ctx context.Context, r *request, who value.Value, id identity, by int) error {
	for _, scope := range g.scopes {
		if !slices.Contains(id.scopes, scope) {
			e := &node.Error{Err: fmt.Errorf("the scope %s is needed", scope), Status: http.StatusForbidden, Code: "scope", Public: true}
			if strings.HasPrefix(g.challenges[by], bearer) {
				e.Challenges = []string{g.challenges[by] + `, error="insufficient_scope", scope=` + quoted(strings.Join(g.scopes, " "))}
			}
			return e
		}
	}
	if g.require == nil {
		return nil
	}
	v, err := g.require.Eval(ctx, who.With("request", r.payload))
	ok, isBool := v.AsBool()
	switch {
	case err != nil && ctx.Err() != nil:
		return err
	case err != nil: // such as a claim that the token does not have
		return &node.Error{Err: fmt.Errorf("require: %w", err), Status: http.StatusForbidden, Code: "forbidden"}
	case !isBool:
		return fmt.Errorf("require: want true or false, got %s", v.Kind())
	case !ok:
		return &node.Error{Err: errForbidden, Status: http.StatusForbidden, Code: "forbidden", Public: true}
	}
	return nil
}

var errForbidden = errors.New("the sender must not do this")
