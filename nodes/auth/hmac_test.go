package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/value"
)

func sum(secret, text string) []byte {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// hook is a request with a body and headers.
func hook(body string, header ...string) value.Value {
	var h value.MapBuilder
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], value.List(value.String(header[i+1])))
	}
	return value.Map(value.Field{Name: "header", Value: h.Build()}, value.Field{Name: "raw", Value: value.Binary([]byte(body))})
}

const secret = "a secret of the webhook"

// TestPresets signs as senders do.
func TestPresets(t *testing.T) {
	f := func(preset, secretField string, sign func(body, at string) value.Value) {
		t.Helper()
		t.Run(preset, func(t *testing.T) {
			t.Helper()
			f := load(t, "any: {type: hmac, preset: "+preset+", keys: [{id: old, secret: whsec_dGhlIHNlY3JldCBvZiB5ZXN0ZXJkYXk=}, {id: shop, secret: "+secretField+", scopes: [hook]}]}")
			at := fmt.Sprint(f.Now().Unix())
			good := sign(`{"a": 1}`, at)
			ok := `{"subject":"shop","scopes":["hook"],"claims":{},"type":"hmac"}`
			f1 := func(what string, v value.Value, want string) {
				t.Helper()
				if got := show(f.Send("g", v)); got != want {
					t.Errorf("%s: got %s, want %s", what, got, want)
				}
			}
			f1("changed", good.With("raw", value.Binary([]byte(`{"a": 2}`))), "401: the signature is wrong")
			f1("empty", good.With("raw", value.Null()), "401: the signature is wrong")
			f1("good", good, ok)
			f1("without", value.Map(), "401: credentials are missing")
			f1("no bytes", good.Without("raw"), "0: the request does not have the bytes of its body: signatures can be checked behind a listener only")
			if preset == "github" || preset == "shopify" {
				f1("again", good, ok)
				return
			}
			f1("again", good, "409: the request came before")
			f1("late", sign("x", fmt.Sprint(f.Now().Unix()-301)), "401: the timestamp is too old")
			f1("early", sign("x", fmt.Sprint(f.Now().Unix()+301)), "401: the timestamp is in the future")
			f1("odd", sign("x", "1e9"), "401: the timestamp is malformed")
			// Out of order is fine, as long as it is not old.
			f1("second", sign("y", fmt.Sprint(f.Now().Unix()+10)), ok)
			f1("first", sign("x", fmt.Sprint(f.Now().Unix()-10)), ok)
			f.Sleep(299 * time.Second)
			f1("again, later", good, "409: the request came before")
		})
	}
	f("github", secret, func(body, _ string) value.Value {
		return hook(body, "X-Hub-Signature-256", "sha256="+hex.EncodeToString(sum(secret, body)))
	})
	f("shopify", secret, func(body, _ string) value.Value {
		return hook(body, "X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(sum(secret, body)))
	})
	f("slack", secret, func(body, at string) value.Value {
		return hook(body, "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+hex.EncodeToString(sum(secret, "v0:"+at+":"+body)))
	})
	f("stripe", secret, func(body, at string) value.Value {
		return hook(body, "Stripe-Signature", "t="+at+",v1="+hex.EncodeToString(sum("of yesterday", at+"."+body))+",v1="+hex.EncodeToString(sum(secret, at+"."+body))+",v0=00")
	})
	f("standard", "whsec_"+base64.StdEncoding.EncodeToString([]byte(secret)), func(body, at string) value.Value {
		return hook(body, "Webhook-Id", "msg_1", "Webhook-Timestamp", at, "Webhook-Signature", "v1a,AAAA v1,"+base64.StdEncoding.EncodeToString(sum(secret, "msg_1."+at+"."+body)))
	})
}

// TestOwnFormat signs in a way of one's own, and remembers signatures for a time.
func TestOwnFormat(t *testing.T) {
	f := load(t, "any: {type: hmac, header: x-signature, encoding: base64, replay: 1m, keys: [{secret: "+secret+"}]}")
	good := hook("hello", "X-Signature", base64.StdEncoding.EncodeToString(sum(secret, "hello")))
	ok := `{"subject":"hmac","scopes":[],"claims":{},"type":"hmac"}`
	for _, want := range []string{ok, "409: the request came before"} {
		if got := show(f.Send("g", good)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f.Sleep(time.Minute)
	if got := show(f.Send("g", good)); got != "409: the request came before" {
		t.Errorf("got %s, want that it is known", got)
	}
	f.Sleep(2 * time.Minute)
	if got := show(f.Send("g", good)); got != ok {
		t.Errorf("got %s, want that it is forgotten", got)
	}
	if got := show(f.Send("g", hook("hello", "X-Signature", "?"))); got != "401: the signature is malformed" {
		t.Errorf("got %s, want that it is malformed", got)
	}
}

// TestReplayAfterError lets a sender try again when the process failed.
func TestReplayAfterError(t *testing.T) {
	f := flowtest.New(t, kinds()...)
	document := "- {kind: auth, name: g, any: {type: hmac, preset: slack, keys: [{secret: " + secret + "}]}, ports: {out: [{name: next}]}}\n"
	f.Load(document)
	at := fmt.Sprint(f.Now().Unix())
	good := hook("x", "X-Slack-Request-Timestamp", at, "X-Slack-Signature", "v0="+hex.EncodeToString(sum(secret, "v0:"+at+":x")))
	f.Probe("next").Do(flowtest.Fail(errors.New("the till is on fire")))
	for range 2 {
		if got := show(f.Send("g", good)); got != "0: the till is on fire" {
			t.Errorf("got %s, want what follows", got)
		}
	}
	f.Probe("next").Do(flowtest.Answer(value.String("done")))
	if got := show(f.Send("g", good)); got != `"done"` {
		t.Errorf("got %s, want that it passes", got)
	}
	f.Load(document + "- {kind: nop, name: other}\n")
	if got := show(f.Send("g", good)); got != "409: the request came before" {
		t.Errorf("got %s, want that a reload does not forget it", got)
	}
}
