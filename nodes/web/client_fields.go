package web

import "github.com/uniflow-labs/uniflow/schema"

// Fields that all kinds have which call a service.

func headerField() *schema.Field {
	return schema.Any("header").Doc("Headers of each request: a map of strings or lists of strings. `Host` names another host than that of `url` to the service. A key belongs into a variable that is secret.")
}

func authField() *schema.Field {
	return schema.Group("auth", schema.Fields(
		schema.String("user").Doc("The user, for basic authentication."),
		schema.String("password").Secret().Doc("The password of the user."),
		schema.String("token").Secret().Doc("The token, for bearer authentication."),
	)).Doc("The credentials: `user` and `password`, or `token`.")
}

func egressField() *schema.Field {
	return schema.Enum("egress", "any", "public").Default("any").Doc("Which addresses may be connected to: any, or public ones only.")
}

func proxyField() *schema.Field {
	return schema.String("proxy").Doc("The URL of a proxy (`http`, `https` or `socks5`), or `none`. If left out, `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment decide, except with `egress: public`.")
}

func proxyAuthField() *schema.Field {
	return schema.Group("proxy_auth", schema.Fields(
		schema.String("user").Required().Doc("The user."),
		schema.String("password").Secret().Doc("The password of the user."),
	)).Doc("The credentials for the proxy.")
}

// tlsDoc is the text of the field tls.
const tlsDoc = "How services are trusted over HTTPS. The files are read when the node starts, so also at each reload."
