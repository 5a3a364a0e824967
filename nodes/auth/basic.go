package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// basic is the scheme of names and passwords.
type basic struct {
	users   map[string]*user
	unknown *user         // stands for users that there are not, so that they take as long
	key     []byte        // of user.last
	seats   chan struct{} // one for each password that is being checked
	queue   atomic.Int64  // requests that have a seat or wait for one
}

type user struct {
	identity identity
	hash     []byte
	last     atomic.Pointer[[sha256.Size]byte] // MAC of the last password that was right
}

const (
	// maxPassword is how much of a password bcrypt takes, in bytes.
	maxPassword = 72

	// maxQueue is how many passwords may wait to be checked: at 50 ms each and one
	// processor the last waits for 5 s.
	maxQueue = 100
)

func newBasic(c schema.Config) (scheme, error) {
	b := &basic{users: make(map[string]*user), key: make([]byte, 32)}
	b.seats = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	rand.Read(b.key) // never fails
	var found []error
	if len(c.List("users")) == 0 {
		found = append(found, c.Errorf("users", diag.CodeBadValue, "there are no users").WithHint("add one such as {name: ann, bcrypt: …}"))
	}
	highest := 0
	for _, uc := range c.List("users") {
		u := &user{identity: identity{subject: uc.String("name"), scopes: uc.Strings("scopes"), claims: value.Map()}, hash: []byte(uc.String("bcrypt"))}
		cost, err := bcrypt.Cost(u.hash)
		switch {
		case err != nil || len(u.hash) != 60:
			found = append(found, uc.Errorf("bcrypt", diag.CodeBadValue, "want a bcrypt hash, which begins with $2").
				WithHint("make one with: htpasswd -nbBC 12 NAME PASSWORD"))
			continue
		case cost > 16:
			found = append(found, uc.Errorf("bcrypt", diag.CodeBadValue, "a cost of %d takes seconds for each request", cost).WithHint("use a cost from 10 to 14"))
			continue
		case strings.Contains(uc.String("name"), ":") || uc.String("name") == "":
			found = append(found, uc.Errorf("name", diag.CodeBadValue, "a name has at least one character, and no colon"))
			continue
		case b.users[uc.String("name")] != nil:
			found = append(found, uc.Errorf("name", diag.CodeBadValue, "there are two users of this name"))
			continue
		}
		b.users[uc.String("name")] = u
		if cost > highest {
			highest, b.unknown = cost, &user{hash: u.hash}
		}
	}
	return b, errors.Join(found...)
}

var errWrong = &refusal{"the name or the password is wrong"}

func (b *basic) identify(ctx context.Context, r *request) (identity, error) {
	name, password, err := parseBasic(r.payload)
	if err != nil {
		return identity{}, err
	}
	u, known := b.users[name]
	if !known {
		u = b.unknown
	}
	mac := hmac.New(sha256.New, b.key)
	mac.Write([]byte(password))
	sum := [sha256.Size]byte(mac.Sum(nil))
	switch last := u.last.Load(); {
	case known && last != nil && hmac.Equal(last[:], sum[:]):
		return u.identity, nil
	case len(password) > maxPassword:
		return identity{}, errWrong
	case !r.wait:
		return identity{}, errWaits
	}
	if err := b.check(ctx, u.hash, []byte(password)); err != nil {
		return identity{}, err
	}
	if !known {
		return identity{}, errWrong
	}
	u.last.Store(&sum)
	return u.identity, nil
}

// check compares a password with a hash. It waits for its turn.
func (b *basic) check(ctx context.Context, hash, password []byte) error {
	defer b.queue.Add(-1)
	if b.queue.Add(1) > maxQueue {
		return &node.Error{Err: errBusy, Status: http.StatusServiceUnavailable, Code: "busy", RetryAfter: 5 * time.Second}
	}
	select {
	case b.seats <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-b.seats }()
	if bcrypt.CompareHashAndPassword(hash, password) != nil {
		return errWrong
	}
	return nil
}

var errBusy = errors.New("too many passwords are being checked")

var basicPlace = place{header: "Authorization", prefix: "basic "}

// parseBasic returns the name and the password of a request.
func parseBasic(payload value.Value) (name, password string, err error) {
	text, err := basicPlace.find(payload)
	if err != nil {
		return "", "", err
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return "", "", refuse("the credentials are not base64")
	}
	name, password, ok := strings.Cut(string(data), ":")
	if !ok {
		return "", "", refuse("the credentials have no colon")
	}
	return name, password, nil
}

func (b *basic) at() place { return basicPlace }

func (b *basic) challenge(realm string) string { return "Basic realm=" + realm + `, charset="UTF-8"` }
