// Package field has fields that kinds have in common, each with what reads it: [NewTLS] and
// [TLSOf], [NewBackoff] and [BackoffOf]; [ParseURL] is for fields that are the URL of a
// service. [Options] are for fields that are expressions, such as a key.
//
// A function NewX declares a field, and XOf reads it from a config. The package must not know
// the kinds, nor what they connect to.
package field

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/schema"
)

// A RefusedError is a value of a field that will not do by itself at another time: wrong
// credentials, a file that may not be read.
type RefusedError struct {
	Field string // of the config, such as "sasl.password"; may be empty
	Err   error
}

// Error is the message of Err alone: the field is for the place.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap lets errors.Is find the reason.
func (e *RefusedError) Unwrap() error { return e.Err }

// Place returns a [*RefusedError] at its field of a config, and any other error as it is.
func Place(err error, c schema.Config) error {
	var refused *RefusedError
	if !errors.As(err, &refused) {
		return err
	}
	c, field := c.Find(refused.Field)
	d := c.Errorf(field, diag.CodeBadValue, "%v", refused)
	d.Err = refused
	return d
}

// Sum returns what stands for settings in the key of a [node.Pool]: keys are shown in messages,
// and settings contain secrets.
func Sum(settings any) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", settings))
	return hex.EncodeToString(sum[:])
}

// ErrCredentials is the error of a URL with a user, which belongs into fields that are secret.
var ErrCredentials = errors.New("a URL must not contain credentials")

// ParseURL reads the URL of a service: one of these schemes, at most two, with a host and
// without credentials or a fragment. The error shows nothing of it, as it may be a secret.
func ParseURL(text string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, errors.New("not a URL")
	case !slices.Contains(schemes, u.Scheme):
		return nil, errors.New("want a URL of " + strings.Join(schemes, " or "))
	case u.Hostname() == "":
		return nil, errors.New("the URL has no host")
	case u.User != nil:
		return nil, ErrCredentials
	case u.Fragment != "":
		return nil, errors.New("a URL of a service has no fragment")
	}
	return u, nil
}
