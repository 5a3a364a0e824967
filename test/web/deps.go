// Package web tests kinds against servers, browsers and judges of documents that are modules
// of their own: OpenID providers, certificate authorities, Chromium.
package web

import (
	_ "github.com/uniflow-labs/uniflow"
	_ "github.com/zitadel/oidc/v3/pkg/op"
)
