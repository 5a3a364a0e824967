package httpclient

import (
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// Fields are the fields that [NewEndpoint] reads, except for url, whose text and schemes are
// different for each kind.
func Fields() []*schema.Field {
	return []*schema.Field{
		schema.Any("header").Doc("Headers of each request: a map of strings or lists of strings. `Host` names another host than that of `url` to the service. A key belongs into a variable that is secret."),
		schema.Group("auth", schema.Fields(
			schema.String("user").Doc("The user, for basic authentication."),
			schema.String("password").Secret().Doc("The password of the user."),
			schema.String("token").Secret().Doc("The token, for bearer authentication."),
		)).Doc("The credentials: `user` and `password`, or `token`."),
		schema.Enum("egress", "any", "public").Default("any").Doc("Which addresses may be connected to: any, or public ones only."),
		schema.String("proxy").Doc("The URL of a proxy (`http`, `https` or `socks5`), or `none`. If left out, `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment decide, except with `egress: public`."),
		schema.Group("proxy_auth", schema.Fields(
			schema.String("user").Required().Doc("The user."),
			schema.String("password").Secret().Doc("The password of the user."),
		)).Doc("The credentials for the proxy."),
		field.NewTLS("How services are trusted over HTTPS. The files are read when the node starts, so also at each reload."),
	}
}
