package auth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// An identity is who a request comes from.
type identity struct {
	subject string
	scopes  []string
	claims  value.Value // a map
	failed  func()      // called if the process ends with an error; nil for nothing
}

// A scheme is one way to prove who a request comes from. Many goroutines use it
// concurrently.
type scheme interface {
	// identify returns who sent a request; errAbsent if the request has nothing that the
	// scheme looks for; errWaits if it cannot tell without waiting and r.wait is not set;
	// a *refusal if it does not accept what the request has; or another failure.
	identify(ctx context.Context, r *request) (identity, error)

	// at is where the scheme looks first. A request that has nothing there is not accepted.
	at() place

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
	sent    value.Value // what is sent on: without what a run does not store
	lost    bool        // credentials may have been there before a crash
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

// An opener is a scheme that acquires something.
type opener interface {
	open() error
	io.Closer
	ready() error
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
	case typeHMAC:
		return newSignatures(c, init)
	default:
		return newJWT(c, init)
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
