package redact

import (
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// private are the names of fields whose values are credentials wherever they occur, such as of headers.
// They are in lower case, without "-" and "_".
var private = map[string]bool{
	"authorization": true, "proxyauthorization": true, "cookie": true, "setcookie": true, "xapikey": true, "apikey": true,
	"password": true, "passwd": true, "passphrase": true, "secret": true, "clientsecret": true, "privatekey": true,
	"token": true, "accesstoken": true, "refreshtoken": true, "idtoken": true, "sessiontoken": true, "xcsrftoken": true, "csrftoken": true,
}

var plainName = strings.NewReplacer("-", "", "_", "")

// Private reports whether a field with a name has credentials, as "Authorization", "set-cookie" and "api_key" do.
func Private(name string) bool { return private[strings.ToLower(plainName.Replace(name))] }

// Fields returns v with [Hidden] in place of what has a name that is [Private], at any depth. A payload of a stranger may
// have credentials that no variable declares as secret.
func Fields(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindList:
		elems := make([]value.Value, 0, v.Len())
		for _, e := range v.Elems() {
			elems = append(elems, Fields(e))
		}
		return value.List(elems...)
	case value.KindMap:
		fields := make([]value.Field, 0, v.Len())
		for name, e := range v.Fields() {
			if Private(name) && !e.IsNull() {
				e = value.String(Hidden)
			}
			fields = append(fields, value.Field{Name: name, Value: Fields(e)})
		}
		return value.Map(fields...)
	}
	return v
}

// Restore returns an edited value with the original in place of what is as it was shown: shown is the original without
// what is hidden.
func Restore(edited, shown, original value.Value) value.Value {
	if edited.Equal(shown) {
		return original
	}
	switch {
	case edited.Kind() == value.KindMap && shown.Kind() == value.KindMap && original.Kind() == value.KindMap:
		var b value.MapBuilder
		for name, e := range edited.Fields() {
			s, known := shown.Get(name)
			if o, has := original.Get(name); known && has {
				e = Restore(e, s, o)
			}
			b.Set(name, e)
		}
		return b.Build()
	case edited.Kind() == value.KindList && shown.Kind() == value.KindList && original.Kind() == value.KindList && edited.Len() == shown.Len() && edited.Len() == original.Len():
		elems := make([]value.Value, 0, edited.Len())
		for i, e := range edited.Elems() {
			elems = append(elems, Restore(e, shown.At(i), original.At(i)))
		}
		return value.List(elems...)
	}
	return edited
}

// StandIn returns a value of the same form with nothing of its data but the names of fields, for code that runs where
// its results are shown: what it makes of a secret would not be recognised.
func StandIn(v value.Value) value.Value {
	switch v.Kind() {
	case value.KindMap:
		var b value.MapBuilder
		for name, field := range v.Fields() {
			b.Set(name, StandIn(field))
		}
		return b.Build()
	case value.KindList:
		var elems []value.Value
		for _, e := range v.Elems() {
			elems = append(elems, StandIn(e))
		}
		return value.List(elems...)
	case value.KindString:
		return value.String(Hidden)
	case value.KindBool:
		return value.Bool(false)
	case value.KindInt, value.KindUint:
		return value.Int(0)
	case value.KindFloat:
		return value.Float(0)
	}
	return value.Null()
}
