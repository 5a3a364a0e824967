package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A guard is a node of the kind auth.
type guard struct {
	types      []string // of schemes
	schemes    []scheme
	challenges []string // of schemes
	scopes     []string
	require    lang.Program // nil lets all pass
	clock      node.Clock
	counts     [len(results)]atomic.Uint64 // requests by result
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
	var err error
	g.require, err = o.Expr(init.Config, "require", lang.Options{Condition: true, Timeout: evaluation, Log: init.Log, Warn: init.Warn})
	return g, errors.Join(append(found, err)...)
}

// Open implements [node.Opener].
func (g *guard) Open(context.Context) error {
	for i, s := range g.schemes {
		if s, ok := s.(opener); ok {
			if err := s.open(); err != nil {
				return errors.Join(err, closeAll(g.schemes[:i]))
			}
		}
	}
	return nil
}

// Close lets go what the schemes have acquired.
func (g *guard) Close() error { return closeAll(g.schemes) }

func closeAll(schemes []scheme) error {
	var failed []error
	for _, s := range schemes {
		if s, ok := s.(opener); ok {
			failed = append(failed, s.Close())
		}
	}
	return errors.Join(failed...)
}

// Ready implements [node.Readier].
func (g *guard) Ready() error {
	for _, s := range g.schemes {
		if s, ok := s.(opener); ok {
			if err := s.ready(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Admits implements [node.Screener]: the body of a request without credentials need not be
// read.
func (g *guard) Admits(pkt node.Packet) bool {
	for _, s := range g.schemes {
		if _, err := s.at().find(pkt.Payload); !errors.Is(err, errAbsent) {
			return true
		}
	}
	return false
}

// Receive implements [node.Node].
func (g *guard) Receive(p node.Process, pkt node.Packet) node.Result {
	r := &request{payload: pkt.Payload, sent: pkt.Payload, now: g.clock.Now()}
	if run, ok := node.RunOf(p); ok {
		r.payload, r.lost = run.Whole(pkt.Payload)
	}
	id, by, err := g.identify(p.Context(), r)
	if errors.Is(err, errWaits) {
		return node.Block(func(ctx context.Context) node.Result {
			r.wait = true
			id, by, err := g.identify(ctx, r)
			return g.admit(ctx, p, r, id, by, err)
		})
	}
	return g.admit(p.Context(), p, r, id, by, err)
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
		case by < 0, isRefusal(err) && !isRefusal(failed): // a scheme that could not decide might have accepted it
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
func (g *guard) admit(ctx context.Context, p node.Process, r *request, id identity, by int, err error) node.Result {
	if r.lost && errors.Is(err, errAbsent) {
		return g.fail(errLost)
	}
	if err != nil {
		return g.fail(g.unknown(by, err))
	}
	if id.failed != nil {
		p.Root().Enlist(node.PhaseMark, func(_ context.Context, failure error) (kept bool, err error) {
			if failure != nil {
				id.failed()
			}
			return failure == nil, nil
		})
	}
	who := authShape.Map(value.String(id.subject), texts(id.scopes), id.claims, value.String(g.types[by]))
	if err := g.allow(ctx, r, who, id, by); err != nil {
		return g.fail(err)
	}
	g.counts[0].Add(1)
	return node.Send(0, r.sent.With("auth", who))
}

// errLost is the error of a run whose program has ended before its credentials were checked.
var errLost error = &node.Error{
	Err:    errors.New("credentials are not stored, and the program has ended before they were checked: send the request again, with another idempotency key"),
	Status: http.StatusServiceUnavailable, Code: "credentials", Public: true,
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
